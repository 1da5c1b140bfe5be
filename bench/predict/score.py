"""The score card: how well predictions held on measurements that they were not fitted to.

In: evidence, and the rules that predict memory. Out: each peak and rate with its prediction, made as if its source did not
exist, and each outcome on a known capacity with the probability of fitting. `card_text` writes it down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

from bench.predict.evidence import Observation, rate_usable
from bench.predict.fit import Evidence, Fitted, without
from bench.predict.fit_memory import QUANTITY, Z80, Residual, Rules, guess, key_of
from bench.predict.fit_speed import impossible, open_spread, predicted_rate, shares
from bench.predict.fractions import fractions_for
from bench.predict.prediction import verdict

IMPOSSIBLE = "rate: faster than its machine's products alone can be; it counts other tokens, or ran elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One value, predicted and observed: bytes of a peak, or tokens a second."""

    seen: Observation
    observed: float
    predicted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Signed, as a share of what was observed."""
        return self.predicted / self.observed - 1

    @property
    def covered(self) -> bool:
        return self.low <= self.observed <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One outcome on a device of known capacity: whether it ran, and how probable that was said to be."""

    seen: Observation
    ran: bool
    probability: float

    @property
    def wrong(self) -> str | None:
        said = verdict(self.probability)
        if said == "yes" and not self.ran:
            return "false fit"
        return "false no" if said == "no" and self.ran else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """All that was scored; `left_out` says by id why a row was not."""

    peaks: tuple[Scored, ...]
    rates: tuple[Scored, ...]
    fits: tuple[Fit, ...]
    left_out: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Of `count` values: mean absolute and mean signed error as shares, and the share of them within the 80% interval."""

    count: int
    mape: float
    bias: float
    coverage: float


def score(evidence: Evidence, found: Sequence[Residual], rules: Rules) -> Card:
    """Every source predicted by the others."""
    seen = evidence.observations
    rates = shares(seen)
    timed = [each for each in seen if rate_usable(each)]
    too_fast = {each.id: IMPOSSIBLE for each in timed if impossible(each)}
    learnt = {family: without(family, found, rates) for family in sorted({each.family for each in seen})}
    peaks = tuple(scored for each in seen for scored in _peak(each, learnt[each.family], rules))
    fits = tuple(fit for each in seen for fit in _fit(each, learnt[each.family], rules))
    scored = tuple(_rate(each, learnt[each.family]) for each in timed if each.id not in too_fast)
    return Card(peaks=peaks, rates=scored, fits=fits, left_out={**evidence.left_out, **too_fast})


def summarise(values: Sequence[Scored]) -> Summary | None:
    """None of nothing."""
    if not values:
        return None
    return Summary(
        count=len(values),
        mape=fmean(abs(each.error) for each in values),
        bias=fmean(each.error for each in values),
        coverage=fmean(each.covered for each in values),
    )


def grouped(values: Iterable[Scored], by: Callable[[Scored], str]) -> dict[str, list[Scored]]:
    """By what `by` calls them, sorted."""
    groups: dict[str, list[Scored]] = {}
    for each in values:
        groups.setdefault(by(each), []).append(each)
    return dict(sorted(groups.items()))


def brier(fits: Sequence[Fit]) -> float | None:
    """The mean squared distance of probability and outcome: 0 at best, 0.25 for always saying one half."""
    return fmean((each.probability - each.ran) ** 2 for each in fits) if fits else None


def _peak(seen: Observation, learnt: Fitted, rules: Rules) -> Iterator[Scored]:
    quantity = QUANTITY.get(seen.meter or "")
    if seen.peak_bytes is None or quantity is None:
        return
    middle, spread = _corrected(seen, quantity, learnt, rules)
    width = math.exp(Z80 * spread)
    value = math.exp(middle)
    yield Scored(seen=seen, observed=float(seen.peak_bytes), predicted=value, low=value / width, high=value * width)


def _fit(seen: Observation, learnt: Fitted, rules: Rules) -> Iterator[Fit]:
    if seen.capacity_bytes is None or seen.outcome not in ("ok", "oom"):
        return
    middle, spread = _corrected(seen, "held", learnt, rules)
    probability = NormalDist(middle, spread).cdf(math.log(seen.capacity_bytes))
    yield Fit(seen=seen, ran=seen.outcome == "ok", probability=probability)


def _corrected(seen: Observation, quantity: str, learnt: Fitted, rules: Rules) -> tuple[float, float]:
    """Logarithm of the bytes, and its standard deviation: as learnt, else as the rules say themselves."""
    guessed = guess(seen, quantity, rules)
    correction = learnt.memory.get(key_of(seen, quantity))
    if correction is None:
        return guessed.log_bytes, math.hypot(guessed.rules_spread, guessed.open_spread)
    return guessed.log_bytes + math.log(correction.factor), math.hypot(correction.spread, guessed.open_spread)


def _rate(seen: Observation, learnt: Fitted) -> Scored:
    assert seen.machine is not None
    assert seen.tokens_per_s is not None
    fractions = fractions_for(learnt.speed, seen.stack, seen.machine.family)
    rate = predicted_rate(seen, fractions)
    width = math.exp(Z80 * math.hypot(fractions.spread, open_spread(seen, fractions)))
    return Scored(seen=seen, observed=seen.tokens_per_s, predicted=rate, low=rate / width, high=rate * width)
