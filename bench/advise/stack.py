"""What is known of one work on one stack of one machine: fit, peak, rate, watts.

In: a cell, the machine's profile, this project's runs, a way to predict. Out: a `Stack`. Where the same work (by digest) ran on
that very machine and stack, its runs speak, figure by figure, without those that their flags spoil; of the rest the prediction
does. A stand-in (a run held to that machine's memory) speaks of fit alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal

import pandas as pd

from bench.advise.figure import Figure
from bench.analysis import sides
from bench.catalog import MachineProfile
from bench.claims import foretold, measured
from bench.claims.asked import cells
from bench.claims.claim import Claim, Estimate, Side, Tier
from bench.intervals import interval
from bench.predict import rules
from bench.predict.answer import profile_capacity
from bench.predict.capacity import fit_probability
from bench.predict.prediction import Fits, Prediction, Speed, verdict
from bench.reading.strict import BadFile
from bench.spec import BadInput, Cell, Workload

Foretell = Callable[[Cell, MachineProfile], Prediction | None]
RULES = ("rules",)
"""How predictions are made here: by closed form and calibration (`reports/prediction.md`)."""
METRICS = {"peak": "framework_peak_bytes", "rate": "tokens_per_s", "power": "power_w"}
Which = Literal["peak", "rate", "power"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Whether it fits: the word, its `probability`, and as `headroom` the share of the capacity left free (below 0: lacking)."""

    fits: Fits
    probability: float
    headroom: float | None
    tier: Tier
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One way to do the work on one machine. `rate` is in tokens a second, `peak` in bytes by the framework's own count.

    `needs_bytes` is what the process is predicted to hold of the device, of the `capacity_bytes` that it can have. `notes` are
    the predictor's.
    """

    profile: MachineProfile
    cell: Cell
    fit: Fit | None
    needs_bytes: int | None
    capacity_bytes: int
    peak: Figure | None
    rate: Figure | None
    power: Figure | None
    notes: tuple[str, ...] = ()

    @property
    def who(self) -> str:
        return f"{self.cell.backend}@{self.cell.device}"

    @property
    def chance(self) -> float:
        """The probability that it fits; even odds where nothing is known."""
        return 0.5 if self.fit is None else self.fit.probability


@dataclass(frozen=True)
class Known:
    """What stacks are looked up in: prepared runs (`bench.analysis.prepare`), and a way to predict."""

    runs: pd.DataFrame
    foretell: Foretell

    def stacks(self, work: Workload, profile: MachineProfile) -> tuple[Stack, ...]:
        """Every stack by which the machine's owners would do that work; those that refuse it are left out."""
        return tuple(self.stack(cell, profile) for cell in cells(Side(machines=(profile.name,)), profile, work))

    def stack(self, cell: Cell, profile: MachineProfile) -> Stack:
        """What is known of that cell there."""
        found, runs = self.foretell(cell, profile), self._runs_of(cell, profile)
        seen = {name: _measured(runs, metric, cell, profile) for name, metric in METRICS.items()}
        foretold = {name: _predicted(found, name) for name in METRICS}
        return Stack(
            profile=profile,
            cell=cell,
            fit=_ran(runs, cell, profile) or _foretold_fit(found),
            needs_bytes=None if found is None else found.memory.held_bytes,
            capacity_bytes=(found.capacity_bytes if found else None) or profile.capacity_bytes,
            peak=seen["peak"] or foretold["peak"],
            rate=seen["rate"] or foretold["rate"],
            power=seen["power"] or foretold["power"],
            notes=() if found is None else (*found.memory.notes, *found.speed.notes),
        )

    def _runs_of(self, cell: Cell, profile: MachineProfile) -> pd.DataFrame:
        """The runs of the same work by the same backend and device, wherever they ran."""
        if self.runs.empty:
            return self.runs
        places = self._places.get((cell.workload.digest, cell.backend, cell.device))
        return self._none if places is None else self.runs.iloc[places]

    @cached_property
    def _none(self) -> pd.DataFrame:
        return self.runs.iloc[:0]

    @cached_property
    def _places(self) -> Mapping[Any, Any]:
        """Where in the runs those of each work, backend and device stand; found once, for hundreds of cells ask."""
        return dict(self.runs.groupby(["workload_digest", "backend", "device"]).indices)


by_rules = foretold.answer
"""A prediction by closed form; None for a configuration that states no sizes."""


@cache
def memory_by_rules(cell: Cell, profile: MachineProfile) -> Prediction | None:
    """The same without rates, in a fraction of the time, for who asks of memory alone."""
    try:
        memory = rules.memory(cell)
    except BadFile:  # a fault of the calibration
        raise
    except BadInput:  # a configuration without sizes
        return None
    there = profile_capacity(profile, cell.device)
    fits = None if there is None else fit_probability(memory, there)
    return Prediction(memory=memory, speed=Speed(), capacity_bytes=there, fit_probability=fits)


def _measured(runs: pd.DataFrame, metric: str, cell: Cell, profile: MachineProfile) -> Figure | None:
    """The geometric mean of the clean runs on that machine, of the implementation that has most of them."""
    found = [
        side
        for side in (sides(runs, metric) if len(runs) else [])
        if side.values and side.key["tier"] == "measured" and side.key["machine"].partition(" [")[0] == profile.name
    ]
    if not found:
        return None
    side = max(found, key=lambda each: len(each.values))
    if side.scopes is not None and len(side.scopes) != 1:
        return None
    mean, low, high = interval(side.values)
    if not mean > 0:
        return None
    ends = (None, None) if math.isnan(low) else (low, high)
    scope = side.scopes[0] if side.scopes else None
    return Figure(value=mean, low=ends[0], high=ends[1], tier="measured", evidence=side.run_ids, scope=scope)


def _ran(runs: pd.DataFrame, cell: Cell, profile: MachineProfile) -> Fit | None:
    """Whether it ran there, or held to what is there; the stronger tier speaks."""
    asked = Side(machines=(profile.name,), backends=(cell.backend,), devices=(cell.device,))
    question = Claim(id="fit", kind="fit", statement={}, sides=(asked,), methods=(cell.workload.method,))
    found = [
        each for each in measured.estimates(question, measured.Runs(runs, {})) if each.refused is None and each.value is not None
    ]
    known: Sequence[Estimate] = [each for each in found if each.tier == "measured"] or found
    if not known:
        return None
    best = max(known, key=lambda each: each.value or 0.0)
    chance = best.value or 0.0
    return Fit(fits=verdict(chance), probability=chance, headroom=best.headroom, tier=best.tier, evidence=best.evidence)


def _foretold_fit(found: Prediction | None) -> Fit | None:
    if found is None or found.fit_probability is None or not found.capacity_bytes:
        return None
    return Fit(
        fits=verdict(found.fit_probability),
        probability=found.fit_probability,
        headroom=1 - found.memory.held_bytes / found.capacity_bytes,
        tier="predicted",
        evidence=RULES,
    )


def _predicted(found: Prediction | None, which: str) -> Figure | None:
    if found is None:
        return None
    memory, speed = found.memory, found.speed
    values: dict[str, tuple[float | None, float | None, float | None]] = {
        "peak": (memory.peak_bytes, memory.peak_low_bytes, memory.peak_high_bytes),
        "rate": (speed.tokens_per_s, speed.tokens_per_s_low, speed.tokens_per_s_high),
        "power": (speed.power_w, None, None),
    }
    value, low, high = values[which]
    if not value:
        return None
    scope = speed.power_scope if which == "power" else None
    return Figure(value=value, low=low, high=high, tier="predicted", evidence=RULES, scope=scope)
