"""How much of the difference between two machines is the silicon's, and how much the software's.

In: sides of comparisons (`bench.analysis.sides` of `tokens_per_s`): who did which work, how fast. Out: for each work the ratio of
the two machines by the best stack of each, and where a control arm ran (one stack on both: mlx@cuda, unsloth@metal, hf@mps), that
ratio taken apart: the machines on that one stack, times the best stack against it on the first machine, times it against the best
on the second. Every part has its interval, or the reason why the two may not be compared; a refused part has no number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from bench.fairness import Side, refusal
from bench.intervals import interval, ratio_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Rate of one party over that of another, with its 95% interval (None: fewer than two runs a side).

    `value` is None where the comparison is `refused`.
    """

    work: str
    digest: str
    above: str
    below: str
    value: float | None
    low: float | None
    high: float | None
    evidence: tuple[str, ...]
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """`total` = `silicon` × `software_first` × `software_second`, where none is refused.

    `stack` is the backend that ran on both machines. `software_first`: the first machine's best stack over `stack` there;
    `software_second`: `stack` over the second machine's best one. None where that stack is the best itself: a factor of one.
    """

    stack: str
    total: Ratio
    silicon: Ratio
    software_first: Ratio | None
    software_second: Ratio | None

    @property
    def software(self) -> float | None:
        """The software's part as one factor; None where a part of it is refused."""
        parts = [each.value for each in (self.software_first, self.software_second) if each is not None]
        return None if None in parts else math.prod(each for each in parts if each is not None)


def splits(sides: Iterable[Side], first: str, second: str) -> tuple[Split, ...]:
    """For every work that both machines did, by every stack that ran on both."""
    found: list[Split] = []
    for ours, theirs in _common(sides, first, second):
        total = (_fastest(ours), _fastest(theirs))
        for stack in sorted({_backend(each) for each in ours} & {_backend(each) for each in theirs}):
            here, there = (_fastest([each for each in group if _backend(each) == stack]) for group in (ours, theirs))
            found.append(
                Split(
                    stack=stack,
                    total=_ratio(*total),
                    silicon=_ratio(here, there),
                    software_first=None if total[0] is here else _ratio(total[0], here),
                    software_second=None if total[1] is there else _ratio(there, total[1]),
                )
            )
    return tuple(found)


def of_machines(sides: Iterable[Side], first: str, second: str) -> tuple[Ratio, ...]:
    """The two machines by the best stack of each: what a buyer compares."""
    return tuple(_ratio(_fastest(ours), _fastest(theirs)) for ours, theirs in _common(sides, first, second))


def of_stacks(sides: Iterable[Side], machine: str) -> tuple[Ratio, ...]:
    """Every two stacks on one machine, the faster above."""
    there = [each for each in _able(sides) if _machine(each) == machine]
    return tuple(ratio for group in _by_digest(there) for ratio in _pairs(group))


def _pairs(group: Sequence[Side]) -> Iterator[Ratio]:
    best = [_fastest([each for each in group if _backend(each) == name]) for name in sorted({_backend(each) for each in group})]
    for one, other in combinations(sorted(best, key=_rate, reverse=True), 2):
        yield _ratio(one, other)


def _common(sides: Iterable[Side], first: str, second: str) -> Iterator[tuple[list[Side], list[Side]]]:
    """Of each work, the sides of both machines; work that only one of them did is left out."""
    for group in _by_digest(_able(sides)):
        ours, theirs = ([each for each in group if _machine(each) == name] for name in (first, second))
        if ours and theirs:
            yield ours, theirs


def _able(sides: Iterable[Side]) -> list[Side]:
    """Sides with a clean measured rate, on an accelerator: a CPU is no arm of this comparison."""
    return [each for each in sides if each.values and min(each.values) > 0 and _counts(each)]


def _counts(side: Side) -> bool:
    return side.key["tier"] == "measured" and side.key["device"] != "cpu"


def _by_digest(sides: Sequence[Side]) -> Iterator[list[Side]]:
    for digest in dict.fromkeys(each.digest for each in sorted(sides, key=lambda each: (each.work, each.digest))):
        yield [each for each in sides if each.digest == digest]


def _backend(side: Side) -> str:
    return side.key["backend"]


def _machine(side: Side) -> str:
    """The machine's name, without what tells two of one name apart."""
    return side.key["machine"].partition(" [")[0]


def _rate(side: Side) -> float:
    return interval(side.values)[0]


def _fastest(sides: Sequence[Side]) -> Side:
    return max(sides, key=lambda each: (_rate(each), each.who))


def _ratio(above: Side, below: Side) -> Ratio:
    refused = refusal(above, below)
    found = None if refused else ratio_interval(above.values, below.values)
    value, low, high = found or (None, math.nan, math.nan)
    return Ratio(
        work=above.work,
        digest=above.digest,
        above=above.who,
        below=below.who,
        value=value,
        low=None if math.isnan(low) else low,
        high=None if math.isnan(high) else high,
        evidence=(*above.run_ids, *below.run_ids),
        refused=refused,
    )
