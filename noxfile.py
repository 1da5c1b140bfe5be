"""Everything one does with Wingspan, as sessions: `nox -s bench`, `bench-mac`, `bench-cuda`, `bench-cpu`, `nightly`, `tests`, …

In: this machine, and arguments after `--` (handed to `wingspan run` or pytest). Out: rows in results/, a report in reports/, or
a verdict on the code. A `bench-*` session makes one environment per extra, since the stacks pin one another's versions, runs
the suite there with every backend that the environment has, and ends with the report. `nightly` does so in locked versions, and
then judges and publishes once.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).parent))  # nox has an environment of its own, where Wingspan is not installed

from bench.nox_sessions import lock as locks
from bench.nox_sessions.arguments import read_arguments, suites_in, today
from bench.nox_sessions.loosened import loosened
from bench.nox_sessions.stacks import ENVIRONMENTS, NIGHTS, only, wanted

ROOT = Path(__file__).parent
nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["lint", "tests"]
nox.options.default_venv_backend = "virtualenv"  # pip, not uv: see the README on PyTorch's CPU wheel
nox.options.reuse_venv = "yes"

NEEDS = {
    "mac": "a Mac with Apple silicon",
    "cuda": "Linux or WSL2 with an NVIDIA driver (nvidia-smi was not found)",
}
LEAST_S = 60
"""With less than a minute left, no run is worth starting."""


def kind_of_machine() -> str:
    """`mac`, `cuda` or `cpu`: the fastest kind of device that this computer has."""
    if (platform.system(), platform.machine()) == ("Darwin", "arm64"):
        return "mac"
    return "cuda" if platform.system() == "Linux" and shutil.which("nvidia-smi") else "cpu"


def require_machine(session: nox.Session, kind: str, name: str) -> None:
    """End the session in one line where this computer is of another kind."""
    if platform.system() == "Windows":
        session.error("Wingspan does not run on native Windows: use WSL2")
    if kind in NEEDS and kind_of_machine() != kind:
        session.error(f"{name} needs {NEEDS[kind]}; this is {platform.system()} on {platform.machine()}. Try: nox -s bench")


def queue_measurements(session: nox.Session, kind: str) -> None:
    """Queue one measuring session per environment; one that fails does not keep the others from running.

    A budget is the time for all of them together, installing included: it becomes a moment, and each session takes its share
    of what is left until then.
    """
    require_machine(session, kind, f"bench-{kind}")
    asked, rest = read_arguments(session.posargs)
    absent = [suite for suite in suites_in(rest) if not Path(suite).is_file()]
    if absent:
        session.error(f"no such suite: {', '.join(absent)}")
    names = [name for name, each in ENVIRONMENTS.items() if each.kind == kind and wanted(each, suites_in(rest))]
    if not names:
        session.error(f"no environment of bench-{kind} measures {', '.join(suites_in(rest))}")
    queue(session, names, asked, rest)


def queue(session: nox.Session, names: Sequence[str], asked: argparse.Namespace, arguments: list[str]) -> None:
    """Queue the measuring sessions of these environments, with what was asked of all of them."""
    until = [] if asked.budget is None else ["--until", f"{time.time() + asked.budget:.0f}"]
    only = [] if asked.only is None else ["--only", asked.only]
    for number, name in enumerate(names):
        sharing = ["--sharing", f"{len(names) - number}"] if until else []
        session.notify(f"measure-{name}", posargs=[*arguments, *only, *until, *sharing])


@nox.session(venv_backend="none")
def bench(session: nox.Session) -> None:
    """Measure this machine's suites with every backend it has, then report. Arguments: of `wingspan run`."""
    queue_measurements(session, kind_of_machine())


@nox.session(name="bench-mac", venv_backend="none")
def bench_mac(session: nox.Session) -> None:
    """The lesson's grid on a Mac with Apple silicon: MLX, Unsloth (through MLX), Hugging Face on MPS."""
    queue_measurements(session, "mac")


@nox.session(name="bench-cuda", venv_backend="none")
def bench_cuda(session: nox.Session) -> None:
    """The lesson's grid on an NVIDIA card: Hugging Face, Unsloth, MLX; and the ladder between the first two."""
    queue_measurements(session, "cuda")


@nox.session(name="bench-cpu", venv_backend="none")
def bench_cpu(session: nox.Session) -> None:
    """Small real models on the CPU, both stacks: minutes."""
    queue_measurements(session, "cpu")


