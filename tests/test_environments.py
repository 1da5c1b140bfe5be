"""Lists of packages: kept once and whole, believed only as written, and compared by name."""

import errno
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from threading import Barrier

import pytest

from bench.environments import Difference, Environment, NotKnown, environment_diff, file_of, installed, keep, load, normalised
from bench.epochs import Conditions
from bench.files import atomic

OLD = Environment("3.11.9", ("numpy==2.3.0", "peft==0.21.1", "torch==2.12.0+cu130", "typing_extensions==4.15.0"))
NEW = Environment("3.11.9", ("numpy==2.3.0", "torch==2.13.0+cu130", "triton==3.6.0", "typing-extensions==4.15.0"))
BEFORE = Conditions(
    environment_digest=OLD.digest,
    versions={
        "python": "3.11.9",
        "os": "Debian 12, kernel 6.1",
        "driver": "580.65.06",
        "torch": "2.12.0+cu130",
        "peft": "0.21.1",
    },
    os_version="Debian 12, kernel 6.1",
    device_settings={"power_limit_w": "450", "cpu_governor": "performance", "performance_state_now": "P0"},
    source_revision="0123456789abcdef0123456789abcdef01234567",
)
AFTER = replace(BEFORE, environment_digest=NEW.digest, versions={**BEFORE.versions, "torch": "2.13.0+cu130"})


@pytest.fixture
def results(tmp_path: Path) -> Path:
    keep(tmp_path, OLD)
    keep(tmp_path, NEW)
    return tmp_path


def told(results: Path, before: Conditions = BEFORE, after: Conditions = AFTER) -> list[str]:
    return environment_diff(results, before, after).lines()


# Kept


def test_what_is_installed_is_listed_and_comes_back(tmp_path: Path) -> None:
    found = installed()
    assert found.python == platform.python_version()
    assert found.packages["numpy"] == version("numpy")
    keep(tmp_path, found)
    assert load(tmp_path, found.digest) == found
    assert [path.name for path in (tmp_path / "environments").iterdir()] == [f"{found.digest}.json"]


def test_the_digest_is_that_of_the_runs_of_older_versions() -> None:
    text = "3.11.9\nnumpy==2.3.0\npeft==0.21.1\ntorch==2.12.0+cu130\ntyping_extensions==4.15.0"
    assert OLD.digest == hashlib.sha256(text.encode()).hexdigest()[:16] == "37e207722a13304e"


