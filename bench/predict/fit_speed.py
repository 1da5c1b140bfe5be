"""Achievable shares of the rated speed, fitted on observed rates.

In: observations with rates. Out: a `Calibration`, deterministic. For each observation the share of the rated products is found
at which its cells would run as fast as seen (the bandwidth's share stays as assumed: training says too little of it).

Shares are combined by their logarithm as a random-effects meta-analysis combines studies (DerSimonian and Laird 1986, by the
method of moments): rows of one source are no independent evidence, so each source is one study, its median. What a row leaves
open is known to make it uncertain: that part is taken off the scatter before the scatter is called a property of stacks and
machines, and a source weighs the less, the more it leaves open. What few sources say is drawn towards the stack's mean over all
machines, and that towards the mean of all stacks, as if each mean were one source more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from bench.catalog import MachineProfile
from bench.predict.evidence import Observation, rate_usable
from bench.predict.fractions import ANY, ASSUMED, Calibration, Fractions
from bench.predict.speed import matrix_rate, tokens_per_s
from bench.predict.spread import MOST_SPREAD
from bench.predict.work import work
from bench.spec import Cell

HIGHEST = 1.0
"""No share of a rated speed is above it: a row that seems to need more says no more than that it came near."""
LOWEST = 0.001
HALVINGS = 16
"""Of seven in the logarithm: to a ten-thousandth."""
LEAST_SPREAD = 0.1
"""Of a rate, as a logarithm: two careful measurements of one thing on two machines of a kind differ by as much."""

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Seen:
    """The logarithm of the share that one observation reached, and the variance that what it leaves open gives it."""

    key: Key
    source: str
    log_share: float
    open_variance: float = 0.0


@dataclass(frozen=True, slots=True)
class Study:
    """One source: the median of its rows' logarithms, and the variance of that."""

    log_share: float
    variance: float


def shares(observations: Iterable[Observation]) -> list[Seen]:
    """The share of each observation with a usable rate that is no impossible one."""
    found = []
    for seen in observations:
        if seen.machine is None or not rate_usable(seen) or impossible(seen):
            continue
        key = (seen.stack, seen.machine.family or ANY)
        found.append(Seen(key, seen.family, math.log(_share(seen)), open_spread(seen) ** 2))
    return found


def impossible(seen: Observation) -> bool:
    """Whether no cell that the row may be of can be so fast: the products alone, at the full rated speed, take longer.

    Such a row counts tokens in another way, or ran on another machine.
    """
    assert seen.machine is not None
    return (seen.tokens_per_s or 0.0) > max(_bound(cell, seen.machine) for cell in seen.cells)


def _bound(cell: Cell, machine: MachineProfile) -> float:
    flops = sum(phase.matrix_flops for phase in work(cell).values())
    return cell.workload.tokens_per_step * (matrix_rate(cell, machine) or math.inf) / flops


def fit(found: Sequence[Seen], assumed: Fractions = ASSUMED) -> Calibration:
    """The shares for every stack and family of machines seen, for each stack at large, and for all."""
    within = _within(found)
    between = _between(found, within, assumed)
    levels: dict[Key, list[Seen]] = {(ANY, ANY): list(found)}
    for seen in found:
        levels.setdefault((seen.key[0], ANY), []).append(seen)
        levels.setdefault(seen.key, []).append(seen)
    means: dict[Key, float] = {}
    calibration: dict[Key, Fractions] = {}
    for key in sorted(levels, key=_depth):
        sources = studies(levels[key], within)
        parent = Study(means.get(_parent(key), math.log(assumed.matrix)), 0.0)
        weights = [(study.log_share, 1 / (between + study.variance)) for study in (*sources.values(), parent)]
        total = sum(weight for _, weight in weights)
        means[key] = sum(value * weight for value, weight in weights) / total
        calibration[key] = Fractions(
            matrix=round(math.exp(means[key]), 3),
            bandwidth=assumed.bandwidth,
            spread=round(min(MOST_SPREAD, max(LEAST_SPREAD, math.sqrt(within + between + 1 / total))), 3),
            rows=len(levels[key]),
            sources=len(sources),
        )
    return calibration


