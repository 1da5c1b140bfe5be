"""What the refinements are computed from: rows of memory, and contests of two machines.

In: the predictor, prepared runs, published rows. Out: `Row`s for the lines of memory, each of its tier, and the winner map.
Nothing is fitted or judged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pandas as pd

from bench.advise.answer import CONDITIONS, MACHINES, METHODS
from bench.advise.contest import best
from bench.advise.stack import Known
from bench.catalog import MachineProfile, catalogue
from bench.claims.asked import cells
from bench.claims.beside import PEAK_METERS
from bench.claims.claim import Side, Tier
from bench.limits import profile_of
from bench.model import Model
from bench.predict.evidence import Observation
from bench.refine.memory import Group, Row
from bench.refine.winners import Contest, Flip, WinnerMap, contest, winner_map
from bench.spec import Cell, Workload, workload

CONTEXTS = (512, 2048, 8192, 32_768)
"""Tokens of a sequence, from a short exercise to a book's chapter."""
LINE_CONTEXTS = (512, 1024, 2048, 4096)
"""Of the lines of memory: further out a token costs so unlike much in models of unlike width that no line holds for all."""
VARIANTS: tuple[Mapping[str, Any], ...] = ({}, {"gradient_checkpointing": False}, {"optimizer": "adamw_8bit"})
"""What divides the lines of memory beside method and stack."""
EDGE_TOKENS = 256
"""How finely a flip along context is told: in the steps of suites/frontier.toml, so that both tell the same edge."""


def lesson_models() -> tuple[Model, ...]:
    """The models that have a size alias, in the catalogue's order."""
    known = catalogue()
    return tuple(known.models[name] for name in known.aliases.values())


def lesson_machines() -> tuple[MachineProfile, MachineProfile]:
    """The lesson's two, the PC first."""
    first, second = (profile_of(name) for name in MACHINES)
    if first is None or second is None:
        raise LookupError(f"suites/catalog/machines.toml lacks {' or '.join(MACHINES)}")
    return first, second


def predicted_rows(
    known: Known,
    models: Sequence[Model],
    contexts: Sequence[int] = LINE_CONTEXTS,
    machines: Sequence[MachineProfile] = (),
    methods: Sequence[str] = METHODS,
) -> list[Row]:
    """Peaks by prediction on every stack of the machines (the lesson's two where none is given), fit or not."""
    asked = product(models, methods, contexts, VARIANTS, machines or lesson_machines())
    found = [
        _row(cell, float(answer.memory.peak_bytes), "predicted", "rules")
        for model, method, context, variant, profile in asked
        for cell in cells(Side(machines=(profile.name,)), profile, _work(model, method, context, variant))
        if (answer := known.foretell(cell, profile)) is not None and answer.memory.peak_bytes > 0
    ]
    return list(dict.fromkeys(row for row in found if row is not None))


def _work(model: Model, method: str, context: int, more: Mapping[str, Any]) -> Workload:
    return workload(**{**CONDITIONS, **more, "model": model, "method": method, "sequence_length": context})


def _row(cell: Cell, peak_bytes: float, tier: Tier, evidence: str) -> Row | None:
    """None for a model whose parameters are not known."""
    work = cell.workload
    if work.model.parameters is None:
        return None
    group = Group(work.method, cell.backend, cell.device, work.optimizer or "", work.gradient_checkpointing, tier)
    return Row(group, float(work.model.parameters), float(work.batch_size * work.sequence_length), peak_bytes, evidence)


def measured_rows(runs: pd.DataFrame) -> list[Row]:
    """Peaks by the framework's own count, of prepared training runs on the machines themselves whose memory no flag spoils.

    Runs that do not say all that a line depends on are left out.
    """
    needed = ["optimizer", "gradient_checkpointing", "batch_size", "sequence_length"]
    if runs.empty or not set(needed) <= set(runs.columns):
        return []
    peaks = runs["framework_peak_bytes"] > 0
    kept = runs[
        runs["clean_memory"] & peaks & (runs["tier"] == "measured") & (runs["method"] != "serve") & (runs["parameters"] > 0)
    ]
    return [
        Row(
            Group(
                str(row["method"]),
                str(row["backend"]),
                str(row["device"]),
                str(row["optimizer"]),
                bool(row["gradient_checkpointing"]),
                "measured",
            ),
            float(row["parameters"]),
            float(row["batch_size"] * row["sequence_length"]),
            float(row["framework_peak_bytes"]),
            str(row["run_id"]),
        )
        for row in kept[kept[needed].notna().all(axis=1)].to_dict("records")
    ]


def published_rows(observed: Iterable[Observation]) -> list[Row]:
    """Peaks by the framework's own count, of our stacks, by sources that state every condition and had texts of one length.

    Of a row with several cells nothing is taken: what it leaves open would be guessed.
    """
    found = [
        _row(seen.cells[0], float(seen.peak_bytes), "published", seen.id)
        for seen in observed
        if seen.stated and not seen.varied and seen.peak_bytes and seen.meter in PEAK_METERS and len(seen.cells) == 1
    ]
    return [row for row in found if row is not None]


def contests(
    known: Known, first: MachineProfile, second: MachineProfile, models: Iterable[Model], contexts: Iterable[int] = CONTEXTS
) -> Iterator[Contest]:
    """Every work on both machines by the best stack of each; work that one has no stack for, or that no model has positions for,
    is left out.
    """
    for model, method, context in product(models, METHODS, contexts):
        positions = model.config.get("max_position_embeddings")
        if not isinstance(positions, int) or context <= positions:
            found = _contest(known, first, second, _work(model, method, context, {}))
            if found is not None:
                yield found


def _contest(known: Known, first: MachineProfile, second: MachineProfile, work: Workload) -> Contest | None:
    one, other = (best(known.stacks(work, profile)) for profile in (first, second))
    return None if one is None or other is None else contest(one, other)


def gathered_map(
    known: Known,
    models: Iterable[Model] | None = None,
    contexts: Iterable[int] = CONTEXTS,
    machines: tuple[MachineProfile, MachineProfile] | None = None,
) -> WinnerMap:
    """The winner map; flips along context are found to `EDGE_TOKENS` by asking what lies between."""
    first, second = machines or lesson_machines()
    found = winner_map(first.name, second.name, contests(known, first, second, models or lesson_models(), contexts))
    flips = tuple(sharp for flip in found.flips for sharp in _sharpened(known, first, second, flip))
    return replace(found, flips=flips)


def _sharpened(known: Known, first: MachineProfile, second: MachineProfile, flip: Flip) -> Iterator[Flip]:
    """Along context the neighbours are brought together, and a winner between them is found; sizes are those that there are.

    The place is the last context before the change, as an edge is the last that fits.
    """
    if flip.axis != "sequence_length":
        yield flip
        return
    below, end = flip.below, flip.above
    while below.winner != end.winner:
        below, above = _edge(known, first, second, below, end)
        yield Flip(flip.axis, below, above, float(below.sequence_length))
        below = above


def _edge(known: Known, first: MachineProfile, second: MachineProfile, below: Contest, above: Contest) -> tuple[Contest, Contest]:
    """The nearest contests of which the second has not the winner of the first, by bisection."""
    while above.sequence_length - below.sequence_length > EDGE_TOKENS:
        middle = (below.sequence_length + above.sequence_length) // 2 // EDGE_TOKENS * EDGE_TOKENS
        work = replace(below.stacks[0].cell.workload, sequence_length=middle)
        found = _contest(known, first, second, work) if below.sequence_length < middle else None
        if found is None:
            break
        below, above = (found, above) if found.winner == below.winner else (below, found)
    return below, above
