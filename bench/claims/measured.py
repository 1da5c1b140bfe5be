"""Our own runs as evidence for a claim: what was measured on the machine itself, and what stood in for it.

In: prepared runs (`bench.analysis.prepare`), the measured parts of memory, and a claim. Out: estimates, each of the runs of one
cell, or of a pair of cells that did equal work. Flagged runs are left out by the kind of figure that their flags spoil. A
stand-in (real runs on another machine held to this one's memory) speaks of fit alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import pandas as pd

from bench.analysis import counted, sides
from bench.claims.asked import described, differing, is_model, is_on
from bench.claims.claim import Claim, Estimate
from bench.claims.claim import Side as Asked
from bench.claims.tried import OWN_PEAK, Tried, machine_named, tried
from bench.fairness import Side, refusal
from bench.intervals import geometric_mean, interval, ratio_interval

METRICS = {"tokens_per_s": ("tokens_per_s",), "power_w": ("power_w",), "host_cores": ("host_cpu_share",), "peak_bytes": OWN_PEAK}
METRICS["peak_bytes_per_parameter"] = OWN_PEAK
PARTS = {f"{part}_bytes_per_parameter": part for part in ("weights", "gradients", "optimizer")}
MOST_BYTES = 1e14
"""No part of memory is larger; readings are stored as they come."""
FOUR_PARTS = ("weights", "gradients", "optimizer", "activations")


@dataclass
class Runs:
    """Prepared runs and, by run id, the measured bytes of each part of memory."""

    frame: pd.DataFrame
    parts: dict[str, dict[str, float]]
    _sides: dict[str, list[Side]] = field(default_factory=dict)
    _counted: pd.DataFrame | None = None

    @cached_property
    def tried(self) -> tuple[Tried, ...]:
        """Every cell with whether it ran; found once."""
        return tried(self.frame)

    def sides(self, metric: str) -> list[Side]:
        """The parties with what they reached; found once, for many claims ask."""
        if metric not in self._sides:
            self._counted = counted(self.frame) if self._counted is None else self._counted
            self._sides[metric] = sides(self.frame, metric, self._counted)
        return self._sides[metric]


def estimates(claim: Claim, runs: Runs) -> list[Estimate]:
    """What the runs say of the claim, refused comparisons included."""
    if runs.frame.empty or claim.kind == "support":
        return []
    if claim.kind == "fit":
        return list(_fits(claim, runs, claim.sides[0]))
    if claim.kind == "winner":
        return list(_winners(claim, runs))
    if len(claim.sides) == 2:
        return list(_ratios(claim, runs))
    return list(_numbers(claim, runs))


def _numbers(claim: Claim, runs: Runs) -> Iterator[Estimate]:
    quantity = claim.quantity or ""
    if quantity in METRICS:
        for metric, side in _of_metrics(claim, runs, METRICS[quantity]):
            yield _number(claim, side, metric)
    elif quantity in PARTS or quantity == "parts_over_rest":
        yield from _of_parts(claim, runs, quantity)
    elif quantity == "capacity_share":
        yield from _capacities(claim, runs)


def _of_metrics(claim: Claim, runs: Runs, metrics: Sequence[str]) -> Iterator[tuple[str, Side]]:
    """The parties that have a clean figure, by the first of the metrics that has one for them."""
    done: set[tuple[str, ...]] = set()
    for metric in metrics:
        for side in runs.sides(metric):
            place = (*side.party, side.key["cell"], side.digest)
            if side.values and place not in done and side.key["tier"] == "measured" and _asks(claim, claim.sides[0], side):
                done.add(place)
                yield metric, side


def _asks(claim: Claim, asked: Asked, side: Side) -> bool:
    on = is_on(asked, machine_named(side.key["machine"]), side.key["backend"], side.key["device"])
    return on and is_model(side.key["cell"].partition("/")[0], side.parameters) and _differing(claim, side) is not None


def _differing(claim: Claim, side: Side) -> list[str] | None:
    return differing(claim, side.key["cell"].partition("/")[0], side.key["method"], side.declared)


def _number(claim: Claim, side: Side, metric: str) -> Estimate:
    per = side.parameters if (claim.quantity or "").endswith("_per_parameter") else 1.0
    mean, low, high = interval([value / per for value in side.values])
    return _estimate(claim, side, (mean, low, high), f"{metric}, clean runs", len(side.values))


def _estimate(claim: Claim, side: Side, found: tuple[float, float, float], how: str, n: int) -> Estimate:
    apart = _differing(claim, side) or []
    mean, low, high = found
    made = Estimate(
        tier="measured",
        what=described(side.key["cell"].partition("/")[0], side.key["method"]),
        who=side.who,
        value=mean,
        low=None if math.isnan(low) else low,
        high=None if math.isnan(high) else high,
        n=n,
        evidence=side.run_ids,
        conditions=", ".join(apart) or how,
    )
    wrong = _wrong_scope(claim, side)
    return replace(made, refused=_other_conditions(apart) if apart else wrong)


def _wrong_scope(claim: Claim, side: Side) -> str | None:
    if claim.scope is None or side.scopes == (claim.scope,):
        return None
    return f"its watts cover {', '.join(side.scopes or ()) or 'what was not recorded'}, the claim's {claim.scope}"


def _other_conditions(apart: Sequence[str]) -> str:
    return "under other conditions: " + ", ".join(apart)


def _of_parts(claim: Claim, runs: Runs, quantity: str) -> Iterator[Estimate]:
    """The measured parts of each cell's runs."""
    told = runs.frame[runs.frame["run_id"].isin(list(runs.parts))]
    of_run = dict(zip(told["run_id"], told.to_dict("records"), strict=True))
    known = [(run_id, of_run[run_id]) for run_id in runs.parts if run_id in of_run]
    clean = [(run_id, row) for run_id, row in known if row["clean_memory"] and row["tier"] == "measured"]
    for _, group in groupby(sorted(clean, key=_place_of), key=_place_of):
        members = list(group)
        row = members[0][1]
        apart = differing(claim, str(row["model"]), str(row["method"]), row)
        there = is_on(claim.sides[0], machine_named(str(row["machine"])), str(row["backend"]), str(row["device"]))
        if apart is None or not there or not is_model(str(row["model"]), row["parameters"]):
            continue
        values = [_part(runs.parts[run_id], quantity, float(each["parameters"])) for run_id, each in members]
        found = [value for value in values if value is not None]
        if found:
            mean, low, high = interval(found)
            yield Estimate(
                tier="measured",
                what=described(str(row["model"]), str(row["method"])),
                who=f"{row['backend']}@{row['device']} on {row['machine']}",
                value=mean,
                low=None if math.isnan(low) else low,
                high=None if math.isnan(high) else high,
                n=len(found),
                evidence=tuple(run_id for run_id, _ in members),
                conditions="parts at the peak, by following storages",
                refused=_other_conditions(apart) if apart else None,
            )


