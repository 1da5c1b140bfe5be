"""The sessions: the right machine is picked, the wrong one is told so in a line, every stack's environment is queued."""

import platform
import time
import tomllib
from fnmatch import fnmatchcase
from typing import Any

import pytest
from nox_stage import MACHINES, ROOT, Session, on, read

from bench.suite import read_suite


@pytest.fixture(scope="module")
def noxfile() -> Any:
    return read()


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    on(request.param, monkeypatch)
    return "cpu" if request.param == "an Intel Mac" else str(request.param)


QUEUED = {
    "cpu": ["measure-cpu"],
    "mac": ["measure-mac", "measure-mac-unsloth", "measure-hf-mps"],
    "cuda": ["measure-cuda", "measure-cuda-unsloth", "measure-mlx-cuda"],
}


def test_bench_picks_what_fits_and_passes_arguments_on(noxfile: Any, machine: str) -> None:
    session = Session("--only", "x/*", "--strict")
    noxfile.bench.func(session)
    assert session.queued == [(name, ["--strict", "--only", "x/*"]) for name in QUEUED[machine]]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    moment = {"now": 1_000_000.0}
    monkeypatch.setattr(time, "time", lambda: moment["now"])
    return moment


def test_a_budget_is_shared_and_not_multiplied(noxfile: Any, monkeypatch: pytest.MonkeyPatch, clock: dict[str, float]) -> None:
    """Two hours for three environments, one of which has two suites; the first installs for 20 minutes and ends early."""
    on("cuda", monkeypatch)
    bench = Session("--budget", "2h")
    noxfile.bench_cuda.func(bench)
    first, second, third = (Session(*posargs) for _, posargs in bench.queued)
    first.install = lambda *arguments: clock.update(now=clock["now"] + 1200)  # type: ignore[method-assign]
    noxfile.MEASURING["cuda"].func(first)
    assert first.runs[0][-2:] == ("--budget", "2000s")
    clock["now"] += 600
    second.run = lambda *arguments: (Session.run(second, *arguments), clock.update(now=clock["now"] + 1500))  # type: ignore[method-assign]
    noxfile.MEASURING["cuda-unsloth"].func(second)
    assert [each[-1] for each in second.runs] == ["1800s", "1950s"]
    noxfile.MEASURING["mlx-cuda"].func(third)
    assert [each[-1] for each in third.runs] == ["900s"]
    assert not any(each.warned for each in (first, second, third))


def test_what_no_time_is_left_for_is_not_begun_and_says_so(noxfile: Any, monkeypatch: pytest.MonkeyPatch, clock: Any) -> None:
    on("mac", monkeypatch)
    session = Session("--until", str(clock["now"] + 59))
    noxfile.MEASURING["mac"].func(session)
    assert session.runs == []
    assert session.warned == ["suites/lesson.toml: the budget is spent; the same command again goes on from here"]
    assert session.done[-1] == ("wingspan", "report")


def test_a_budget_given_to_one_session_bounds_all_its_suites(noxfile: Any, monkeypatch: pytest.MonkeyPatch, clock: Any) -> None:
    on("cuda", monkeypatch)
    session = Session("--budget", "90m")
    noxfile.MEASURING["cuda-unsloth"].func(session)
    assert [each[-1] for each in session.runs] == ["2700s", "5400s"]


