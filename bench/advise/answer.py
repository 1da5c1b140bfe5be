"""Which of several machines should train a model: fit, time, energy and money of each, and how sure the answer is.

In: a model, a number of training tokens, methods, machines, and this project's runs. Out: an `Advice`: for each method the best
stack of every machine, the machine to choose, and where one does not fit what would make it. Nothing is run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from bench.advise.contest import best, chances, likely
from bench.advise.figure import Figure
from bench.advise.mend import Mends, mends
from bench.advise.stack import Foretell, Known, Stack, by_rules
from bench.analysis import prepare
from bench.catalog import MachineProfile, machine_profile, resolve_model
from bench.claims.claim import TIERS, Tier
from bench.model import Model
from bench.nights import latest
from bench.spec import BadInput, workload
from bench.store import Damaged, read

MACHINES = ("pc-rtx-4090", "mac-studio-m3-ultra")
"""The lesson's own, where none is named."""
METHODS = ("full", "lora", "qlora")
CONDITIONS: Mapping[str, Any] = {"adapter_dtype": "bfloat16"}
"""What is not asked is as in suites/lesson.toml, so that its runs answer; all else of it is a workload's default."""
PRICE_PER_KWH = 0.2872
"""Euro: what households in the EU paid on average in the second half of 2024, taxes included (Eurostat, 6 May 2025)."""
J_PER_KWH = 3.6e6
MOST_PRICE, MOST_TOKENS = 1e6, 10**15


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked. `declared` are fields of a workload that the asker set; `tokens` all that it is trained on, padding too.

    `price_per_kwh` is in any currency, and so is the cost.
    """

    model: Model
    tokens: int
    methods: tuple[str, ...] = METHODS
    machines: tuple[MachineProfile, ...] = ()
    price_per_kwh: float = PRICE_PER_KWH
    declared: Mapping[str, Any] = field(default_factory=dict)

    def of(self, method: str) -> dict[str, Any]:
        """The fields of the work by that method."""
        return {**CONDITIONS, **self.declared, "model": self.model, "method": method}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One machine by its best stack. `duration` in seconds, `energy` in joules, `cost` in the price's currency; None: not known.

    `chance` is the probability that this machine is the one to choose. `stacks` are all of the machine's, the best included.
    `mends` say what would make it fit, where it does not surely.
    """

    stack: Stack
    stacks: tuple[Stack, ...]
    chance: float
    duration: Figure | None
    energy: Figure | None
    cost: Figure | None
    mends: Mends | None

    @property
    def fits(self) -> bool:
        """Whether it may fit at all."""
        return self.stack.fit is None or self.stack.fit.fits != "no"

    @property
    def likely(self) -> bool:
        """Whether it fits at least as likely as not, so that one can be sent there."""
        return likely(self.stack)

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """What its fit and its rate rest on, the strongest first."""
        found = {each.tier for each in (self.stack.fit, self.stack.rate) if each is not None}
        return tuple(tier for tier in TIERS if tier in found)


@dataclass(frozen=True, slots=True)
class MethodAdvice:
    """One method: an option for each machine that has a stack for it, in the order asked, and the one to choose.

    None is chosen where it fits none of them, or each of them less likely than not.
    """

    method: str
    options: tuple[Option, ...]
    recommended: Option | None

    @property
    def possible(self) -> bool:
        return self.recommended is not None

    @property
    def hope(self) -> Option | None:
        """Where nothing is recommended, the option that may fit after all, the likeliest of those."""
        able = [] if self.possible else [option for option in self.options if option.fits]
        return max(able, key=lambda option: option.stack.chance, default=None)

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """What the choice rests on: the evidence of every machine."""
        found = {tier for option in self.options for tier in option.tiers}
        return tuple(tier for tier in TIERS if tier in found)

    @property
    def energy_ratio(self) -> tuple[float, str] | None:
        """(most over least energy of those that fit, their scope); None where their watts cover different things."""
        figures = [option.energy for option in self.options if option.fits and option.energy is not None]
        scopes = {each.scope for each in figures}
        if len(figures) < 2 or len(scopes) != 1 or figures[0].scope is None:
            return None
        values = [each.value for each in figures]
        return max(values) / min(values), figures[0].scope