def _place_of(run: tuple[str, Any]) -> tuple[str, ...]:
    return tuple(str(run[1][name]) for name in ("machine", "backend", "device", "implementation", "cell", "workload_digest"))


def _part(parts: dict[str, float], quantity: str, parameters: float) -> float | None:
    if not all(0 <= size < MOST_BYTES for size in parts.values()):
        return None
    if quantity in PARTS:
        return parts[PARTS[quantity]] / parameters if PARTS[quantity] in parts else None
    if not set(FOUR_PARTS) <= parts.keys():
        return None
    four, rest = sum(parts[name] for name in FOUR_PARTS), sum(size for name, size in parts.items() if name not in FOUR_PARTS)
    return four / rest if rest else None


def _capacities(claim: Claim, runs: Runs) -> Iterator[Estimate]:
    """What a process can have of a machine's memory, as the machine itself said in its runs."""
    known = runs.frame[(runs.frame["capacity_bytes"] > 0) & (runs.frame["memory_bytes"] > 0) & (runs.frame["tier"] == "measured")]
    for (machine, device), group in known.groupby(["machine", "device"]):
        if machine_named(str(machine)) in claim.sides[0].machines and device != "cpu":
            share = float((group["capacity_bytes"] / group["memory_bytes"]).median())
            ids = tuple(sorted(group["run_id"]))
            what = f"{device} of {machine}"
            yield Estimate(
                tier="measured", what=what, who=str(machine), value=share, low=share, high=share, n=len(ids), evidence=ids
            )


def _ratios(claim: Claim, runs: Runs) -> Iterator[Estimate]:
    """The first side over the second, of equal work, each by its best stack; pairs that cannot be compared say why."""
    metric = METRICS[claim.quantity or "tokens_per_s"][0]
    first, second = (_by_work(claim, asked, runs, metric) for asked in claim.sides)
    best: Callable[[Sequence[Side]], Side] = _fastest if metric == "tokens_per_s" else _smallest
    for what in sorted(first.keys() & second.keys()):
        pairs = [(one, two) for one, two in _by_conditions(claim, first[what], second[what]) if one and two]
        for one, two in pairs or [(first[what], second[what])]:
            yield _ratio(claim, best(_of_equal_work(one, two) or one), best(_of_equal_work(two, one) or two))


