"""Everything one does with Wingspan, as sessions: `nox -s bench`, `bench-mac`, `bench-cuda`, `bench-cpu`, `tests`, …

In: this machine, and arguments after `--` (handed to `wingspan run` or pytest). Out: rows in results/, a report in reports/, or
a verdict on the code. A `bench-*` session makes one environment per extra, since the stacks pin one another's versions, runs
the suite there with every backend that the environment has, and ends with the report.
"""

from __future__ import annotations

import argparse
import platform
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["lint", "tests"]
nox.options.default_venv_backend = "virtualenv"  # pip, not uv: see the README on PyTorch's CPU wheel
nox.options.reuse_venv = "yes"

LESSON, LADDER, SMOKE = "suites/lesson.toml", "suites/ladder.toml", "suites/smoke.toml"


@dataclass(frozen=True)
class Environment:
    """One set of packages, installed by the extra of its name, on one kind of machine.

    `suites` are measured there; of a suite that several environments share, the cells that `cells` matches, so that a backend
    is measured with one set of versions. A suite in `WHOLE` is measured whole in the one environment that has it.
    """

    kind: str
    suites: tuple[str, ...]
    cells: str | None = None


WHOLE = (LADDER,)
ENVIRONMENTS = {
    "cpu": Environment("cpu", (SMOKE,)),
    "mac": Environment("mac", (LESSON,), "*/mlx@metal*"),
    "mac-unsloth": Environment("mac", (LESSON,), "*/unsloth@metal*"),
    "hf-mps": Environment("mac", (LESSON,), "*/hf@mps*"),
    "cuda": Environment("cuda", (LESSON,), "*/hf@cuda*"),
    "cuda-unsloth": Environment("cuda", (LESSON, LADDER), "*/unsloth@cuda*"),
    "mlx-cuda": Environment("cuda", (LESSON,), "*/mlx@cuda*"),
}
"""In the order in which they are measured: what the lesson is about first, controls last."""
NEEDS = {
    "mac": "a Mac with Apple silicon",
    "cuda": "Linux or WSL2 with an NVIDIA driver (nvidia-smi was not found)",
}
UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
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


def read_arguments(session: nox.Session) -> tuple[argparse.Namespace, list[str]]:
    """What is meant for us of the arguments after `--`, and the rest, which is for `wingspan run`."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--only")
    parser.add_argument("--budget", type=seconds)
    parser.add_argument("--until", type=float)
    parser.add_argument("--sharing", type=int, default=1)
    found, rest = parser.parse_known_args(session.posargs)
    return found, rest


def seconds(text: str) -> float:
    """A time span such as 90s, 45m or 2h, in seconds."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(s|m|min|h|d)\s*", text)
    if found is None:
        raise SystemExit(f"--budget {text!r}: give a number with a unit, such as 90s, 45m or 2h")
    return float(found.group(1)) * UNITS_S[found.group(2)]


def queue_measurements(session: nox.Session, kind: str) -> None:
    """Queue one measuring session per environment; one that fails does not keep the others from running.

    A budget is the time for all of them together, installing included: it becomes a moment, and each session takes its share
    of what is left until then.
    """
    require_machine(session, kind, f"bench-{kind}")
    asked, rest = read_arguments(session)
    absent = [suite for suite in suites_in(rest) if not Path(suite).is_file()]
    if absent:
        session.error(f"no such suite: {', '.join(absent)}")
    names = [name for name, each in ENVIRONMENTS.items() if each.kind == kind and wanted(each, rest)]
    if not names:
        session.error(f"no environment of bench-{kind} measures {', '.join(suites_in(rest))}")
    until = [] if asked.budget is None else ["--until", f"{time.time() + asked.budget:.0f}"]
    only = [] if asked.only is None else ["--only", asked.only]
    for number, name in enumerate(names):
        sharing = ["--sharing", f"{len(names) - number}"] if until else []
        session.notify(f"measure-{name}", posargs=[*rest, *only, *until, *sharing])


def suites_in(arguments: list[str]) -> list[str]:
    """The suites named among the arguments."""
    return [each for each in arguments if each.endswith(".toml")]