def test_a_budget_without_a_unit_is_refused(noxfile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    on("mac", monkeypatch)
    with pytest.raises(SystemExit, match="give a number with a unit"):
        noxfile.bench_mac.func(Session("--budget", "2"))


def test_each_backend_is_measured_in_one_environment(noxfile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell of the lesson that a machine can do belongs to one of its environments, whatever else is installed there."""
    for kind, devices in {"mac": ("metal", "mps"), "cuda": ("cuda",)}.items():
        on(kind, monkeypatch)
        globs = [each.cells for each in noxfile.ENVIRONMENTS.values() if each.kind == kind]
        for backend in ("hf", "unsloth", "mlx"):
            ids = [f"llama-3.1-8b/lora/{backend}@{device}/rank=8" for device in devices]
            assert sum(fnmatchcase(each, glob) for each in ids for glob in globs) == 1


def test_what_was_asked_for_is_narrowed_to_the_environment(noxfile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    on("cuda", monkeypatch)
    session = Session("--only", "llama-3.2-1b/*")
    noxfile.MEASURING["cuda-unsloth"].func(session)
    assert session.runs == [
        ("suites/lesson.toml", "--only", "llama-3.2-1b/*&*/unsloth@cuda*"),
        ("suites/ladder.toml", "--only", "llama-3.2-1b/*"),
    ]


def test_a_ladder_stands_in_one_environment_alone(noxfile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rungs are to have the same versions."""
    on("cuda", monkeypatch)
    session = Session("suites/ladder.toml")
    noxfile.bench_cuda.func(session)
    assert session.queued == [("measure-cuda-unsloth", ["suites/ladder.toml"])]
    controls = Session("suites/controls.toml")
    noxfile.bench_cuda.func(controls)
    assert [name for name, _ in controls.queued] == QUEUED["cuda"]
    on("mac", monkeypatch)
    with pytest.raises(SystemExit, match=r"no environment of bench-mac measures suites/ladder.toml"):
        noxfile.bench_mac.func(Session("suites/ladder.toml"))


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


def test_every_environment_has_its_session_its_extra_and_suites_that_read(noxfile: Any) -> None:
    names = {each.name for each in noxfile.MEASURING.values()}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name, environment in noxfile.ENVIRONMENTS.items():
        assert f"measure-{name}" in names
        assert name in extras
        for suite in environment.suites:
            assert read_suite(ROOT / suite).question


@pytest.mark.parametrize("name", ["mac", "mac-unsloth", "hf-mps", "mlx-cuda"])
def test_a_measuring_session_on_the_wrong_machine_is_told_so_too(
    noxfile: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    on("cpu", monkeypatch)
    with pytest.raises(SystemExit, match=f"measure-{name} needs"):
        noxfile.MEASURING[name].func(Session())


def test_the_report_is_written_and_the_next_suite_run_even_where_cells_failed(
    noxfile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    on("cuda", monkeypatch)
    session = Session(failing="suites/lesson.toml")
    with pytest.raises(SystemExit, match=r"measure-cuda-unsloth: suites/lesson.toml did not end well"):
        noxfile.MEASURING["cuda-unsloth"].func(session)
    assert session.done == [
        ("install", "-e", ".[cuda-unsloth]"),
        ("wingspan", "run", "suites/lesson.toml", "--only", "*/unsloth@cuda*"),
        ("wingspan", "run", "suites/ladder.toml"),
        ("wingspan", "report"),
    ]


def test_a_suite_of_ones_own_takes_the_place_of_the_sessions(noxfile: Any) -> None:
    session = Session("suites/other.toml", "--strict")
    noxfile.MEASURING["cpu"].func(session)
    assert session.runs == [("suites/other.toml", "--strict")]


def test_a_suite_that_is_not_there_is_told_before_anything_is_installed(noxfile: Any) -> None:
    session = Session("suites/nope.toml")
    with pytest.raises(SystemExit, match=r"no such suite: suites/nope\.toml"):
        noxfile.bench.func(session)
    assert not session.queued


def test_slow_queues_the_environment_that_unsloth_needs(noxfile: Any) -> None:
    whole, part = Session(), Session("tests/test_run.py")
    noxfile.slow.func(whole)
    noxfile.slow.func(part)
    assert (whole.queued, part.queued) == ([("slow-unsloth", [])], [])
    assert all("slow and not unsloth" in each.done[-1] for each in (whole, part))


def test_unsloth_is_installed_without_what_it_asks_for(noxfile: Any) -> None:
    session = Session()
    noxfile.slow_unsloth.func(session)
    stack, alone, run = session.done
    assert alone[1] == "--no-deps"
    assert {"torch==2.13.0", "-e"} <= set(stack)
    assert {"unsloth==2026.10.9", "unsloth_zoo==2026.10.9"} <= set(alone)
    assert run[:3] == ("pytest", "-m", "unsloth")


def test_perf_compares_with_the_baseline(noxfile: Any) -> None:
    session = Session("-m", "not long")
    noxfile.perf.func(session)
    assert session.done[-1] == ("python", "tests/perf/baseline.py", "-m", "not long")
    assert (ROOT / session.done[-1][1]).is_file()


def test_the_sessions_of_the_design_are_there(noxfile: Any) -> None:
    text = (ROOT / "noxfile.py").read_text()
    for name in ("bench", "bench-mac", "bench-cuda", "bench-cpu", "tests", "slow", "perf", "lint", "report", "nightly"):
        assert f'name="{name}"' in text or f"def {name}(session" in text
    assert noxfile.nox.options.sessions == ["lint", "tests"]
