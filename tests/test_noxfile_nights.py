"""Nights by nox: measured in locked versions by each stack, judged once; what an upgrade takes, and what if it fails."""

import os
import subprocess
import sys
import tomllib
from contextlib import nullcontext
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import nox.command
import pytest
from nox_stage import MACHINES, ROOT, Session, on, read
from packaging.requirements import Requirement

from bench.commands.nightly import nightly
from bench.expand import cells_of
from bench.locks import main as settled_in_its_environment
from bench.locks import write
from bench.suite import read_suite


@pytest.fixture(scope="module")
def noxfile() -> Any:
    return read()


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    on(request.param, monkeypatch)
    return "cpu" if request.param == "an Intel Mac" else str(request.param)


MEASURED_AT_NIGHT = {"cpu": ["cpu"], "mac": ["mac"], "cuda": ["cuda", "cuda-unsloth"]}


def test_a_night_is_measured_by_each_stack_and_judged_once(noxfile: Any, machine: str) -> None:
    session = Session("--night", "2020-11-30", "--machine-name", "box", "--markdown", "summary.md")
    noxfile.nightly.func(session)
    suite = "suites/nightly-cpu.toml" if machine == "cpu" else "suites/nightly.toml"
    given = [suite, "--machine-name", "box", "--markdown", "summary.md", "--night", "2020-11-30"]
    assert session.queued == [(f"measure-{name}", given) for name in MEASURED_AT_NIGHT[machine]] + [("nightly-end", given)]


def test_every_cell_of_a_night_is_measured_in_one_environment(noxfile: Any) -> None:
    for kind, (path, names) in noxfile.NIGHTS.items():
        suite = read_suite(ROOT / path)
        ids = [cell.id for cell in cells_of(suite, lambda name: "cpu")]
        own = {"mac": "metal", "cuda": "cuda", "cpu": "cpu"}[kind]
        for each in (each for each in ids if f"@{own}" in each):
            globs = [noxfile.ENVIRONMENTS[name].cells or "*" for name in names]
            assert sum(fnmatchcase(each, glob) for glob in globs) == 1


