"""Where claims contradict one another: computed from their own numbers, without any evidence.

In: claims, and what the machines that they name have. Out: `Contradiction`s, each with the claims that clash and the numbers;
and of each method how well the table of sizes is described by a slope alone and by a fixed part with a slope. A claim is known by
its kind and its quantity, not by its name, so claims of a user's own are held against one another as well. Sizes are the nominal
ones, as the claims mean them (1B is 10⁹ parameters).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.catalog import MachineProfile, catalogue
from bench.claims.claim import Claim, Expected
from bench.claims.rules import ROOM
from bench.refine.memory import Group, Row, Rule, rule

BANDS: Mapping[str | None, tuple[float | None, float | None]] = {
    "yes": (None, 1.0),
    "tight": (1 - ROOM, 1.0),
    "no": (1.0, None),
    "crash": (1.0, None),
}
"""Which share of what is there a work takes that fits so."""
Clash = Literal["a cell and its rule", "a cell and a fit", "a cell and a winner", "a winner and what both can do"]
"""`a cell and a winner`: the winner itself lacks the memory. `a winner and what both can do`: the loser fits, and is said to be
faster where both fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Claims of which not all can hold.

    `work` is the size and the method. `found` stands against the range from `low` to `high` (None: open): bytes a parameter of a
    cell against its rule, else the share that a cell takes of what a process can have on `machine` (None where no cell says it).
    `factor` is by how much `found` is outside; None where it is not the number that clashes. `tolerated`: no further outside than
    the claims' own tolerance allows.
    """

    clash: Clash
    claims: tuple[str, ...]
    work: str
    found: float | None
    low: float | None
    high: float | None
    machine: str | None = None
    factor: float | None = None
    tolerated: bool = False


@dataclass(frozen=True, slots=True)
class TableFit:
    """The cells of one method by a slope alone, and by a fixed part with a slope."""

    method: str
    claims: tuple[str, ...]
    slope_alone: Rule
    with_fixed: Rule

    @property
    def better(self) -> float:
        """How many times smaller the residuals are with a fixed part."""
        return self.slope_alone.rms_share / self.with_fixed.rms_share if self.with_fixed.rms_share else float("inf")


@dataclass(frozen=True, slots=True)
class _Cell:
    claim: Claim
    size: str
    method: str
    parameters: float
    need_bytes: float

    @property
    def work(self) -> str:
        return f"{self.size} {self.method}"


def contradictions(claims: Sequence[Claim], profiles: Iterable[MachineProfile]) -> tuple[Contradiction, ...]:
    """Every clash, in the order of its kinds and of the claims."""
    there = {profile.name: profile.capacity_bytes for profile in profiles}
    cells = [*_cells(claims)]
    found = [*_of_rules(claims, cells), *_of_fits(claims, cells, there), *_of_winners(claims, cells, there)]
    return (*found, *_of_leads(claims, cells, there))


def table_fits(claims: Sequence[Claim]) -> tuple[TableFit, ...]:
    """Of every method that the claims have a table of sizes for, of three or more."""
    cells = [*_cells(claims)]
    return tuple(
        each for method in dict.fromkeys(cell.method for cell in cells) if (each := _table_fit(method, cells)) is not None
    )


def _table_fit(method: str, cells: Sequence[_Cell]) -> TableFit | None:
    mine = [cell for cell in cells if cell.method == method]
    group = Group(method, "any", "any", "", False, "published")
    rows = [Row(group, cell.parameters, 0.0, cell.need_bytes, cell.claim.id) for cell in mine]
    alone, line = rule(rows, fixed=False), rule(rows)
    if len(mine) < 3 or alone is None or line is None:
        return None
    return TableFit(method, tuple(cell.claim.id for cell in mine), alone, line)


def _cells(claims: Iterable[Claim]) -> Iterator[_Cell]:
    """Claims of one peak of one model by one method on no machine in particular."""
    for claim in claims:
        single = len(claim.models) == len(claim.methods) == len(claim.sides) == 1 and not claim.sides[0].machines
        if claim.kind == "value" and claim.quantity == "peak_bytes" and single and claim.expected and claim.expected.low:
            size, parameters = _nominal(claim.models[0])
            if parameters:
                yield _Cell(claim, size, claim.methods[0], parameters, claim.expected.low)


def _nominal(model: str) -> tuple[str, float | None]:
    """The size by which the claims call the model, and its parameters by that name; else its own."""
    known = catalogue()
    alias = next((alias for alias, name in known.aliases.items() if name == model), None)
    if alias is None:
        return model, known.models[model].parameters if model in known.models else None
    return alias, float(alias.removesuffix("b")) * 1e9


def _of_rules(claims: Sequence[Claim], cells: Sequence[_Cell]) -> Iterator[Contradiction]:
    """A cell that its own rule does not give."""
    for claim in claims:
        if claim.quantity == "peak_bytes_per_parameter" and claim.expected is not None:
            for cell in cells:
                per = cell.need_bytes / cell.parameters
                if (
                    cell.method in claim.methods
                    and cell.claim.models[0] in claim.models
                    and (factor := _outside(per, claim.expected))
                ):
                    yield Contradiction(
                        clash="a cell and its rule",
                        claims=(cell.claim.id, claim.id),
                        work=cell.work,
                        found=per,
                        low=claim.expected.low,
                        high=claim.expected.high,
                        factor=factor,
                        tolerated=factor <= 1 + claim.tolerance,
                    )


def _outside(value: float, expected: Expected) -> float | None:
    """By which factor it is outside; None where it is inside. (Rounded: 10 over 4 is no more than 2.5.)"""
    below = (expected.low or 0.0) / value
    above = value / expected.high if expected.high else 0.0
    return max(below, above) if max(below, above) > 1 + 1e-9 else None


def _of_fits(claims: Sequence[Claim], cells: Sequence[_Cell], there: Mapping[str, int]) -> Iterator[Contradiction]:
    """A machine is said to have room, or none, and the cell says otherwise; "barely" leaves a tenth at most."""
    for claim in claims:
        if claim.kind == "fit" and claim.fits in BANDS:
            low, high = BANDS[claim.fits]
            for cell, machine in _on_machines(claim, 0, cells, there):
                share = cell.need_bytes / there[machine]
                if factor := _outside(share, Expected(low, high)):
                    yield Contradiction(
                        clash="a cell and a fit",
                        claims=(cell.claim.id, claim.id),
                        work=cell.work,
                        found=share,
                        low=low,
                        high=high,
                        machine=machine,
                        factor=factor,
                        tolerated=factor <= 1 + cell.claim.tolerance,
                    )


def _on_machines(claim: Claim, side: int, cells: Sequence[_Cell], there: Mapping[str, int]) -> Iterator[tuple[_Cell, str]]:
    """The cells that the claim is about, on each machine of that side of it."""
    for cell in cells:
        if cell.claim.models[0] in claim.models and cell.method in claim.methods:
            yield from ((cell, machine) for machine in claim.sides[side].machines if machine in there)


def _of_winners(claims: Sequence[Claim], cells: Sequence[_Cell], there: Mapping[str, int]) -> Iterator[Contradiction]:
    """A winner that lacks the memory by the table."""
    for claim, won, _ in _decided(claims):
        for cell, machine in _on_machines(claim, won, cells, there):
            share = cell.need_bytes / there[machine]
            if share > 1:
                yield Contradiction(
                    clash="a cell and a winner",
                    claims=(cell.claim.id, claim.id),
                    work=cell.work,
                    found=share,
                    low=None,
                    high=1.0,
                    machine=machine,
                    factor=share,
                    tolerated=share <= 1 + cell.claim.tolerance,
                )


def _decided(claims: Iterable[Claim]) -> Iterator[tuple[Claim, int, int]]:
    """(claim, place of the winner, place of the other) of those that name a winner."""
    for claim in claims:
        if claim.kind == "winner" and claim.winner in ("first", "second") and len(claim.sides) == 2:
            won = 0 if claim.winner == "first" else 1
            yield claim, won, 1 - won


def _of_leads(claims: Sequence[Claim], cells: Sequence[_Cell], there: Mapping[str, int]) -> Iterator[Contradiction]:
    """The other machine can do it too, by a cell or by a claim of fit, and is said to be the faster one where both can."""
    for claim, won, lost in _decided(claims):
        for cell, machine in _on_machines(claim, lost, cells, there):
            share = cell.need_bytes / there[machine]
            able = [cell.claim.id] if share <= 1 - ROOM else _said_to_fit(claims, cell, machine)
            faster = _said_faster(claims, machine, claim.sides[won].machines, cell)
            if able and faster:
                yield Contradiction(
                    clash="a winner and what both can do",
                    claims=(claim.id, *able, *faster),
                    work=cell.work,
                    found=share,
                    low=None,
                    high=1.0,
                    machine=machine,
                )


def _said_to_fit(claims: Iterable[Claim], cell: _Cell, machine: str) -> list[str]:
    return [
        claim.id
        for claim in claims
        if claim.kind == "fit"
        and claim.fits in ("yes", "tight")
        and machine in claim.sides[0].machines
        and cell.claim.models[0] in claim.models
        and cell.method in claim.methods
    ]


def _said_faster(claims: Iterable[Claim], machine: str, others: Sequence[str], cell: _Cell) -> list[str]:
    """Ratios of rates that have this machine ahead of the other one in such work."""
    found = []
    for claim in claims:
        about = cell.claim.models[0] in claim.models and cell.method in claim.methods
        if claim.kind == "ratio" and claim.quantity == "tokens_per_s" and claim.expected is not None and about:
            ahead, behind = claim.sides if claim.expected.direction > 0 else reversed(claim.sides)
            if claim.expected.direction and machine in ahead.machines and set(others) & set(behind.machines):
                found.append(claim.id)
    return found