def test_a_list_is_written_once(results: Path) -> None:
    path = file_of(results, OLD.digest)
    before = path.stat()
    keep(results, OLD)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_sweeps_that_write_the_same_list_at_once_all_succeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them find nothing there, and all but one find the name taken."""
    together, publish = Barrier(4, timeout=30), atomic.publish

    def at_once(temporary: Path, path: Path) -> None:
        together.wait()
        publish(temporary, path)

    monkeypatch.setattr(atomic, "publish", at_once)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: keep(tmp_path, OLD), range(4))) == [None] * 4
    assert [path.name for path in (tmp_path / "environments").iterdir()] == [f"{OLD.digest}.json"]
    assert load(tmp_path, OLD.digest) == OLD


def test_a_killed_writer_leaves_nothing_partial_and_the_next_one_clears_up(tmp_path: Path) -> None:
    script = (
        "import os, signal; from pathlib import Path; from bench.environments import Environment, keep\n"
        "os.link = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"keep(Path({str(tmp_path)!r}), {OLD!r})"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == -signal.SIGKILL
    (left,) = (tmp_path / "environments").iterdir()
    assert left.suffix == ".part"
    keep(tmp_path, OLD)
    assert [path.name for path in (tmp_path / "environments").iterdir()] == [f"{OLD.digest}.json"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, "read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        with pytest.raises(OSError, match="read-only") as raised:
            keep(tmp_path, OLD)
    assert raised.value.filename == str(file_of(tmp_path, OLD.digest))
    assert not file_of(tmp_path, OLD.digest).exists()


def test_a_list_that_is_there_needs_no_writing(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "staged", None)
    keep(results, OLD)


WRITTEN = json.dumps(OLD.to_json())
DAMAGE = {
    "empty": "",
    "cut short": WRITTEN[:-9],
    "edited by hand": WRITTEN.replace("2.12.0", "2.12.1"),
    "another's list": json.dumps(NEW.to_json()),
    "a list": "[]",
    "no text": json.dumps({"python": "3.11.9", "distributions": [1, 2]}),
    "no list": json.dumps({"python": "3.11.9", "distributions": None}),
    "nothing": "{}",
    "half a character": json.dumps({"python": "3.11.9", "distributions": ["a==\ud800"]}),
    "a deep hole": "[" * 100_000,
}


@pytest.mark.parametrize("content", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_list_is_no_evidence_and_stays(results: Path, content: str) -> None:
    path = file_of(results, OLD.digest)
    path.write_text(content)
    for look in (lambda: load(results, OLD.digest), lambda: keep(results, OLD)):
        with pytest.raises(NotKnown, match=r"is damaged: ") as raised:
            look()
        assert raised.value.path == path
    assert path.read_text() == content


def test_bytes_that_are_no_text_are_damage_too(results: Path) -> None:
    file_of(results, OLD.digest).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NotKnown, match="is damaged"):
        load(results, OLD.digest)


def test_a_folder_in_its_place_and_what_cannot_be_read_are_told(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", refuse)
        with pytest.raises(NotKnown, match="Permission denied"):
            load(results, OLD.digest)
    file_of(results, OLD.digest).unlink()
    file_of(results, OLD.digest).mkdir()
    with pytest.raises(NotKnown, match="no such file"):
        load(results, OLD.digest)


@pytest.mark.parametrize("digest", ["", "feed", "../../../etc/passwd", "0123456789ABCDEF"])
def test_what_is_no_digest_leads_nowhere(tmp_path: Path, digest: str) -> None:
    with pytest.raises(NotKnown, match="no digest"):
        load(tmp_path, digest)


# Compared


def test_packages_are_compared_by_name(results: Path) -> None:
    assert told(results) == ["peft 0.21.1 removed", "torch 2.12.0+cu130 -> 2.13.0+cu130", "triton 3.6.0 added"]
    assert told(results, AFTER, BEFORE) == ["peft 0.21.1 added", "torch 2.13.0+cu130 -> 2.12.0+cu130", "triton 3.6.0 removed"]


def test_names_are_compared_as_pep_503_spells_them() -> None:
    assert {
        normalised(name) for name in ("Typing_Extensions", "typing-extensions", "typing.extensions", "TYPING--extensions")
    } == {"typing-extensions"}
    assert Environment("3.11.9", ("a_b==1", "a-b==2")).packages == {"a-b": "1, 2"}


def test_equal_nights_differ_in_nothing(results: Path, tmp_path: Path) -> None:
    assert environment_diff(results, BEFORE, BEFORE).lines() == []
    assert environment_diff(tmp_path / "nowhere", BEFORE, BEFORE).lines() == [], "the digest alone says so"


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        (replace(BEFORE, versions={**BEFORE.versions, "python": "3.12.1"}), "Python 3.11.9 -> 3.12.1"),
        (replace(BEFORE, versions={**BEFORE.versions, "driver": "590.10"}), "driver 580.65.06 -> 590.10"),
        (replace(BEFORE, os_version="Debian 13, kernel 6.12"), "system Debian 12, kernel 6.1 -> Debian 13, kernel 6.12"),
        (
            replace(BEFORE, device_settings={**BEFORE.device_settings, "power_limit_w": "300", "performance_state_now": "P8"}),
            "power_limit_w 450 -> 300",
        ),
        (replace(BEFORE, device_settings={"power_limit_w": "450"}), "cpu_governor performance -> not told"),
        (
            replace(BEFORE, source_revision="fedcba9876543210fedcba9876543210fedcba98-dirty"),
            "harness 0123456789ab -> fedcba987654-dirty",
        ),
        (replace(BEFORE, source_revision=None), "harness 0123456789ab -> not told"),
    ],
)
def test_what_else_changed_is_named(results: Path, changed: Conditions, line: str) -> None:
    assert told(results, BEFORE, changed) == [line]


def test_all_at_once_is_told_in_order_and_as_json(results: Path) -> None:
    changed = replace(
        AFTER, os_version="Debian 13", versions={**AFTER.versions, "driver": "590.10"}, device_settings={"power_limit_w": "300"}
    )
    found = environment_diff(results, BEFORE, changed)
    kinds = [each.kind for each in found.differences]
    assert kinds == ["package", "package", "package", "driver", "os", "setting", "setting"]
    assert found.differences[1] == Difference("package", "torch", "2.12.0+cu130", "2.13.0+cu130")
    document = json.loads(json.dumps(found.to_json()))
    assert document["differences"][0] == {"kind": "package", "name": "peft", "before": "0.21.1", "after": None}
    assert document["notes"] == []


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_without_a_list_the_packages_that_both_runs_named_are_compared(results: Path, how: str) -> None:
    path = file_of(results, OLD.digest)
    path.unlink() if how == "missing" else path.write_text("{")
    *lines, note = told(results)
    assert lines == ["torch 2.12.0+cu130 -> 2.13.0+cu130"], "peft is not on one side's list, which is no removal"
    assert note.startswith(f"not all packages are known before ({path}: ")
    assert note.endswith("only those named by the runs of both were compared")


def test_a_run_that_ended_early_removed_no_packages(tmp_path: Path) -> None:
    """It names none of its backend."""
    crashed = replace(AFTER, versions={"python": "3.11.9", "driver": "580.65.06", "os": "Debian 12, kernel 6.1"})
    (note,) = told(tmp_path, BEFORE, crashed)
    assert " before (" in note
    assert " after (" in note


def test_runs_without_a_digest_are_compared_as_far_as_that_goes(results: Path) -> None:
    older = replace(BEFORE, environment_digest=None, device_settings={})
    lines = told(results, older, AFTER)
    assert lines == [
        "torch 2.12.0+cu130 -> 2.13.0+cu130",
        "not all packages are known before (environment_digest is empty): only those named by the runs of both were compared",
        "how the device was set is known of one side only",
    ]
    (note,) = told(results, older, older)
    assert note.startswith("not all packages are known before "), "two unknown environments are not taken for one"