@nox.session(venv_backend="none")
def nightly(session: nox.Session) -> None:
    """One night on this machine: measure with its stacks, judge, publish. `-- --upgrade` first takes the newest versions."""
    kind = kind_of_machine()
    require_machine(session, kind, "nightly")
    asked, rest = read_arguments(session.posargs)
    suite, names = NIGHTS[kind]
    suites = suites_in(rest) or [suite]
    rest = [*suites, *(each for each in rest if each not in suites), "--night", asked.night or today()]
    queue(session, names, asked, [*rest, *(["--upgrade"] if asked.upgrade else [])])
    session.notify("nightly-end", posargs=rest)


@nox.session(name="nightly-end")
def nightly_end(session: nox.Session) -> None:
    """Queued by nightly: judge and publish what was measured, in an environment of its own, which no stack knows of."""
    session.install("-e", ".[nightly]")
    session.run("wingspan", "nightly", *session.posargs, "--no-measure")


NEWEST = ("--upgrade", "--upgrade-strategy", "eager")


def install_night(session: nox.Session, name: str, asked: argparse.Namespace) -> list[str]:
    """Install an environment in the versions of its lock; what went wrong, where the night can be measured all the same.

    Where there is no lock yet, the versions that pyproject.toml pins are installed and become it, `--upgrade` or not: a release
    that breaks something is noticed by what ran before it. Afterwards its pins are lower bounds. A night that is taken up again
    stays in the versions in which it began. Where the newest cannot be installed, the night is measured in those of the lock:
    a history with a hole is no help, and the session ends in an error.
    """
    lock = locks.path_of(Path(asked.results), name)
    if not lock.exists():
        if asked.upgrade:
            session.log(f"{name}: a first night is in the versions that pyproject.toml pins; --upgrade is for the next")
        session.install("-e", f".[{name}]")
        session.run("python", "-m", "bench.locks", str(lock), asked.night)
        return []
    try:
        locks.versions_in(lock)
    except locks.BadLock as error:
        session.error(f"{name}: {error}")
    packages = ("-e", ".", *loosened(ROOT / "pyproject.toml", name, ENVIRONMENTS[name].held))
    faults = []
    if asked.upgrade and locks.night_of(lock) == asked.night:
        session.log(f"{name}: goes on in the versions of {lock}, which are this night's; --upgrade is for the next")
    elif asked.upgrade:
        if installs(session, *packages, *NEWEST):
            session.run("python", "-m", "bench.locks", str(lock), asked.night, "--refresh")
            return []
        faults.append(f"the newest versions could not be installed, so the night was measured in those of {lock}")
        session.warn(f"{name}: the newest versions cannot be installed, see above; this night is measured in those of {lock}")
    if not installs(session, *packages, "--constraint", str(lock)):
        when = ", on another date" if asked.upgrade else ""
        remedy = "" if faults else f"; if pyproject.toml now wants others: nox -s nightly -- --upgrade{when}"
        session.error(f"{name}: could not be installed in the versions of {lock}, see above{remedy}")
    session.run("python", "-m", "bench.locks", str(lock), asked.night)
    return faults


def installs(session: nox.Session, *arguments: str) -> bool:
    """Install; whether pip could."""
    try:
        session.install(*arguments)
    except nox.command.CommandFailed:
        return False
    return True


def measure(session: nox.Session, name: str) -> None:
    """Install one environment, run its suites there, and report even where cells failed; but of a night `nightly-end` reports."""
    environment = ENVIRONMENTS[name]
    require_machine(session, environment.kind, f"measure-{name}")
    asked, rest = read_arguments(session.posargs)
    until = asked.until or (time.time() + asked.budget if asked.budget else None)
    suites = suites_in(rest) or list(environment.suites)
    rest = [each for each in rest if each not in suites]
    faults = []
    if asked.night is None:
        session.install("-e", f".[{name}]")
    else:
        faults += install_night(session, name, asked)
        rest += ["--night", asked.night]
    try:
        for number, suite in enumerate(suites):
            share_s = None if until is None else (until - time.time()) / (asked.sharing + len(suites) - number - 1)
            if not run_suite(session, suite, [*rest, *only(asked.only, suite, environment)], share_s):
                faults.append(f"{suite} did not end well")
    finally:
        if asked.night is None:
            session.run("wingspan", "report")
    if faults:
        session.error(f"measure-{name}: {', '.join(faults)}; the lines above say why")