def wanted(environment: Environment, arguments: list[str]) -> bool:
    """Whether a suite named in the arguments, if one is, can be measured in this environment."""
    return all(suite not in WHOLE or suite in environment.suites for suite in suites_in(arguments))


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


def measure(session: nox.Session, name: str) -> None:
    """Install one environment, run its suites there, and report even where cells failed."""
    environment = ENVIRONMENTS[name]
    require_machine(session, environment.kind, f"measure-{name}")
    asked, rest = read_arguments(session)
    until = asked.until or (time.time() + asked.budget if asked.budget else None)
    suites = suites_in(rest) or list(environment.suites)
    rest = [each for each in rest if each not in suites]
    session.install("-e", f".[{name}]")
    failed = []
    try:
        for number, suite in enumerate(suites):
            share_s = None if until is None else (until - time.time()) / (asked.sharing + len(suites) - number - 1)
            if not run_suite(session, suite, [*rest, *only(asked.only, suite, environment)], share_s):
                failed.append(suite)
    finally:
        session.run("wingspan", "report")
    if failed:
        session.error(f"measure-{name}: {', '.join(failed)} did not end well; the lines above say why")


def run_suite(session: nox.Session, suite: str, arguments: list[str], share_s: float | None) -> bool:
    """Run a suite for `share_s` seconds at most; whether it ended well. Below `LEAST_S` it is not begun."""
    if share_s is not None and share_s < LEAST_S:
        session.warn(f"{suite}: the budget is spent; the same command again goes on from here")
        return True
    limit = [] if share_s is None else ["--budget", f"{share_s:.0f}s"]
    try:
        session.run("wingspan", "run", suite, *arguments, *limit)
    except nox.command.CommandFailed:
        return False
    return True


def only(asked: str | None, suite: str, environment: Environment) -> list[str]:
    """Which cells are measured here: what was asked for, of those that belong to this environment."""
    globs = [glob for glob in (asked, None if suite in WHOLE else environment.cells) if glob]
    return ["--only", "&".join(globs)] if globs else []


@nox.session(name="measure-cpu")
def measure_cpu(session: nox.Session) -> None:
    """Queued by bench-cpu: both stacks on the CPU."""
    measure(session, "cpu")


@nox.session(name="measure-mac")
def measure_mac(session: nox.Session) -> None:
    """Queued by bench-mac: MLX."""
    measure(session, "mac")


@nox.session(name="measure-mac-unsloth")
def measure_mac_unsloth(session: nox.Session) -> None:
    """Queued by bench-mac: Unsloth, which trains through MLX there."""
    measure(session, "mac-unsloth")


@nox.session(name="measure-hf-mps")
def measure_hf_mps(session: nox.Session) -> None:
    """Queued by bench-mac: Hugging Face on Apple's GPU, a control."""
    measure(session, "hf-mps")


@nox.session(name="measure-cuda")
def measure_cuda(session: nox.Session) -> None:
    """Queued by bench-cuda: Hugging Face."""
    measure(session, "cuda")


@nox.session(name="measure-cuda-unsloth")
def measure_cuda_unsloth(session: nox.Session) -> None:
    """Queued by bench-cuda: Unsloth, and the ladder of both in one set of versions."""
    measure(session, "cuda-unsloth")


@nox.session(name="measure-mlx-cuda")
def measure_mlx_cuda(session: nox.Session) -> None:
    """Queued by bench-cuda: MLX on CUDA, a control."""
    measure(session, "mlx-cuda")


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
    """The harness's own cost, by pytest-benchmark: half an hour on a machine that does nothing else."""
    session.install("-e", ".[cpu,dev]")
    columns = "--benchmark-columns=min,median,iqr,rounds"
    session.run("pytest", "tests/perf", columns, "--timeout=7200", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, types, the one-way floors of the design, and a README whose verdicts are those of the results."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")
    session.run("wingspan", "report", "--readme", "README.md", "--check")


@nox.session
def report(session: nox.Session) -> None:
    """Render the report from results/; arguments of `wingspan report`."""
    session.install("-e", ".")
    session.run("wingspan", "report", *session.posargs)
