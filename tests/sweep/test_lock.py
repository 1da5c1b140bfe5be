"""One sweep at a time: refused at once, the holder named, released by the kernel."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.spec import BadInput
from bench.sweep.lock import DEFAULT_LOCK, MachineBusy, hold_machine, lock_path

HOLDER = {"pid": os.getpid(), "suite": "smoke", "since": "2026-11-30T02:00:00+00:00"}


def test_a_second_sweep_is_refused_and_told_who_holds(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    told = f"process {os.getpid()}, suite smoke, since 2026"
    with hold_machine(path, HOLDER), pytest.raises(MachineBusy, match=told), hold_machine(path, HOLDER):
        pass
    with hold_machine(path, HOLDER):
        pass


def test_a_lock_is_free_again_when_its_holder_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom bench.sweep.lock import hold_machine\n"
        "with hold_machine(Path(sys.argv[1]), {'pid': 1, 'suite': 's', 'since': 'x'}):\n"
        "    print('held', flush=True)\n    time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(MachineBusy), hold_machine(path, HOLDER):
        pass
    holder.kill()
    holder.communicate()
    with hold_machine(path, HOLDER):
        pass


def test_an_orphaned_worker_still_holds_the_machine_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with hold_machine(path, {**HOLDER, "pid": gone.pid}) as descriptor:
        orphan = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(descriptor,))
    with pytest.raises(MachineBusy, match=f"a worker left by process {gone.pid}"), hold_machine(path, HOLDER):
        pass
    orphan.communicate(b"\n")
    with hold_machine(path, HOLDER):
        pass


def test_somebody_elses_file_is_never_taken_for_a_lock(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    diary.write_text("dear diary")
    with pytest.raises(BadInput, match="no lock of Wingspan's"), hold_machine(diary, HOLDER):
        pass
    link = tmp_path / "link"
    link.symlink_to(diary)
    with pytest.raises(OSError, match="symbolic"), hold_machine(link, HOLDER):
        pass
    assert diary.read_text() == "dear diary"


def test_a_lock_without_a_name_is_refused_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold_machine(path, HOLDER):
        path.write_text("wingspan not json")
        with pytest.raises(MachineBusy, match="left no name"), hold_machine(path, HOLDER):
            pass


def test_where_the_lock_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINGSPAN_LOCK", "/somewhere/else")
    assert lock_path() == Path("/somewhere/else")
    monkeypatch.delenv("WINGSPAN_LOCK")
    assert lock_path() == DEFAULT_LOCK