def studies(found: Iterable[Seen], within: float) -> dict[str, Study]:
    """By source. The median is not moved by one odd row; what rows of a source leave open is the same in all, and does not
    average out.
    """
    rows = list(found)
    by_source = {source: [each for each in rows if each.source == source] for source in sorted({each.source for each in rows})}
    return {
        source: Study(median(each.log_share for each in own), within / len(own) + fmean(each.open_variance for each in own))
        for source, own in by_source.items()
    }


def _within(found: Sequence[Seen]) -> float:
    """Variance of rows about their source's mean, less what they leave open; zero where no source has two."""
    scatter, freedom = 0.0, 0
    for rows in _groups(found, lambda seen: (seen.key, seen.source)):
        middle = fmean(seen.log_share for seen in rows)
        scatter += sum((seen.log_share - middle) ** 2 - seen.open_variance * (1 - 1 / len(rows)) for seen in rows)
        freedom += len(rows) - 1
    return max(0.0, scatter / freedom) if freedom else 0.0


def _between(found: Sequence[Seen], within: float, assumed: Fractions) -> float:
    """Variance of sources about their group's mean, less what each is uncertain by. The assumption counts as one degree of
    freedom: few sources may agree by chance.
    """
    scatter, freedom = 0.0, 0
    for rows in _groups(found, lambda seen: seen.key):
        sources = list(studies(rows, within).values())
        middle = fmean(study.log_share for study in sources)
        share = 1 - 1 / len(sources)
        scatter += sum((study.log_share - middle) ** 2 - study.variance * share for study in sources)
        freedom += len(sources) - 1
    return (assumed.spread**2 + max(0.0, scatter)) / (1 + freedom)


def _groups(found: Sequence[Seen], by: Callable[[Seen], Hashable]) -> list[list[Seen]]:
    groups: dict[Hashable, list[Seen]] = {}
    for seen in sorted(found, key=lambda seen: (seen.key, seen.source, seen.log_share)):
        groups.setdefault(by(seen), []).append(seen)
    return list(groups.values())


def predicted_rate(seen: Observation, fractions: Fractions) -> float:
    """Tokens a second, the geometric mean over the cells that it may be of."""
    return math.exp(fmean(_log_rates(seen, fractions)))


def open_spread(seen: Observation, fractions: Fractions = ASSUMED) -> float:
    """Standard deviation of the logarithm of its rate over those cells."""
    logs = _log_rates(seen, fractions)
    middle = fmean(logs)
    return math.sqrt(fmean((log - middle) ** 2 for log in logs))


def _log_rates(seen: Observation, fractions: Fractions) -> list[float]:
    assert seen.machine is not None
    return [math.log(tokens_per_s(cell, seen.machine, fractions) or LOWEST) for cell in seen.cells]


def _share(seen: Observation, assumed: Fractions = ASSUMED) -> float:
    """By bisection: the rate grows with the share."""
    wanted = seen.tokens_per_s or 0.0
    low, high = LOWEST, HIGHEST
    if predicted_rate(seen, _with(assumed, high)) < wanted:
        return HIGHEST
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        slower = predicted_rate(seen, _with(assumed, middle)) < wanted
        low, high = (middle, high) if slower else (low, middle)
    return math.sqrt(low * high)


def _with(assumed: Fractions, matrix: float) -> Fractions:
    return Fractions(matrix=matrix, bandwidth=assumed.bandwidth, spread=assumed.spread)


def _depth(key: Key) -> tuple[int, Key]:
    return (-key.count(ANY), key)


def _parent(key: Key) -> Key:
    return (key[0], ANY) if key[1] != ANY else (ANY, ANY)
