"""How far a machine reaches, as predicted: the largest model, the longest sequence and the largest batch that fit, by method.

In: a machine's profile. Out: a `Reach` for each edge that `suites/frontier.toml` asks for, by the stack of the machine that gets
furthest: what `wingspan frontier frontier --predicted --machine NAME` says of the stacks that the machine's owners use, and
likewise of what that suite excludes from being run, since a prediction costs nothing and a gap would be read as forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from bench.catalog import CATALOG, MachineProfile
from bench.claims.asked import STACKS
from bench.frontier.question import MODEL, Question, Value, questions
from bench.frontier.search import Chance, predicted
from bench.holes import refusal
from bench.machine import catalogue_machine
from bench.plan import chosen
from bench.predict.answer import chances
from bench.spec import Frontier
from bench.suite import read_suite

SUITE = CATALOG.parent / "frontier.toml"
AXES = (MODEL, "sequence_length", "batch_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """One edge of one machine. `model` is "", and `parameters` 0, where the largest model is asked for.

    `likely` is the last value that fits more likely than not, `low` the last that surely fits, `high` the last that may; None:
    not even the smallest. `rank` is the place of `likely` among all values, from 0 (none) to `ranks` (all that were asked for).
    """

    machine: str
    axis: str
    method: str
    model: str
    parameters: int
    stack: str
    likely: Value | None
    low: Value | None
    high: Value | None
    rank: int
    ranks: int

    @property
    def ends_the_search(self) -> bool:
        """Whether everything that was asked for fits, so that the edge lies beyond."""
        return self.rank == self.ranks


@cache
def reaches(profile: MachineProfile) -> tuple[Reach, ...]:
    """Every edge by the best stack of the machine, in the order of axes, methods and sizes; predictions by rules, in seconds."""
    suite, machine = read_suite(SUITE), catalogue_machine(profile.name)
    cells = [
        cell
        for cell in chosen(suite, machine, None)
        if cell.backend in STACKS.get(cell.device, ()) and not refusal(cell, machine)
    ]
    asked = questions(suite.frontier or Frontier(), cells)
    found = [each for question in asked for each in _reach(profile, question, chances(machine))]
    ordered = sorted(found, key=_order)
    return tuple(max(group, key=lambda each: each.rank) for _, group in groupby(ordered, key=_order))


def _reach(profile: MachineProfile, question: Question, chance: Chance) -> Iterator[Reach]:
    """Nothing for cells that cannot be predicted."""
    edge, base = predicted(question, chance), question.bases[0]
    if edge.predicted is None:
        return
    of_models, likely = question.axis == MODEL, edge.predicted["likely"]
    yield Reach(
        machine=profile.name,
        axis=question.axis,
        method=base.workload.method,
        model="" if of_models else base.workload.model.name,
        parameters=0 if of_models else base.workload.model.parameters or 0,
        stack=f"{base.backend}@{base.device}",
        likely=likely,
        low=edge.predicted["low"],
        high=edge.predicted["high"],
        rank=0 if likely is None else list(question.values).index(likely) + 1,
        ranks=len(question.values),
    )


def _order(each: Reach) -> tuple[int, str, int, str]:
    return AXES.index(each.axis), each.method, each.parameters, each.model
