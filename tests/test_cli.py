"""The command line as its users meet it: exit codes, one clear message, JSON and nothing else."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import click
import pytest
from commanded import started, wingspan

import bench.commands
from bench.cli import COMMANDS, cli

HEAVY = ("torch", "transformers", "mlx", "mlx_lm", "trl", "peft", "pandas", "pyarrow", "matplotlib", "seaborn", "scipy", "numpy")


def test_starting_the_command_line_loads_nothing_heavy() -> None:
    code = f"import sys, bench.cli; print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_is_told_from_the_table_alone() -> None:
    code = "import sys; from bench.cli import cli; cli(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    listed, modules = done.stdout.rsplit("\n[", 1)
    assert all(f"\n  {name} " in listed and line in listed for name, line in COMMANDS.items())
    assert not [name for name in COMMANDS if f"'bench.commands.{name}'" in modules]


def test_every_row_of_the_table_is_a_command_and_every_command_has_its_row() -> None:
    context = click.Context(cli)
    loaded = {name: cli.get_command(context, name) for name in COMMANDS}
    assert all(isinstance(each, click.Command) and each.name == name and each.help for name, each in loaded.items())
    modules = {each.name: import_module(f"bench.commands.{each.name}") for each in iter_modules(bench.commands.__path__)}
    written = {name for name, module in modules.items() if isinstance(getattr(module, name, None), click.Command)}
    assert written == set(COMMANDS)


def test_a_command_that_is_none_is_answered_with_one_that_is() -> None:
    result = wingspan("pln")
    assert result.exit_code == 2
    assert "No such command 'pln'. Did you mean 'plan'?" in result.stderr


def test_a_regression_exits_1_a_closed_pipe_4_and_a_fault_of_our_own_70() -> None:
    """Click leaves with 1, too, where what it writes to is gone, and Python for what nobody caught: `main` tells them apart."""
    code = (
        "import sys, click, bench.cli as line\n"
        "from bench.commands.exits import Regressed\n"
        "def leave(): raise Regressed\n"
        "def pipe(): raise BrokenPipeError(32, 'Broken pipe')\n"
        "def fault(): raise ImportError('no such thing')\n"
        "line.cli.callback = {'regressed': leave, 'closed': pipe, 'fault': fault}[sys.argv.pop()]\n"
        "line.main()"
    )
    ended = [
        subprocess.run([sys.executable, "-c", code, "doctor", way], check=False, timeout=60, capture_output=True, text=True)
        for way in ("regressed", "closed", "fault")
    ]
    assert [each.returncode for each in ended] == [1, 4, 70]
    assert ["Traceback" in each.stderr for each in ended] == [False, False, True]
    assert ended[-1].stderr.endswith("ImportError: no such thing\n")


def test_the_whole_story(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite, results, out = write_suite({"a": {}, "b": {"fail": "oom_host"}}), tmp_path / "results", tmp_path / "out"
    planned = wingspan("plan", suite, "--results", results)
    assert planned.exit_code == 0
    assert "a/lora/fake@cpu" in planned.stdout
    ran = wingspan("run", suite, "--results", results, "--json")
    assert ran.exit_code == 0
    document = json.loads(ran.stdout)
    assert {row["outcome"] for row in document["runs"]} == {"ok", "oom_host"}
    assert "oom_host" in ran.stderr
    again = wingspan("run", suite, "--results", results)
    assert "nothing left to do" in again.stderr
    reported = wingspan("report", "--results", results, "--out", out)
    assert reported.exit_code == 0
    assert (out / "lesson.html").exists()
    assert str(out / "lesson.html") in reported.stdout


BAD = {
    "no such suite": (("run", "smokey"), "smoke"),
    "no such machine": (("plan", "lesson", "--machine", "no-such-machine"), "pc-rtx-4090"),
    "a machine name that is no folder": (("run", "smoke", "--machine-name", "a/b"), "letters, digits"),
    "a filter that matches nothing": (("plan", "smoke", "--only", "tiny-lama*"), "tiny-llama"),
    "a budget without a unit": (("run", "smoke", "--budget", "2"), "2h"),
    "a machine without runs": (("report", "--compare", "one", "other"), "they hold no runs at all"),
    "what is no date": (("report", "--since", "yesterday"), "2026-03-01"),
    "a check of some runs": (("report", "--check", "--since", "2026-03-01"), "--check does not go with --since"),
    "a check of two machines": (("report", "--check", "--compare", "a", "b"), "do not go with --compare"),
    "a readme of two machines": (("report", "--compare", "one", "other", "--readme", "README.md"), "tells no verdicts"),
    "no repeats": (("run", "smoke", "--repeats", "0"), "1<=x<=1000"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_clear_message_and_exit_2(case: tuple[tuple[str, ...], str], tmp_path: Path) -> None:
    arguments, said = case
    result = wingspan(*arguments, "--results", tmp_path)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def wait_for_handlers(pid: int) -> None:
    """Until the process catches SIGTERM, as the kernel tells; a second where it doesn't tell."""
    status, deadline_s = Path(f"/proc/{pid}/status"), time.monotonic() + 20
    if not status.exists():
        time.sleep(1)
        return
    while time.monotonic() < deadline_s:
        caught = re.search(r"^SigCgt:\s*(\w+)", status.read_text(), re.MULTILINE)
        if caught and int(caught.group(1), 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize("delay_s", [0.0, 0.2, 0.5])
def test_a_signal_at_any_moment_exits_130_without_a_traceback(tmp_path: Path, number: signal.Signals, delay_s: float) -> None:
    """Three moments from the first line of `main` on, among them the imports of numpy and pyarrow."""
    process = started("plan", "lesson", "--results", tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_for_handlers(process.pid)
    time.sleep(delay_s)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert "Traceback" not in told
    assert process.returncode in (0, 130)


def test_output_that_cannot_be_written_exits_4(tmp_path: Path) -> None:
    full = Path("/dev/full")
    with full.open("w") as stream:
        process = started("plan", "smoke", "--results", tmp_path, stdout=stream, stderr=subprocess.PIPE)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "Traceback" not in told


def test_python_m_bench_is_the_same_program() -> None:
    done = subprocess.run([sys.executable, "-m", "bench", "--help"], capture_output=True, text=True, check=True)
    for command in ("doctor", "plan", "run", "report", "completion"):
        assert command in done.stdout
