"""Sleep is held off for the block and not a moment longer, by commands that stand in for the system's own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bench.sweep import awake
from bench.sweep.awake import COMMANDS, kept_awake

HOLDS = """
import json, os, subprocess, sys
command = sys.argv[1:]
while command and command[0].startswith("-"):
    command.pop(0)
descriptors = []
for name in os.listdir("/dev/fd"):
    try:
        descriptors.append(os.readlink("/dev/fd/" + name))
    except OSError:
        pass
with open(os.environ["AWAKE_LOG"], "a") as log:
    print(json.dumps({"argv": sys.argv, "descriptors": descriptors, "pid": os.getpid(), "session": os.getsid(0)}), file=log)
code = subprocess.run(command).returncode
with open(os.environ["AWAKE_LOG"], "a") as log:
    print("released", file=log)
sys.exit(code)
"""
REFUSES = "import sys\nsys.exit('Failed to connect to bus: No such file or directory')\n"
LETS_GO_AT_ONCE = "import sys\nsys.stdout.write(sys.stdin.readline())\n"
HANGS = "import time\ntime.sleep(60)\n"


def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str) -> Path:
    """Put a stand-in for both systems' commands on PATH; returns its log."""
    for name in (command[0] for command in COMMANDS.values()):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!{sys.executable}\n{script}")
        path.chmod(0o755)
    log = tmp_path / "log"
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("AWAKE_LOG", str(log))
    monkeypatch.setattr("platform.release", lambda: "6.1")
    return log


def appears(log: Path, text: str, within_s: float = 20) -> bool:
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        if log.exists() and text in log.read_text():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    ("system", "options"),
    [("darwin", ["-dims"]), ("linux", ["--what=sleep:idle", "--who=wingspan", "--mode=block"])],
)
def test_sleep_is_held_off_during_the_block_only(monkeypatch, tmp_path, system, options):
    log = play(monkeypatch, tmp_path, HOLDS)
    notes: list[str] = []
    with kept_awake(notes.append, system):
        text = log.read_text()
        assert all(option in text for option in options)
        assert "released" not in text
    assert "released" in log.read_text()
    assert notes == []


def test_it_is_released_after_an_error(monkeypatch, tmp_path):
    log = play(monkeypatch, tmp_path, HOLDS)
    with pytest.raises(KeyError), kept_awake(pytest.fail, "linux"):
        raise KeyError
    assert "released" in log.read_text()


def test_the_machines_lock_is_not_inherited_and_the_terminals_signals_are_not_heard(monkeypatch, tmp_path):
    log = play(monkeypatch, tmp_path, HOLDS)
    lock = os.open(tmp_path / "machine.lock", os.O_RDWR | os.O_CREAT)
    try:
        os.set_inheritable(lock, True)
        with kept_awake(pytest.fail, "linux"):
            seen = json.loads(log.read_text())
    finally:
        os.close(lock)
    assert seen["descriptors"]
    assert not any(path.endswith("machine.lock") for path in seen["descriptors"])
    assert seen["session"] == seen["pid"]


def test_a_killed_harness_releases_it(monkeypatch, tmp_path):
    log = play(monkeypatch, tmp_path, HOLDS)
    script = (
        "import time\nfrom bench.sweep.awake import kept_awake\n"
        "with kept_awake(print, 'linux'):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout
        assert harness.stdout.readline() == "held\n"
        assert "released" not in log.read_text()
        harness.send_signal(signal.SIGKILL)
    assert appears(log, "released")


def test_it_takes_no_processor(monkeypatch, tmp_path):
    log = play(monkeypatch, tmp_path, HOLDS)
    with kept_awake(pytest.fail, "linux"):
        holder = psutil.Process(json.loads(log.read_text())["pid"])
        (cat,) = holder.children()
        time.sleep(0.2)  # back in read(2) after its answer
        before = (cat.cpu_times(), cat.num_ctx_switches().voluntary)
        time.sleep(0.3)
        assert (cat.cpu_times(), cat.num_ctx_switches().voluntary) == before
        assert cat.name() == "cat"


@pytest.mark.parametrize("system", ["darwin", "linux", "win32"])
def test_a_command_that_is_not_there_is_a_note(monkeypatch, system):
    monkeypatch.setattr("platform.release", lambda: "6.1")
    monkeypatch.setenv("PATH", "/nowhere")
    notes: list[str] = []
    with kept_awake(notes.append, system):
        notes.append("ran")
    assert len(notes) == 2
    assert notes[0].startswith("cannot keep the computer awake")
    assert notes[0].endswith("is not there")


def test_a_command_that_refuses_is_a_note_with_its_words(monkeypatch, tmp_path):
    play(monkeypatch, tmp_path, REFUSES)
    notes: list[str] = []
    with kept_awake(notes.append, "linux"):
        notes.append("ran")
    assert notes == [
        "cannot keep the computer awake: systemd-inhibit refuses: Failed to connect to bus: No such file or directory",
        "ran",
    ]


def test_a_command_that_does_not_answer_is_ended(monkeypatch, tmp_path):
    play(monkeypatch, tmp_path, HANGS)
    monkeypatch.setattr(awake, "ANSWER_S", 0.2)
    notes: list[str] = []
    with kept_awake(notes.append, "linux"):
        pass
    assert notes == ["cannot keep the computer awake: systemd-inhibit refuses"]


def test_a_command_that_ends_early_is_told(monkeypatch, tmp_path):
    play(monkeypatch, tmp_path, LETS_GO_AT_ONCE)
    notes: list[str] = []
    with kept_awake(notes.append, "linux"):
        deadline_s = time.monotonic() + 20
        while any(child.status() != psutil.STATUS_ZOMBIE for child in psutil.Process().children()):
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
    assert len(notes) == 1
    assert "not kept awake to the end" in notes[0]


def test_windows_sleeps_by_its_own_rules(monkeypatch, tmp_path):
    play(monkeypatch, tmp_path, HOLDS)
    monkeypatch.setattr("platform.release", lambda: "5.15.153.1-microsoft-standard-WSL2")
    notes: list[str] = []
    with kept_awake(notes.append, "linux"):
        pass
    assert len(notes) == 1
    assert "Windows" in notes[0]


@pytest.mark.parametrize("content", [b"garbage", b"#!/no/such/interpreter\n"], ids=["no program", "no interpreter"])
def test_a_command_that_cannot_be_run_is_a_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes) -> None:
    play(monkeypatch, tmp_path, "")
    for command in COMMANDS.values():
        (tmp_path / "bin" / command[0]).write_bytes(content)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))  # else the system's own, further on, would be found
    notes: list[str] = []
    with kept_awake(notes.append):
        pass
    (note,) = notes
    assert note.startswith("cannot keep the computer awake: ")
    assert "cannot be run" in note


def test_what_a_refusing_command_leaves_running_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It holds the pipe of standard error open from a session of its own, where no signal of ours reaches it."""
    leaves = (
        "import os, subprocess, sys\n"
        "left = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "print(left.pid, file=open(os.environ['AWAKE_LOG'], 'w'))\n"
        "sys.exit('no')\n"
    )
    log = play(monkeypatch, tmp_path, leaves)
    notes: list[str] = []
    with kept_awake(notes.append):
        left = psutil.Process(int(log.read_text()))
        assert left.is_running()
        left.kill()
    assert notes