def _by_conditions(claim: Claim, first: Sequence[Side], second: Sequence[Side]) -> Iterator[tuple[list[Side], list[Side]]]:
    """Those under the claim's own conditions, and those under others, which never stand in their way."""
    for own in (True, False):
        one, two = ([side for side in sides_ if (not _differing(claim, side)) == own] for sides_ in (first, second))
        yield one, two


def _by_work(claim: Claim, asked: Asked, runs: Runs, metric: str) -> dict[str, list[Side]]:
    found: dict[str, list[Side]] = {}
    for side in runs.sides(metric):
        if side.values and side.key["tier"] == "measured" and _asks(claim, asked, side):
            model = side.key["cell"].partition("/")[0]
            found.setdefault(described(model, side.key["method"]), []).append(side)
    return found


def _of_equal_work(sides_: Sequence[Side], others: Sequence[Side]) -> list[Side]:
    digests = {other.digest for other in others}
    return [side for side in sides_ if side.digest in digests]


def _fastest(found: Sequence[Side]) -> Side:
    return max(found, key=lambda side: geometric_mean(side.values))


def _smallest(found: Sequence[Side]) -> Side:
    return min(found, key=lambda side: geometric_mean(side.values))


def _ratio(claim: Claim, above: Side, below: Side) -> Estimate:
    refused = refusal(above, below)
    apart = _differing(claim, above) or []
    found = None if refused else ratio_interval(above.values, below.values)
    ratio, low, high = found or (None, math.nan, math.nan)
    return Estimate(
        tier="measured",
        what=described(above.key["cell"].partition("/")[0], above.key["method"]),
        who=f"{above.who} ÷ {below.who}",
        value=ratio,
        low=None if math.isnan(low) else low,
        high=None if math.isnan(high) else high,
        sides=None if found is None else (geometric_mean(above.values), geometric_mean(below.values)),
        n=min(len(above.values), len(below.values)),
        evidence=(*above.run_ids, *below.run_ids),
        conditions=f"workload {above.digest}",
        refused=refused or (_other_conditions(apart) if apart else None),
    )


def _fits(claim: Claim, runs: Runs, asked: Asked) -> Iterator[Estimate]:
    """Whether it ran: of each cell, on the machine itself or held to what it has."""
    for each in runs.tried:
        there = is_on(asked, each.machine, each.backend, each.device)
        if not asked.machines or not there or not is_model(each.model, each.declared["parameters"]):
            continue
        apart = differing(claim, each.model, each.method, each.declared)
        if apart is None or each.chance is None:
            continue
        yield Estimate(
            tier=each.tier,
            what=described(each.model, each.method),
            who=each.who,
            value=each.chance,
            n=len(each.run_ids),
            evidence=each.run_ids,
            conditions=", ".join(apart),
            headroom=each.headroom,
            slow=each.slow,
            refused=_other_conditions(apart) if apart else None,
        )


def _winners(claim: Claim, runs: Runs) -> Iterator[Estimate]:
    """The only one that can, or neither, else the faster; both from runs on the machines themselves."""
    rates = {each.what: each for each in _ratios(replace(claim, quantity="tokens_per_s"), runs)}
    able = [_able(claim, runs, asked) for asked in claim.sides]
    for what in sorted(able[0].keys() | able[1].keys() | rates.keys()):
        first, second = (each.get(what) for each in able)
        if first is None or second is None:
            continue
        if first and second:
            if what in rates:
                yield rates[what]
        else:
            names = [", ".join(side.machines) for side in claim.sides]
            yield Estimate(
                tier="measured",
                what=what,
                who=" ÷ ".join(names),
                value=math.inf if first else 0.0 if second else math.nan,
                n=1,
                conditions=f"only {names[0] if first else names[1]} can" if first or second else "neither can",
            )


def _able(claim: Claim, runs: Runs, asked: Asked) -> dict[str, bool]:
    """By work, whether any stack of that side ran it, every time; absent where some runs did and none did every time."""
    chances: dict[str, list[float]] = {}
    for each in _fits(claim, runs, asked):
        if each.refused is None and each.tier == "measured" and each.value is not None:
            chances.setdefault(each.what, []).append(each.value)
    return {what: max(found) == 1.0 for what, found in chances.items() if max(found) in (0.0, 1.0)}
