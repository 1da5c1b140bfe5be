"""The environments in which stacks are measured: one set of packages each, since the stacks pin one another's versions.

In: nothing; what was asked for. Out: which environments there are, which suites and cells of them each measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LESSON, LADDER, SMOKE = "suites/lesson.toml", "suites/ladder.toml", "suites/smoke.toml"


@dataclass(frozen=True)
class Environment:
    """One set of packages, installed by the extra of its name, on one kind of machine.

    `suites` are measured there; of a suite that several environments share, the cells that `cells` matches, so that a backend
    is measured with one set of versions. A suite in `WHOLE` is measured whole in the one environment that has it. A night's
    `--upgrade` leaves the packages `held` where they are.
    """

    kind: str
    suites: tuple[str, ...]
    cells: str | None = None
    held: tuple[str, ...] = ()


WHOLE = (LADDER,)
ENVIRONMENTS = {
    "cpu": Environment("cpu", (SMOKE,), held=("torch",)),  # PyPI's newest for Linux is built for CUDA: gigabytes
    "mac": Environment("mac", (LESSON,), "*/mlx@metal*"),
    "mac-unsloth": Environment("mac", (LESSON,), "*/unsloth@metal*"),
    "hf-mps": Environment("mac", (LESSON,), "*/hf@mps*"),
    "cuda": Environment("cuda", (LESSON,), "*/hf@cuda*"),
    "cuda-unsloth": Environment("cuda", (LESSON, LADDER), "*/unsloth@cuda*"),
    "mlx-cuda": Environment("cuda", (LESSON,), "*/mlx@cuda*"),
}
"""In the order in which they are measured: what the lesson is about first, controls last."""
NIGHTS = {
    "cpu": ("suites/nightly-cpu.toml", ("cpu",)),
    "mac": ("suites/nightly.toml", ("mac",)),
    "cuda": ("suites/nightly.toml", ("cuda", "cuda-unsloth")),
}
"""The suite of a night on each kind of machine, and the environments that measure their cells of it."""


def wanted(environment: Environment, suites: Sequence[str]) -> bool:
    """Whether these suites, none for its own, can be measured in this environment."""
    return all(suite not in WHOLE or suite in environment.suites for suite in suites)


def only(asked: str | None, suite: str, environment: Environment) -> list[str]:
    """Which cells are measured here, as arguments: what was asked for, of those that belong to this environment."""
    globs = [glob for glob in (asked, None if suite in WHOLE else environment.cells) if glob]
    return ["--only", "&".join(globs)] if globs else []
