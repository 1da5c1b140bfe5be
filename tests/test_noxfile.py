"""The sessions: the right machine is picked, the wrong one is told so in a line, every stack's environment is queued."""

import platform
import runpy
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nox.command
import pytest

from bench.suite import read_suite

ROOT = Path(__file__).parents[1]


class Session:
    """What the queueing sessions use of nox's session, recorded."""

    def __init__(self, *posargs: str) -> None:
        self.posargs = list(posargs)
        self.queued: list[tuple[str, list[str]]] = []
        self.done: list[tuple[str, ...]] = []
        self.failing: str | None = None

    def error(self, message: str) -> None:
        raise SystemExit(message)

    def notify(self, name: str, posargs: list[str]) -> None:
        self.queued.append((name, posargs))

    def install(self, *arguments: str) -> None:
        self.done.append(("install", *arguments))

    def run(self, *arguments: str) -> None:
        self.done.append(arguments)
        if self.failing is not None and self.failing in arguments:
            raise nox.command.CommandFailed(f"{arguments} failed")


@pytest.fixture(scope="module")
def noxfile() -> Any:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "noxfile.py")))


MACHINES = {
    "mac": ("Darwin", "arm64", False),
    "cuda": ("Linux", "x86_64", True),
    "cpu": ("Linux", "x86_64", False),
    "an Intel Mac": ("Darwin", "x86_64", False),
}


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    system, processor, has_driver = MACHINES[request.param]
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: processor)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/nvidia-smi" if has_driver else None)
    return "cpu" if request.param == "an Intel Mac" else str(request.param)


def test_bench_picks_what_fits_and_passes_arguments_on(noxfile: Any, machine: str) -> None:
    session = Session("--only", "x/*")
    noxfile.bench.func(session)
    (queued,) = session.queued
    assert queued == (f"measure-{machine}", [noxfile.SUITE[machine], "--only", "x/*"])


@pytest.mark.parametrize("wanted", ["mac", "cuda"])
def test_the_wrong_machine_is_told_in_one_line(noxfile: Any, machine: str, wanted: str) -> None:
    session = Session()
    run = getattr(noxfile, f"bench_{wanted}").func
    if wanted == machine:
        run(session)
        assert session.queued
        return
    with pytest.raises(SystemExit) as told:
        run(session)
    assert str(told.value).startswith(f"bench-{wanted} needs")
    assert "\n" not in str(told.value)
    assert session.queued == []


def test_native_windows_is_sent_to_wsl(noxfile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Windows")
    with pytest.raises(SystemExit, match="use WSL2"):
        noxfile.bench_cuda.func(Session())


def test_every_queued_session_exists_and_every_suite_reads(noxfile: Any) -> None:
    names = {each.name for each in vars(noxfile).values() if hasattr(each, "func")}
    for kind, extras in noxfile.EXTRAS.items():
        assert {f"measure-{extra}" for extra in extras} <= names
        assert read_suite(ROOT / noxfile.SUITE[kind]).question


def test_the_report_is_written_even_where_cells_failed(noxfile: Any) -> None:
    session = Session("suites/smoke.toml")
    session.failing = "run"
    with pytest.raises(nox.command.CommandFailed):
        noxfile.measure_cpu.func(session)
    assert session.done == [
        ("install", "-e", ".[cpu]"),
        ("wingspan", "run", "suites/smoke.toml"),
        ("wingspan", "report"),
    ]


def test_the_sessions_of_the_design_are_there(noxfile: Any) -> None:
    text = (ROOT / "noxfile.py").read_text()
    for name in ("bench", "bench-mac", "bench-cuda", "bench-cpu", "tests", "slow", "perf", "lint", "report"):
        assert f'name="{name}"' in text or f"def {name}(session" in text
    assert noxfile.nox.options.sessions == ["lint", "tests"]
