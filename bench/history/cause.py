"""What changed around a shift: packages, driver, system, settings, and the harness itself.

In: a track, and the two nights between which something shifted. Out: a `Cause`, which names the recorded changes night by night.
It says what coincided; whether that is the reason, a person judges. How two nights' conditions are compared is given from
outside (`bench.environments.environment_diff`), since lists of packages lie in files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from bench.environments import Difference, EnvironmentDiff
from bench.history.series import Track

Conditions = Mapping[str, Any]
Attributed = Literal["environment", "harness", "nothing recorded"]
Compare = Callable[[Conditions, Conditions], EnvironmentDiff]
_SAME = ("epoch_digest", "environment_digest", "source_revision", "implementation")


@dataclass(frozen=True, slots=True)
class Step:
    """What changed from one night to the next of which anything is known; `notes` say what of it is not known."""

    before: str
    night: str
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cause:
    """What is recorded of the time between two nights. `steps` are the changes in it, in order.

    `nearby`, where there is none, are those of one night to either side: a small shift may be found a night early or late.
    `mixed` are those of the two nights within which the environment changed, before some runs and after others.
    """

    before: str
    night: str
    steps: tuple[Step, ...] = ()
    nearby: tuple[Step, ...] = ()
    mixed: tuple[str, ...] = ()

    @property
    def attributed_to(self) -> Attributed:
        """What changed between the two nights; the harness where nothing else did, which may just measure otherwise now."""
        kinds = {each.kind for step in self.steps for each in step.differences}
        if self.mixed or kinds - {"harness"}:
            return "environment"
        return "harness" if kinds else "nothing recorded"


def cause(track: Track, before: str, night: str, compare: Compare) -> Cause:
    """What changed after the night `before` and until `night`, both of the track."""
    mixed = tuple(each for each in (before, night) if each in track.mixed)
    steps = _steps(track, before, night, compare)
    if mixed or any(step.differences for step in steps):
        return Cause(before, night, steps, mixed=mixed)
    known = sorted(track.conditions)
    earlier, later = [each for each in known if each < before], [each for each in known if each > night]
    nearby = (
        *(_steps(track, earlier[-1], before, compare) if earlier else ()),
        *(_steps(track, night, later[0], compare) if later else ()),
    )
    return Cause(before, night, steps, tuple(step for step in nearby if step.differences))


def _steps(track: Track, before: str, night: str, compare: Compare) -> tuple[Step, ...]:
    """The changes between two nights; none where the second was as the first, whatever others did on nights between."""
    known = {each: row for each, row in sorted(track.conditions.items()) if before <= each <= night}
    if before not in known or night not in known or _same(known[before], known[night]):
        return ()
    found = [_step(a, b, known, compare) for a, b in pairwise(known) if not _same(known[a], known[b])]
    return tuple(step for step in found if step.differences or step.notes)


def _same(one: Conditions, other: Conditions) -> bool:
    return bool(one["epoch_digest"]) and all(one[name] == other[name] for name in _SAME)


def _step(before: str, night: str, known: Mapping[str, Conditions], compare: Compare) -> Step:
    found = compare(known[before], known[night])
    return Step(before, night, (*found.differences, *_implementation(known[before], known[night])), found.notes)


def _implementation(before: Conditions, after: Conditions) -> list[Difference]:
    """What the stack made of the same request, where both nights told it: another kernel, another cache."""
    old, new = (_pairs(each["implementation"]) for each in (before, after))
    if not old or not new:
        return []
    return [
        Difference("implementation", name, old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def _pairs(text: str) -> dict[str, str]:
    """A map as `bench.analysis.as_text` writes it."""
    return {name: value for name, _, value in (each.partition("=") for each in text.split("; ")) if name}