@dataclass(frozen=True, slots=True)
class Advice:
    """The answer to a question, a method each; `damaged` are result files that could not be read."""

    question: Question
    methods: tuple[MethodAdvice, ...]
    damaged: tuple[Damaged, ...] = ()


def ask(
    model: str,
    tokens: int,
    *,
    method: str | None = None,
    machines: Sequence[str] = (),
    price_per_kwh: float | None = None,
    declared: Mapping[str, Any] | None = None,
) -> Question:
    """The question of the command's options; those that are None are left to their defaults. Raises BadInput."""
    price = PRICE_PER_KWH if price_per_kwh is None else price_per_kwh
    if not math.isfinite(price) or not 0 <= price <= MOST_PRICE:
        raise BadInput(f"--price-per-kwh: {price} is no price; give what a kilowatt-hour costs, such as 0.29")
    if not 1 <= tokens <= MOST_TOKENS:
        what = "leaves nothing to train on" if tokens < 1 else "is more than anybody has trained on"
        raise BadInput(f"--tokens: {tokens} {what}; give how many tokens there are, such as 10000000")
    found = Question(
        model=resolve_model(model, Path.cwd()),
        tokens=tokens,
        methods=METHODS if method is None else (method,),
        machines=tuple(machine_profile(name) for name in dict.fromkeys(machines or MACHINES)),
        price_per_kwh=price,
        declared={name: value for name, value in (declared or {}).items() if value is not None},
    )
    _refuse_too_long(found)
    return found


def _refuse_too_long(question: Question) -> None:
    """No sequence is longer than the model has positions."""
    positions = question.model.config.get("max_position_embeddings")
    asked = workload(**question.of(question.methods[0])).sequence_length
    if isinstance(positions, int) and asked > positions:
        raise BadInput(
            f"--sequence-length: {question.model.name} has {positions} positions, so no sequence of {asked}; give less"
        )


def advise_from(results: Path, question: Question) -> Advice:
    """The answer on this project's runs and the predictor. Raises OSError for a results folder that cannot be listed."""
    runs = read(results, "runs")
    found = advise(question, latest(runs.rows.to_pandas()))
    return Advice(found.question, found.methods, runs.damaged)


def advise(question: Question, runs: pd.DataFrame | None = None, foretell: Foretell = by_rules) -> Advice:
    """The answer on given runs (as the store has them) and predictions."""
    known = Known(prepare(pd.DataFrame() if runs is None else runs), foretell)
    return Advice(question, tuple(_method(question, method, known) for method in question.methods))


def _method(question: Question, method: str, known: Known) -> MethodAdvice:
    declared = question.of(method)
    work = workload(**declared)
    found = [(profile, known.stacks(work, profile)) for profile in question.machines]
    led = [(profile, stacks, chosen) for profile, stacks in found if (chosen := best(stacks)) is not None]
    right = chances([chosen for _, _, chosen in led])
    options = tuple(
        _option(question, chosen, stacks, chance, None if _surely(chosen) else mends(declared, profile, known))
        for (profile, stacks, chosen), chance in zip(led, right, strict=True)
    )
    able = [option for option in options if option.likely]
    return MethodAdvice(method, options, max(able, key=lambda option: option.chance, default=None))


def _surely(stack: Stack) -> bool:
    return stack.fit is None or stack.fit.fits == "yes"


def _option(question: Question, stack: Stack, stacks: tuple[Stack, ...], chance: float, mended: Mends | None) -> Option:
    duration = None if stack.rate is None else stack.rate.dividing(question.tokens)
    energy = _energy(duration, stack.power)
    cost = None if energy is None else energy.times(question.price_per_kwh / J_PER_KWH)
    return Option(stack=stack, stacks=stacks, chance=chance, duration=duration, energy=energy, cost=cost, mends=mended)


def _energy(duration: Figure | None, power: Figure | None) -> Figure | None:
    """Mean watts over the time that it takes; of the weaker tier of the two. The interval is that of the time, and of the watts
    where they have one.
    """
    if duration is None or power is None:
        return None
    low = None if duration.low is None else duration.low * (power.low or power.value)
    high = None if duration.high is None else duration.high * (power.high or power.value)
    tier = max(duration.tier, power.tier, key=TIERS.index)
    evidence = tuple(dict.fromkeys((*duration.evidence, *power.evidence)))
    return Figure(value=duration.value * power.value, low=low, high=high, tier=tier, evidence=evidence, scope=power.scope)