def test_a_night_without_a_date_is_todays_for_all_sessions(noxfile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    on("cuda", monkeypatch)
    session = Session("--upgrade", "--budget", "2h")
    noxfile.nightly.func(session)
    dates = {posargs[posargs.index("--night") + 1] for _, posargs in session.queued}
    assert len(dates) == 1
    assert date.fromisoformat(dates.pop())
    assert ["--upgrade" in posargs for _, posargs in session.queued] == [True, True, False]
    assert ["--until" in posargs for _, posargs in session.queued] == [True, True, False]


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the lock of the environment `cpu` belongs, on this system and Python."""
    on("cpu", monkeypatch)
    version = f"py{sys.version_info.major}.{sys.version_info.minor}"
    return tmp_path / "results" / "locks" / f"cpu-linux-x86_64-{version}.txt"


def night(lock: Path, *more: str) -> tuple[str, ...]:
    return ("suites/nightly-cpu.toml", "--night", "2020-11-30", *more, "--results", str(lock.parents[1]))


def written(lock: Path, night: str = "2020-11-29") -> Path:
    """The lock, as a night wrote it."""
    write(lock, {"click": "8.5.0", "torch": "2.13.0", "trl": "1.16.0"}, night)
    return lock


NEWEST = ("--upgrade", "--upgrade-strategy", "eager")
LOOSENED = (
    *("torch==2.13.0", "transformers>=5.17", "peft>=0.21.2", "trl>=1.16.0", "bitsandbytes>=0.50.2", "datasets>=5"),
    *("accelerate>=1.10", 'mlx[cpu]>=0.32.4; sys_platform == "linux"', 'mlx>=0.32.4; sys_platform == "darwin"', "mlx-lm>=0.32.2"),
)
"""What a night asks pip for where its lock, or upstream, says the rest; torch's newest on PyPI would be the CUDA build."""


class Refusing(Session):
    """A session in which pip cannot install what has this among its arguments."""

    def __init__(self, *posargs: str, refused: str | None = None) -> None:
        super().__init__(*posargs)
        self.refused = refused

    def install(self, *arguments: str) -> None:
        super().install(*arguments)
        if self.refused in arguments:
            raise nox.command.CommandFailed("pip")


@pytest.mark.parametrize("upgrade", [(), ("--upgrade",)])
def test_a_first_night_is_in_the_versions_that_are_pinned(noxfile: Any, lock: Path, upgrade: tuple[str, ...]) -> None:
    """Upgrade or not: a release that breaks a stack is noticed by what ran before it."""
    session = Session(*night(lock, "--only", "x/*", *upgrade))
    noxfile.MEASURING["cpu"].func(session)
    run = ("--results", str(lock.parents[1]), "--night", "2020-11-30", "--only", "x/*")
    assert session.done == [
        ("install", "-e", ".[cpu]"),
        ("python", "-m", "bench.locks", str(lock), "2020-11-30"),
        ("wingspan", "nightly", "suites/nightly-cpu.toml", "--no-judge", "--no-publish", *run),
    ]
    assert len(session.logged) == len(upgrade)


def test_with_a_lock_its_versions_are_installed_and_the_pins_are_lower_bounds(noxfile: Any, lock: Path) -> None:
    written(lock)
    session = Session(*night(lock))
    noxfile.MEASURING["cpu"].func(session)
    assert session.done[:2] == [
        ("install", "-e", ".", *LOOSENED, "--constraint", str(lock)),
        ("python", "-m", "bench.locks", str(lock), "2020-11-30"),
    ]


def test_an_upgrade_is_bound_by_no_lock_and_no_pin_and_refreshes_the_lock(noxfile: Any, lock: Path) -> None:
    written(lock)
    session = Session(*night(lock, "--upgrade"))
    noxfile.MEASURING["cpu"].func(session)
    assert session.done[:2] == [
        ("install", "-e", ".", *LOOSENED, *NEWEST),
        ("python", "-m", "bench.locks", str(lock), "2020-11-30", "--refresh"),
    ]
    assert "--upgrade" not in session.done[2]
    assert not session.warned


def test_a_night_that_is_taken_up_again_stays_in_its_versions(noxfile: Any, lock: Path) -> None:
    """Else its second half would be measured in what was released since the first."""
    written(lock, "2020-11-30")
    session = Session(*night(lock, "--upgrade"))
    noxfile.MEASURING["cpu"].func(session)
    assert session.done[0] == ("install", "-e", ".", *LOOSENED, "--constraint", str(lock))
    assert len(session.logged) == 1
    assert "this night's" in session.logged[0]


class Settling(Refusing):
    """One in which locks are settled, too, as they are in the environment itself."""

    def run(self, *arguments: str) -> None:
        super().run(*arguments)
        if arguments[:3] == ("python", "-m", "bench.locks"):
            settled_in_its_environment(list(arguments[3:]))

    @property
    def upgraded(self) -> list[bool]:
        return [each[-3:] == NEWEST for each in self.done if each[0] == "install"]


@pytest.mark.parametrize(("begun", "refused"), [((), None), (("--upgrade",), "eager")])
def test_a_night_that_began_in_the_old_versions_stays_in_them(
    noxfile: Any, lock: Path, begun: tuple[str, ...], refused: str | None
) -> None:
    """Whether it began without the upgrade or the upgrade failed. Of the next date, the upgrade is tried."""
    written(lock)
    first = Settling(*night(lock, *begun), refused=refused)
    with pytest.raises(SystemExit) if refused else nullcontext():
        noxfile.MEASURING["cpu"].func(first)
    again = Settling(*night(lock, "--upgrade"))
    noxfile.MEASURING["cpu"].func(again)
    assert again.upgraded == [False]
    assert "this night's" in again.logged[0]
    later = Settling("suites/nightly-cpu.toml", "--night", "2020-12-01", "--upgrade", "--results", str(lock.parents[1]))
    noxfile.MEASURING["cpu"].func(later)
    assert later.upgraded == [True]


BAD_LOCKS = {
    "no text": (b"\xff\xfe\x00", "not a text in UTF-8"),
    "a merge half done": (b"<<<<<<< HEAD\ntrl==1.0\n=======\ntrl==2.0\n>>>>>>> x\n", "line 1: '<<<<<<< HEAD' is no requirement"),
    "a folder": (None, "Is a directory"),
}


@pytest.mark.parametrize("upgrade", [(), ("--upgrade",)])
@pytest.mark.parametrize("case", BAD_LOCKS)
def test_a_lock_that_cannot_be_read_is_named_and_nothing_is_installed(
    noxfile: Any, lock: Path, case: str, upgrade: tuple[str, ...]
) -> None:
    content, told = BAD_LOCKS[case]
    if content is None:
        lock.mkdir(parents=True)
    else:
        lock.parent.mkdir(parents=True)
        lock.write_bytes(content)
    session = Session(*night(lock, *upgrade))
    with pytest.raises(SystemExit) as ended:
        noxfile.MEASURING["cpu"].func(session)
    assert f"cpu: {lock}: {told}" in str(ended.value)
    assert "\n" not in str(ended.value)
    assert session.done == []


def test_a_night_to_come_is_refused_before_anything_is_queued(noxfile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    on("cpu", monkeypatch)
    session = Session("--night", "9999-12-31")
    with pytest.raises(SystemExit, match="--night 9999-12-31: a night to come"):
        noxfile.nightly.func(session)
    assert session.queued == []


def test_an_upgrade_that_pip_cannot_do_leaves_the_lock_and_the_night_is_measured_and_then_fails(noxfile: Any, lock: Path) -> None:
    before = written(lock).read_text()
    session = Refusing(*night(lock, "--upgrade"), refused="eager")
    with pytest.raises(SystemExit, match=r"measure-cpu: the newest versions could not be installed, .*those of .*cpu-linux"):
        noxfile.MEASURING["cpu"].func(session)
    upgrade, again, settled, measured = session.done
    assert upgrade[-3:] == NEWEST
    assert again == ("install", "-e", ".", *LOOSENED, "--constraint", str(lock))
    assert settled == ("python", "-m", "bench.locks", str(lock), "2020-11-30")
    assert measured[:3] == ("wingspan", "nightly", "suites/nightly-cpu.toml")
    assert lock.read_text() == before
    assert session.warned == [
        f"cpu: the newest versions cannot be installed, see above; this night is measured in those of {lock}"
    ]


@pytest.mark.parametrize(
    ("locked_on", "upgrade", "end"),
    [
        ("2020-11-29", (), "see above; if pyproject.toml now wants others: nox -s nightly -- --upgrade"),
        ("2020-11-29", ("--upgrade",), "see above"),
        ("2020-11-30", ("--upgrade",), "nox -s nightly -- --upgrade, on another date"),
    ],
)
def test_a_lock_that_cannot_be_installed_is_told_and_nothing_is_measured(
    noxfile: Any, lock: Path, locked_on: str, upgrade: tuple[str, ...], end: str
) -> None:
    """A remedy is told that has not been tried."""
    written(lock, locked_on)
    session = Refusing(*night(lock, *upgrade), refused="-e")
    with pytest.raises(SystemExit, match=r"cpu: could not be installed in the versions of .*cpu-linux") as told:
        noxfile.MEASURING["cpu"].func(session)
    assert str(told.value).endswith(end)
    assert all(each[0] == "install" for each in session.done)


def test_every_night_has_requirements_that_can_move(noxfile: Any) -> None:
    for _, names in noxfile.NIGHTS.values():
        for name in names:
            held = noxfile.ENVIRONMENTS[name].held
            found = [Requirement(each) for each in noxfile.loosened(ROOT / "pyproject.toml", name, held)]
            assert found
            pinned = {each.name for each in found if any(bound.operator in ("==", "<", "<=", "~=") for bound in each.specifier)}
            assert pinned == set(held)


def test_it_is_read_where_nox_alone_is_installed() -> None:
    """What it imports of the clone needs nothing that Wingspan needs, and nothing that Windows lacks."""
    code = """
import runpy, sys
found = runpy.run_path("noxfile.py")
print(*sorted({name.partition(".")[0] for name in sys.modules}))
print(*sorted(name for name in sys.modules if name.startswith("bench.")))
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    packages, own = (line.split() for line in done.stdout.splitlines())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = {Requirement(each).name for each in project["dependencies"]} - {"packaging"}  # which nox brings along
    assert not needs & set(packages)
    assert {each.split(".")[1] for each in own} == {"nox_sessions"}


def test_a_night_of_failed_cells_is_told(noxfile: Any, lock: Path) -> None:
    session = Session(*night(lock), failing="suites/nightly-cpu.toml")
    with pytest.raises(SystemExit, match=r"measure-cpu: suites/nightly-cpu\.toml did not end well"):
        noxfile.MEASURING["cpu"].func(session)


def test_the_end_of_a_night_measures_nothing_and_knows_no_stack(noxfile: Any) -> None:
    session = Session("suites/nightly.toml", "--night", "2020-11-30", "--markdown", "summary.md")
    noxfile.nightly_end.func(session)
    assert session.done == [("install", "-e", ".[nightly]"), ("wingspan", "nightly", *session.posargs, "--no-measure")]


def test_what_a_night_is_given_is_what_its_command_takes(noxfile: Any) -> None:
    """The same arguments go to those that measure and to the one that judges."""
    options = {option for each in nightly.params for option in each.opts}
    assert {"--only", "--budget", "--night", "--results", "--machine-name", "--markdown", "--out"} <= options
    assert {"--no-judge", "--no-publish", "--no-measure"} <= options


def test_the_file_of_what_is_acknowledged_is_no_suite(noxfile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    on("cpu", monkeypatch)
    session = Session("--acknowledged", "own.toml", "--night", "2020-11-30")
    noxfile.nightly.func(session)
    given = ["suites/nightly-cpu.toml", "--acknowledged", "own.toml", "--night", "2020-11-30"]
    assert session.queued == [("measure-cpu", given), ("nightly-end", given)]
    measuring = Session(*given)
    noxfile.MEASURING["cpu"].func(measuring)
    nights = [each[2:] for each in measuring.done if each[:2] == ("wingspan", "nightly")]
    assert nights == [
        ("suites/nightly-cpu.toml", "--no-judge", "--no-publish", "--acknowledged", "own.toml", "--night", "2020-11-30")
    ]
