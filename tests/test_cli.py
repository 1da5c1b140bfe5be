"""The command line as its users meet it: exit codes, one clear message, JSON and nothing else."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bench.cli import cli
from bench.sweep.lock import hold_machine, lock_path

HEAVY = ("torch", "transformers", "mlx", "mlx_lm", "trl", "peft", "pandas", "pyarrow", "matplotlib", "seaborn", "scipy", "numpy")


def wingspan(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments], catch_exceptions=False)


def test_starting_the_command_line_loads_nothing_heavy() -> None:
    code = f"import sys, bench.cli; print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


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


def test_plan_json_has_the_contracts_keys(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    document = json.loads(wingspan("plan", write_suite({"a": {}}), "--results", tmp_path, "--json").stdout)
    assert set(document) == {"cells", "totals"}
    (cell,) = document["cells"]
    assert {"cell", "model", "method", "backend", "device", "action", "reason", "predicted"} <= set(cell)
    assert (cell["action"], cell["predicted"]) == ("run", None)


def test_a_plan_for_a_machine_of_the_catalogue(tmp_path: Path) -> None:
    document = json.loads(wingspan("plan", "lesson", "--machine", "pc-rtx-4090", "--results", tmp_path, "--json").stdout)
    actions = {(cell["backend"], cell["device"]): set() for cell in document["cells"]}
    for cell in document["cells"]:
        actions[cell["backend"], cell["device"]].add(cell["action"])
    assert actions["hf", "cuda"] == {"run", "skip"}
    assert len(document["cells"]) == 72


def test_a_failed_cell_exits_3(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    ran = wingspan("run", write_suite({"a": {"fail": "exit"}}), "--results", tmp_path / "results")
    assert ran.exit_code == 3
    assert "2 crashed" in ran.stderr
    assert "logs in" in ran.stderr


def test_a_held_machine_exits_75(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    with hold_machine(lock_path(), {"pid": os.getpid(), "suite": "other", "since": "now"}):
        ran = wingspan("run", write_suite({"a": {}}), "--results", tmp_path / "results")
    assert ran.exit_code == 75
    assert "suite other" in ran.stderr


BAD = {
    "no such suite": (("run", "smokey"), "smoke"),
    "no such machine": (("plan", "lesson", "--machine", "no-such-machine"), "pc-rtx-4090"),
    "a machine name that is no folder": (("run", "smoke", "--machine-name", "a/b"), "letters, digits"),
    "a filter that matches nothing": (("plan", "smoke", "--only", "tiny-lama*"), "tiny-llama"),
    "a budget without a unit": (("run", "smoke", "--budget", "2"), "2h"),
    "a machine without runs": (("report", "--compare", "one", "other"), "they hold no runs at all"),
    "what is no date": (("report", "--since", "yesterday"), "2026-03-01"),
    "a check of nothing": (("report", "--check"), "--check goes with --readme"),
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


def test_all_faults_of_a_suite_at_once(tmp_path: Path) -> None:
    suite = tmp_path / "bad.toml"
    suite.write_text('question = 3\n[sweep]\nmodel = []\nmethod = ["lroa"]\nbackend = ["hf"]\n[fixed]\nbach_size = 1\n')
    result = wingspan("run", suite, "--results", tmp_path)
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 4
    for key in ("question", "sweep.model", "sweep.method[0]", "fixed.bach_size"):
        assert f"{suite}: {key}: " in result.stderr


def test_a_results_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    reported = wingspan("report", "--results", tmp_path / "typo", "--out", tmp_path / "out")
    assert reported.exit_code == 0
    assert f"{tmp_path / 'typo'}: no such folder, so no runs are reported" in reported.stderr


def test_a_readme_is_spliced_and_checked(tmp_path: Path) -> None:
    path, results = tmp_path / "README.md", tmp_path / "results"
    results.mkdir()
    path.write_text("<!-- verdicts -->\n<!-- /verdicts -->\n")
    usual = ("report", "--results", results, "--out", tmp_path / "out", "--readme", path)
    stale = wingspan(*usual, "--check")
    assert (stale.exit_code, "is stale" in stale.stderr, path.read_text().count("|")) == (2, True, 0)
    assert wingspan(*usual).exit_code == 0
    assert "| speed.ratio |" in path.read_text()
    fresh = wingspan(*usual, "--check")
    assert (fresh.exit_code, fresh.stdout, fresh.stderr) == (0, "", "")


def test_damaged_results_exit_4_and_the_rest_is_reported(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "out"
    wingspan("run", write_suite({"a": {}, "b": {}}), "--results", results)
    victim = next((results / "runs").rglob("*.parquet"))
    victim.write_bytes(victim.read_bytes()[:100])
    reported = wingspan("report", "--results", results, "--out", out)
    assert reported.exit_code == 4
    assert victim.name in reported.stderr
    assert (out / "lesson.html").exists()
    assert list((results / "quarantine").iterdir())


def test_a_results_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    assert wingspan("run", "smoke", "--results", path).exit_code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    done = wingspan("completion", shell)
    assert done.exit_code == 0
    assert "_WINGSPAN_COMPLETE" in done.stdout


def started(*arguments: object, **streams: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "bench", *(str(each) for each in arguments)]
    return subprocess.Popen(command, text=True, **streams)


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


def test_a_reader_that_leaves_does_not_stop_a_sweep(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite, results = write_suite({"a": {}, "b": {}}), tmp_path / "results"
    process = started("run", suite, "--results", results, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    process.stderr.readline()
    process.stderr.close()
    assert process.wait(60) in (0, 4)
    assert len(list((results / "runs").rglob("*.parquet"))) == 2


def test_closed_output_is_no_crash(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite, results = write_suite({"a": {}}), tmp_path / "results"
    command = f"exec {sys.executable} -m bench run {suite} --results {results} 2>&- >&-"
    assert subprocess.run(["sh", "-c", command], check=False, timeout=60).returncode == 0
    assert len(list((results / "runs").rglob("*.parquet"))) == 1


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


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--memory-limit", "24"], '"24" has no unit: write 24GB'),
        (["--memory-limit", "24gigs"], '"24gigs" is no size of memory'),
        (["--memory-limit", "0GB"], "nothing runs in it"),
        (["--memory-like", "pc-rtx-5090"], 'machine "pc-rtx-5090" in suites/catalog/machines.toml; did you mean "pc-rtx-4090"?'),
        (["--memory-like", "pc-rtx-4090", "--memory-limit", "1GB"], "both set the limit"),
        (["--memory-limit", "900TB"], "--memory-limit asks for 900,000,000,000,000 bytes, and cpu of"),
        (["--memory-limit", "1GB", "--precision", "2%"], "leave one out"),
        (["--memory-watchdog", "5%"], "is no share of memory"),
        (["--memory-watchdog", "lots"], "is no share of memory"),
    ],
)
def test_a_limit_that_cannot_be_meant_exits_2_with_one_clear_message(
    write_suite: Callable[..., Path], tmp_path: Path, arguments: list[str], told: str
) -> None:
    result = wingspan("run", write_suite({"a": {}}), "--results", tmp_path / "results", *arguments)
    assert result.exit_code == 2
    assert told in result.stderr
    assert "Traceback" not in result.output
    assert not list((tmp_path / "results").rglob("*.parquet"))


def test_a_run_is_held_to_a_limit(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite, results = write_suite({"a": {"peak_bytes": 2_000_001}}), tmp_path / "results"
    limited = ("run", suite, "--results", results, "--memory-limit", "2MB", "--memory-watchdog", "off", "--json")
    result = wingspan(*limited)
    assert result.exit_code == 0
    assert [run["outcome"] for run in json.loads(result.stdout)["runs"]] == ["over_limit"]
    assert json.loads(wingspan(*limited).stdout)["runs"] == []
    assert len(json.loads(wingspan("run", suite, "--results", results, "--json").stdout)["runs"]) == 1


def test_a_predicted_frontier_starts_nothing(tmp_path: Path) -> None:
    asked = ("frontier", "frontier", "--predicted", "--results", tmp_path / "results", "--only", "llama-3.1-8b/qlora/*")
    result = wingspan(*asked, "--machine", "pc-rtx-4090", "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    edges = {(edge["backend"], edge["axis"]): edge for edge in document["edges"]}
    assert set(edges) == {(backend, axis) for backend in ("hf", "unsloth", "mlx") for axis in ("sequence_length", "batch_size")}
    length = edges["hf", "sequence_length"]
    assert (length["status"], length["held"], length["run_ids"]) == ("predicted", {"batch_size": 1}, [])
    assert length["predicted"]["low"] <= length["predicted"]["likely"] <= length["predicted"]["high"]
    assert not (tmp_path / "results").exists()
    assert "--memory-like" in wingspan("frontier", "frontier", "--machine", "pc-rtx-4090").stderr


def test_a_frontier_is_found_and_told(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite, results = write_suite({"a": {"fits_tokens": 16}}), tmp_path / "results"
    suite.write_text(suite.read_text() + "[frontier]\nconfirm_steps = 5\nbatch_size = {from = 1, to = 3}\n")
    result = wingspan("frontier", suite, "--results", results, "--json")
    assert result.exit_code == 0, result.stderr
    (edge,) = json.loads(result.stdout)["edges"]
    assert (edge["last"], edge["first"], edge["status"], edge["predicted"]) == (2, 3, "confirmed", None)
    assert "a/lora/fake@cpu: batch_size at sequence_length=8: 2 runs, 3 does not (confirmed)" in result.stderr
    again = wingspan("frontier", suite, "--results", results)
    assert again.stdout.strip() == "a/lora/fake@cpu: batch_size at sequence_length=8: 2 runs, 3 does not (confirmed)"


def test_a_suite_that_asks_no_edge_exits_2(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    result = wingspan("frontier", write_suite({"a": {}}), "--results", tmp_path / "results")
    assert result.exit_code == 2
    assert "asks for no edge: give it a table [frontier]" in result.stderr


def test_a_prediction_in_words_and_as_json() -> None:
    asked = ("predict", "--model", "8b", "--method", "qlora", "--machine", "pc-rtx-4090", "--batch-size", 2)
    told = wingspan(*asked)
    assert told.exit_code == 0
    assert "llama-3.1-8b/qlora/hf@cuda on pc-rtx-4090: 2 × 2048 tokens" in told.stdout
    document = json.loads(wingspan(*asked, "--no-gradient-checkpointing", "--json").stdout)
    assert {
        *("peak_bytes", "peak_low_bytes", "peak_high_bytes", "reserved_bytes", "parts", "capacity_bytes", "fits", "how"),
        *("fit_probability", "tokens_per_s", "tokens_per_s_low", "tokens_per_s_high", "power_w", "j_per_token"),
    } <= document.keys()
    assert document["fits"] == "no"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "8c", "--method", "lora", "--machine", "h200"), "8c"),
        (("--model", "8b", "--method", "lora", "--machine", "h2000"), "--machine: no machine"),
        (("--model", "8b", "--method", "lora", "--machine", "h200", "--backend", "mlx@metal"), "--backend: mlx@metal"),
        (("--model", "8b", "--method", "lora", "--machine", "h200", "--modules", "x"), "--modules: unknown module"),
        (("--model", "8b", "--method", "full", "--machine", "h200", "--backend", "unsloth", "--how", "trace"), "be traced"),
    ],
)
def test_a_question_that_cannot_be_answered_exits_2_with_one_message(arguments: tuple[str, ...], message: str) -> None:
    done = wingspan("predict", *arguments)
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert message in done.stderr


def test_the_lessons_whole_grid_is_predicted_by_one_command() -> None:
    done = wingspan("plan", "lesson", "--machine", "pc-rtx-4090", "--json")
    cells = json.loads(done.stdout)["cells"]
    assert all(cell["predicted"]["peak_bytes"] for cell in cells)
    skipped = {cell["cell"] for cell in cells if (cell["reason"] or "").startswith("needs about")}
    assert {"qwen3-14b/lora/hf@cuda", "llama-3.1-8b/full/hf@cuda"} <= skipped
    assert all(cell["predicted"]["fits"] == "no" for cell in cells if cell["cell"] in skipped)


def test_advice_in_words_and_as_json(tmp_path: Path) -> None:
    asked = ("advise", "--model", "14b", "--tokens", 10_000_000, "--price-per-kwh", 0.2, "--results", tmp_path / "none")
    told = wingspan(*asked)
    assert told.exit_code == 0
    assert "qwen3-14b on 10,000,000 tokens; possible: lora, qlora" in told.stdout
    document = json.loads(wingspan(*asked, "--method", "qlora", "--machine", "pc-rtx-4090", "--json").stdout)
    assert (document["machines"], document["possible"], document["price_per_kwh"]) == (["pc-rtx-4090"], ["qlora"], 0.2)
    (option,) = document["methods"][0]["options"]
    assert {"fits", "headroom_bytes", "duration_s", "energy_j", "cost", "peak_bytes", "stacks"} <= option.keys()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "8c", "--tokens", 1), "8c"),
        (("--model", "8b", "--tokens", 1, "--machine", "h2000"), "--machine: no machine"),
        (("--model", "8b", "--tokens", 1, "--price-per-kwh", "nan"), "--price-per-kwh: nan is no price"),
        (("--model", "8b", "--tokens", 1, "--sequence-length", 500_000), "--sequence-length: llama-3.1-8b has 131072"),
    ],
)
def test_advice_that_cannot_be_given_exits_2_with_one_message(arguments: tuple[str, ...], message: str) -> None:
    done = wingspan("advise", *arguments)
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert message in done.stderr
