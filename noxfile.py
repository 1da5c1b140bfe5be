"""Everything one does with Wingspan, as sessions: `nox -s bench`, `bench-mac`, `bench-cuda`, `bench-cpu`, `tests`, …

In: this machine, and arguments after `--` (handed to `wingspan run` or pytest). Out: rows in results/, a report in reports/, or
a verdict on the code. A `bench-*` session makes one environment per extra, since the stacks pin one another's versions, runs
the suite there with every backend that the environment has, and ends with the report.
"""

from __future__ import annotations

import platform
import shutil

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["lint", "tests"]
nox.options.default_venv_backend = "virtualenv"  # pip, not uv: see the README on PyTorch's CPU wheel
nox.options.reuse_venv = "yes"

SUITE = {"mac": "suites/lesson.toml", "cuda": "suites/lesson.toml", "cpu": "suites/smoke.toml"}
EXTRAS = {"mac": ("mac",), "cuda": ("cuda",), "cpu": ("cpu",)}
WRONG_MACHINE = {
    "mac": "bench-mac needs a Mac with Apple silicon",
    "cuda": "bench-cuda needs Linux or WSL2 with an NVIDIA driver (nvidia-smi was not found)",
}


def kind_of_machine() -> str:
    """`mac`, `cuda` or `cpu`: the fastest kind of device that this computer has."""
    if (platform.system(), platform.machine()) == ("Darwin", "arm64"):
        return "mac"
    return "cuda" if platform.system() == "Linux" and shutil.which("nvidia-smi") else "cpu"


def queue_measurements(session: nox.Session, kind: str) -> None:
    """Queue one measuring session per environment."""
    if platform.system() == "Windows":
        session.error("Wingspan does not run on native Windows: use WSL2")
    if kind in WRONG_MACHINE and kind_of_machine() != kind:
        session.error(f"{WRONG_MACHINE[kind]}; this is {platform.system()} on {platform.machine()}. Try: nox -s bench")
    for extra in EXTRAS[kind]:
        session.notify(f"measure-{extra}", posargs=[SUITE[kind], *session.posargs])


@nox.session(venv_backend="none")
def bench(session: nox.Session) -> None:
    """Measure this machine's suite with every backend it has, then report. Arguments: of `wingspan run`."""
    queue_measurements(session, kind_of_machine())


@nox.session(name="bench-mac", venv_backend="none")
def bench_mac(session: nox.Session) -> None:
    """The lesson's grid on a Mac with Apple silicon (MLX)."""
    queue_measurements(session, "mac")


@nox.session(name="bench-cuda", venv_backend="none")
def bench_cuda(session: nox.Session) -> None:
    """The lesson's grid on an NVIDIA card (Hugging Face)."""
    queue_measurements(session, "cuda")


@nox.session(name="bench-cpu", venv_backend="none")
def bench_cpu(session: nox.Session) -> None:
    """Small real models on the CPU, both stacks: minutes."""
    queue_measurements(session, "cpu")


def measure(session: nox.Session, extra: str, kind: str) -> None:
    """Install one stack, run the suite with it, and report even where cells failed."""
    arguments = list(session.posargs) or [SUITE[kind]]
    session.install("-e", f".[{extra}]")
    try:
        session.run("wingspan", "run", *arguments)
    finally:
        session.run("wingspan", "report")


@nox.session(name="measure-cpu")
def measure_cpu(session: nox.Session) -> None:
    """Queued by bench-cpu: the `cpu` environment."""
    measure(session, "cpu", "cpu")


@nox.session(name="measure-mac")
def measure_mac(session: nox.Session) -> None:
    """Queued by bench-mac: the `mac` environment."""
    measure(session, "mac", "mac")


@nox.session(name="measure-cuda")
def measure_cuda(session: nox.Session) -> None:
    """Queued by bench-cuda: the `cuda` environment."""
    measure(session, "cuda", "cuda")


@nox.session
def tests(session: nox.Session) -> None:
    """The tests, both real backends included; arguments go to pytest."""
    session.install("-e", ".[cpu,dev]")
    session.run("pytest", "-m", "not slow", "--ignore=tests/perf", *session.posargs)


@nox.session
def slow(session: nox.Session) -> None:
    """The tests that take longer than CI may: kills at 200 moments, the whole smoke suite."""
    session.install("-e", ".[cpu,dev]")
    session.run("pytest", "-m", "slow", "--ignore=tests/perf", "--timeout=3600", *session.posargs)


@nox.session
def perf(session: nox.Session) -> None:
    """The harness's own cost, by pytest-benchmark: half an hour on a machine that does nothing else."""
    session.install("-e", ".[cpu,dev]")
    columns = "--benchmark-columns=min,median,iqr,rounds"
    session.run("pytest", "tests/perf", columns, "--timeout=7200", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, types, and the one-way floors of the design."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session
def report(session: nox.Session) -> None:
    """Render the report from results/; arguments of `wingspan report`."""
    session.install("-e", ".")
    session.run("wingspan", "report", *session.posargs)
