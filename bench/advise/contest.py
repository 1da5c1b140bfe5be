"""Which stack is the best of a machine, and which machine is the one to choose.

In: what is known of each stack. Out: the best one, and for each of several machines the probability that choosing it is right: it
fits, and every other either does not or is slower. Rates are taken as log-normal and all errors as independent; those of
predictions partly are not, which makes the answer more careful than it need be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist

from bench.advise.figure import Figure
from bench.advise.stack import Stack
from bench.predict.prediction import EVEN


def best(stacks: Iterable[Stack]) -> Stack | None:
    """The fastest of those that surely fit; where none does, the likeliest to fit, and of those without hope the leanest."""
    known = list(stacks)
    sure = [each for each in known if each.fit is not None and each.fit.fits == "yes"]
    if sure:
        return max(sure, key=lambda each: (_rate(each), each.chance))
    return max(known, key=lambda each: (_hope(each), _room(each), _rate(each)), default=None)


def likely(stack: Stack) -> bool:
    """Whether it fits at least as likely as not; so it does where nothing is known."""
    return stack.chance >= EVEN


def _hope(stack: Stack) -> float:
    """Nothing is told apart by chances that are all next to none."""
    return 0.0 if stack.fit is not None and stack.fit.fits == "no" else round(stack.chance, 3)


def _room(stack: Stack) -> float:
    """The share left free by what it is predicted to need, else by what was seen."""
    if stack.needs_bytes:
        return 1 - stack.needs_bytes / stack.capacity_bytes
    return 0.0 if stack.fit is None or stack.fit.headroom is None else stack.fit.headroom


def _rate(stack: Stack) -> float:
    return stack.rate.value if stack.rate else 0.0


def chances(contenders: Sequence[Stack]) -> list[float]:
    """Of each machine, the probability that it is the one to choose; they add up to one at most (perhaps none fits)."""
    return [_chance(each, [other for other in contenders if other is not each]) for each in contenders]


def _chance(one: Stack, others: Sequence[Stack]) -> float:
    return one.chance * math.prod(1 - other.chance + other.chance * faster(one.rate, other.rate) for other in others)


def faster(one: Figure | None, other: Figure | None) -> float:
    """The probability that the first rate is the higher; even odds where one is not known."""
    if one is None or other is None:
        return 0.5
    spread = math.hypot(one.spread, other.spread)
    away = math.log(one.value / other.value)
    if spread == 0:
        return 0.5 if away == 0 else float(away > 0)
    return NormalDist().cdf(away / spread)