def run_suite(session: nox.Session, suite: str, arguments: list[str], share_s: float | None) -> bool:
    """Run a suite for `share_s` seconds at most; whether it ended well. Below `LEAST_S` it is not begun."""
    if share_s is not None and share_s < LEAST_S:
        session.warn(f"{suite}: the budget is spent; the same command again goes on from here")
        return True
    limit = [] if share_s is None else ["--budget", f"{share_s:.0f}s"]
    command = ["nightly", suite, "--no-judge", "--no-publish"] if "--night" in arguments else ["run", suite]
    try:
        session.run("wingspan", *command, *arguments, *limit)
    except nox.command.CommandFailed:
        return False
    return True


def measuring(name: str) -> Callable[[nox.Session], None]:
    """The session that measures in one environment."""

    def run(session: nox.Session) -> None:
        measure(session, name)

    run.__doc__ = f"Queued by bench-{ENVIRONMENTS[name].kind}, and by nightly where it has a part in it."
    return nox.session(name=f"measure-{name}")(run)


MEASURING = {name: measuring(name) for name in ENVIRONMENTS}


@nox.session
def tests(session: nox.Session) -> None:
    """The tests, both real backends included, in two processes; arguments go to pytest."""
    session.install("-e", ".[cpu,dev]")
    session.run("pytest", "-n", "2", "-m", "not slow", "--ignore=tests/perf", *session.posargs)


@nox.session
def slow(session: nox.Session) -> None:
    """The tests that take longer than CI may: kills at 200 moments, the whole smoke suite; then those of `slow-unsloth`."""
    session.install("-e", ".[cpu,dev]")
    session.run("pytest", "-m", "slow and not unsloth", "--ignore=tests/perf", "--timeout=3600", *session.posargs)
    if not session.posargs:
        session.notify("slow-unsloth", posargs=[])


UNSLOTH_STACK = (
    *("torch==2.13.0", "transformers==5.17.0", "trl==1.15.0", "peft==0.21.2", "bitsandbytes==0.50.2", "datasets>=4.6,<5"),
    *("accelerate", "mlx[cpu]==0.32.4", "mlx-lm==0.32.2", "einops", "hf_transfer", "json5", "msgspec", "nest-asyncio"),
    *("pillow", "protobuf", "sentencepiece", "structlog", "tyro", "typer", "wheel", "pytest", "pytest-timeout"),
)
"""What unsloth's CPU path and its MLX path need of what it asks for, in its versions."""
UNSLOTH = ("unsloth==2026.10.9", "unsloth_zoo==2026.10.9", "cut_cross_entropy", "diffusers", "mlx-vlm==0.7.9", "torchao==0.18.0")
"""Installed alone: what they ask for beside it is gigabytes of CUDA, and a torchvision and xformers that do not fit torch+cpu."""


@nox.session(name="slow-unsloth")
def slow_unsloth(session: nox.Session) -> None:
    """Queued by slow: the backend unsloth by its CPU path and its MLX path, in an environment of its own."""
    session.install("-e", ".", *UNSLOTH_STACK)
    session.install("--no-deps", *UNSLOTH)
    session.run("pytest", "-m", "unsloth", "tests/backends", "--timeout=3600", *session.posargs)


@nox.session
def perf(session: nox.Session) -> None:
    """The harness's own cost, by pytest-benchmark, against this machine's baseline; without `-- -m "not long"` an hour."""
    session.install("-e", ".[cpu,dev]")
    session.run("python", "tests/perf/baseline.py", *session.posargs)


@nox.session
def detector(session: nox.Session) -> None:
    """How well the nightly gate finds slowdowns, by simulation: minutes. `-- --out docs/detector.md` writes the table there."""
    session.install("-e", ".[nightly]")
    session.run("python", "-m", "bench.history.trials", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, types, the one-way floors of the design, and a README and a report that say what the results say."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")
    session.run("wingspan", "report", "--readme", "README.md", "--check")
    session.run("wingspan", "report", "--check")


@nox.session
def report(session: nox.Session) -> None:
    """Render the report from results/; arguments of `wingspan report`."""
    session.install("-e", ".")
    session.run("wingspan", "report", *session.posargs)
