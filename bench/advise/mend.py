"""What would make a work fit that does not: the cheapest change first, each checked like the work itself.

In: a workload's declared fields, a machine, what is known. Out: the changes of which one alone is enough; where none is, the
first so many of them that are enough together; and where even all of them are not, how much is lacking.

The order is by what a change costs: first those that train the same (a batch in parts, activations computed again), then those
that nearly do (8-bit states), then a smaller adapter, then a shorter context, which loses the long texts, then another method.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.advise.contest import best
from bench.advise.stack import Known, Stack
from bench.catalog import MachineProfile
from bench.spec import ADAPTER_METHODS, ATTENTION_MODULES, Workload, workload

Declared = Mapping[str, Any]
LOWER_RANK = 8
LEAST_CONTEXT, CONTEXT_STEP = 128, 64
"""Tokens: nobody trains on shorter ones, and nobody cares for a finer answer."""


@dataclass(frozen=True, slots=True)
class Mend:
    """`changes` are fields of the workload with their new values; `stack` the best one of the machine with them."""

    changes: Mapping[str, Any]
    stack: Stack

    @property
    def enough(self) -> bool:
        return self.stack.fit is not None and self.stack.fit.fits == "yes"


@dataclass(frozen=True, slots=True)
class Mends:
    """`alone`: enough by themselves. `together`: a combination, where no change short of another method is enough alone.

    `lacking_bytes`: what is lacking with every change that there is, where nothing helps.
    """

    alone: tuple[Mend, ...]
    together: Mend | None = None
    lacking_bytes: int | None = None


def mends(declared: Declared, profile: MachineProfile, known: Known) -> Mends:
    """For a work that does not surely fit the machine."""
    tried = (_tried(declared, step, profile, known) for step in _same_method(declared))
    kept = [each for each in (*tried, _shorter(declared, {}, profile, known)) if each is not None and each.enough]
    methods = [*_other_methods(declared)]
    others = [each for step in methods if (each := _tried(declared, step, profile, known)) is not None and each.enough]
    starts = [*([] if kept else [{}]), *([] if kept or others else methods)]
    together = next((each for start in starts if (each := _together(declared, start, profile, known)) is not None), None)
    alone = (*kept, *others)
    return Mends(alone, together, None if alone or together else _lacking(declared, methods, profile, known))


def _same_method(declared: Declared) -> Iterator[Declared]:
    """Single changes that keep method and context, the cheapest first; none that changes nothing."""
    work = workload(**declared)
    if work.batch_size > 1:
        yield {"batch_size": 1, "gradient_accumulation": work.batch_size * work.gradient_accumulation}
    if not work.gradient_checkpointing:
        yield {"gradient_checkpointing": True}
    if work.optimizer == "adamw":
        yield {"optimizer": "adamw_8bit"}
    if work.has_adapters:
        if work.module_names != ATTENTION_MODULES:
            yield {"modules": "attention"}
        if (work.rank or 0) > LOWER_RANK:
            yield {"rank": LOWER_RANK}


def _other_methods(declared: Declared) -> Iterator[Declared]:
    """Methods that need less: adapters instead of all weights, and on a base of 4 bits."""
    method = declared["method"]
    yield from ({"method": other} for other in ADAPTER_METHODS if method == "full" or (method == "lora" and other == "qlora"))


def _tried(declared: Declared, changes: Declared, profile: MachineProfile, known: Known) -> Mend | None:
    """None where no stack of the machine takes the changed work."""
    found = best(known.stacks(_work(declared, changes), profile))
    return None if found is None else Mend(changes, found)


def _work(declared: Declared, changes: Declared) -> Workload:
    return workload(**{**declared, **changes})


def _shorter(declared: Declared, changes: Declared, profile: MachineProfile, known: Known) -> Mend | None:
    """The longest context that surely fits, by bisection: memory only grows with it. None where none does."""
    least, asked = LEAST_CONTEXT // CONTEXT_STEP, workload(**declared).sequence_length
    low, high = least, (asked - 1) // CONTEXT_STEP
    found: Mend | None = None
    while low <= high:
        middle = (low + high) // 2
        tried = _tried(declared, {**changes, "sequence_length": middle * CONTEXT_STEP}, profile, known)
        if tried is not None and tried.enough:
            found, low = tried, middle + 1
        else:
            high = middle - 1
    return found


def _together(declared: Declared, start: Declared, profile: MachineProfile, known: Known) -> Mend | None:
    """One change after the other, the cheapest first, then the context; a change that the machine's stacks refuse is left out."""
    taken = [start]
    for step in _same_method({**declared, **start}):
        tried = _tried(declared, _merged([*taken, step]), profile, known)
        if tried is not None:
            taken.append(step)
            if tried.enough:
                return _without_idle(declared, tried, taken, profile, known)
    return _shorter(declared, _merged(taken), profile, known)


def _merged(steps: Iterable[Declared]) -> Declared:
    return {name: value for step in steps for name, value in step.items()}


def _without_idle(declared: Declared, found: Mend, taken: list[Declared], profile: MachineProfile, known: Known) -> Mend:
    """Without the changes that it can do without: some save next to nothing, as 8-bit states do of an adapter."""
    needed = list(taken)
    for step in taken[1:]:
        rest = [each for each in needed if each is not step]
        tried = _tried(declared, _merged(rest), profile, known)
        if tried is not None and tried.enough:
            found, needed = tried, rest
    return found


def _lacking(declared: Declared, methods: Sequence[Declared], profile: MachineProfile, known: Known) -> int | None:
    """What the smallest variant of the leanest method needs above what is there."""
    changes: dict[str, Any] = dict(methods[-1]) if methods else {}
    shortest: Declared = {"sequence_length": min(LEAST_CONTEXT, workload(**declared).sequence_length)}
    for step in (*_same_method({**declared, **changes}), shortest):
        if _tried(declared, {**changes, **step}, profile, known) is not None:
            changes |= step
    found = _tried(declared, changes, profile, known)
    if found is None or found.stack.needs_bytes is None:
        return None
    return max(0, found.stack.needs_bytes - found.stack.capacity_bytes)
