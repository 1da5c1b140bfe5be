"""From what was seen to what is stored.

In: a cell, the machine, the provenance, a run as it was seen and the judgement on it. Out: the row of `runs`: its identity, its
conditions, and what the assessments of `bench.trust` made of the steps and the readings. A run that cannot be true by one of
the validators becomes `invalid`, whatever else was said of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any

from bench.epochs import Conditions
from bench.limits import Limit, capacity_bytes, profile_of
from bench.predict.answer import Foreteller
from bench.provenance import Provenance
from bench.record import Machine, Outcome, Run, workload_columns
from bench.spec import Cell, Measure, Workload
from bench.sweep.evidence import failed_at
from bench.sweep.seen import Seen
from bench.sweep.told import told
from bench.trust import warmup
from bench.trust.assessed import Assessed
from bench.trust.disturbance import disturbance
from bench.trust.edge import edge
from bench.trust.energy import energy
from bench.trust.memory import memory
from bench.trust.validators import Facts, observed_tick_s, violation


def _nothing(cell: Cell) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Context:
    """What every run of one sweep shares. `limit` is the one on memory that they are held to; None: what there is.

    `foretell` predicts a cell, the same for every run of it; its rows keep what it said. `night` is the night that they are
    made for; None: no night's.
    """

    suite: str
    question: str
    machine: Machine
    provenance: Provenance
    limit: Limit | None = None
    foretell: Foreteller = _nothing
    night: str | None = None


def run_row(
    context: Context,
    cell: Cell,
    run_id: str,
    started_at: datetime,
    outcome: Outcome,
    reason: str | None,
    seen: Seen | None = None,
    measure: Measure | None = None,
) -> Run:
    """The row of one run; without `seen` (nothing was started) only the identity, the conditions and the outcome."""
    machine = context.machine
    assessed = finite(assess(context, cell, seen)) if seen else Assessed()
    assessed += _limited(context, cell, seen) + _predicted(context, cell)
    if outcome == "ok" and seen:
        wrong = violation(facts(context, cell, seen, assessed.columns))
        outcome, reason = ("invalid", wrong) if wrong else (outcome, reason)
    return Run(
        run_id=run_id,
        started_at=started_at,
        machine=machine.name,
        machine_id=machine.machine_id,
        suite=context.suite,
        question=context.question,
        cell=cell.id,
        cell_key=cell.key,
        workload_digest=_done(cell, seen).digest,
        workload=_workload(cell, seen),
        backend=cell.backend,
        device=cell.device,
        outcome=outcome,
        reason=reason,
        environment_digest=context.provenance.environment_digest,
        source_revision=context.provenance.source_revision,
        chip=machine.chip,
        accelerator=_accelerator(cell, machine),
        memory_bytes=machine.memory_bytes,
        os_version=machine.os_version,
        warmup_rule=warmup.describe(warmup.rule_of(measure)) if measure else None,
        versions=_versions(context.provenance, seen),
        tier=context.limit.tier if context.limit else "measured",
        failed_at=failed_at(seen.trace, outcome) if seen else None,
        flags=tuple(sorted(assessed.flags)),
        not_measured=_still_empty(assessed),
        night=context.night,
        epoch_digest=_epoch_digest(context, seen),
        **assessed.columns,
    )


def _epoch_digest(context: Context, seen: Seen | None) -> str | None:
    """The epoch of a run that was started; of another nobody looked how the device was set, and a digest without would differ."""
    if seen is None:
        return None
    provenance = context.provenance
    return Conditions(
        environment_digest=provenance.environment_digest,
        versions=provenance.versions,
        os_version=context.machine.os_version,
        device_settings=seen.settings,
    ).epoch_digest


def _predicted(context: Context, cell: Cell) -> Assessed:
    """What was predicted of the cell when the sweep was planned, before anything of it ran."""
    found = context.foretell(cell)
    if found is None:
        return Assessed()
    memory, speed = found.memory, found.speed
    return Assessed(
        {
            "predicted_peak_bytes": memory.peak_bytes,
            "predicted_held_bytes": memory.held_bytes,
            "predicted_tokens_per_s": speed.tokens_per_s,
        }
    )


def finite(assessed: Assessed) -> Assessed:
    """Without figures that are no finite number, such as what a meter gone mad adds up to. Losses stay: theirs is a validator."""
    mad = {name for name, value in assessed.columns.items() if isinstance(value, float) and not math.isfinite(value)}
    mad -= {"loss_first", "loss_last"}
    columns = {name: value for name, value in assessed.columns.items() if name not in mad}
    return Assessed(columns, assessed.flags, {**assessed.not_measured, **dict.fromkeys(mad, "not a finite number")})


def assess(context: Context, cell: Cell, seen: Seen) -> Assessed:
    """All assessments of one run, added up."""
    own = Assessed({"parent_cpu_share": seen.parent_cpu_share, "device_settings": _settings(seen)})
    said = told(seen)
    found = own + said + _memory(cell, seen, said.columns) + _energy(cell, seen) + _disturbance(cell, seen)
    return found + edge(seen.steps, seen.readings, cell.device, context.machine, said.columns)


def _limited(context: Context, cell: Cell, seen: Seen | None) -> Assessed:
    """The memory that the run could have had, and by what means it was held to a limit.

    The machine that a limit stands for is noted among the device's settings.
    """
    limit = context.limit
    if limit is None:
        there_bytes = capacity_bytes(context.machine, cell.device) if seen else None
        return Assessed({} if there_bytes is None else {"capacity_bytes": there_bytes})
    means = seen.trace.started.memory_limit if seen and seen.trace.started else None
    like = {} if limit.like is None else {"memory_like": limit.like}
    columns = {"capacity_bytes": limit.capacity_bytes, "memory_limit": means}
    settings = {"device_settings": {**(_settings(seen) if seen else {}), **like}}
    return Assessed({**columns, **settings}, ("limited",))


def _settings(seen: Seen) -> dict[str, str]:
    """How the device was set; and where the framework's peak comes from, if not from a counter of its own."""
    trace = seen.trace
    counted = trace.finished is None or trace.finished.counters.framework_peak_bytes is not None
    tracked = {} if counted or not (trace.parts and trace.parts.parts) else {"framework_peak": trace.parts.how}
    return {**seen.settings, **tracked}


def _memory(cell: Cell, seen: Seen, columns: Mapping[str, Any]) -> Assessed:
    peaks = {name: columns[name] for name in ("framework_peak_bytes", "host_peak_bytes", "host_base_bytes")}
    return memory(seen.readings, cell.device, missing=seen.missing, **peaks)


def _energy(cell: Cell, seen: Seen) -> Assessed:
    found = energy(
        seen.readings,
        seen.window,
        tokens=_paid_for(cell, seen),
        device=cell.device,
        idle=seen.idle,
        settings=seen.settings,
        missing=seen.missing,
    )
    drift = () if seen.came_back else ("idle-drift",)
    return Assessed(found.columns, (*found.flags, *drift), _asked(found.not_measured, seen))


def _paid_for(cell: Cell, seen: Seen) -> int:
    """The tokens that energy is divided by: all positions of training; of serving those generated, each sequence's first too."""
    if cell.workload.serves:
        return sum(step.tokens + cell.workload.batch_size for step in seen.measured if step.phase == "decode")
    return sum(step.tokens for step in seen.measured)


def _asked(not_measured: Mapping[str, str], seen: Seen) -> dict[str, str]:
    """Without what a wall meter would have filled, where none was given: nobody expects it."""
    given = bool(seen.wall or seen.wall_missing)
    return {name: why for name, why in not_measured.items() if given or not name.startswith("wall_")}


def _disturbance(cell: Cell, seen: Seen) -> Assessed:
    return disturbance(
        seen.readings,
        seen.window,
        device=cell.device,
        missing=seen.missing,
        settings_before=seen.recording.settings_before,
        settings_after=seen.recording.settings_after,
        idle_settings=seen.idle.settings if seen.idle else {},
    )


def facts(context: Context, cell: Cell, seen: Seen, columns: Mapping[str, Any]) -> Facts:
    """What the validators look at."""
    return Facts(
        steps=seen.steps,
        device=cell.device,
        workload=cell.workload,
        machine=context.machine,
        columns=columns,
        settings=seen.settings,
        profile=profile_of(context.machine.name),
        swap_total_bytes=_swap_total_bytes(),
        tick_s=_tick_s(),
    )


@cache
def _tick_s() -> float:
    return observed_tick_s(time.perf_counter)


@cache
def _swap_total_bytes() -> int:
    import psutil

    return int(psutil.swap_memory().total)


def _still_empty(assessed: Assessed) -> dict[str, str]:
    """Reasons for columns that no assessment filled in the end."""
    return {name: why for name, why in assessed.not_measured.items() if assessed.columns.get(name) is None}


def _done(cell: Cell, seen: Seen | None) -> Workload:
    """The work as it was done: weights that were asked for as the newest of the hub are the revision that it answered.

    So the digest tells two revisions apart, while the cell's key stays what it was before the hub was asked.
    """
    started = seen.trace.started if seen else None
    return replace(cell.workload, revision=started.revision) if started and started.revision else cell.workload


def _workload(cell: Cell, seen: Seen | None) -> dict[str, Any]:
    """The workload's columns; the parameter count is the built model's where there is one."""
    columns = workload_columns(_done(cell, seen))
    if seen and seen.trace.loaded:
        columns["parameters"] = seen.trace.loaded.parameters
    return columns


def _versions(provenance: Provenance, seen: Seen | None) -> dict[str, str]:
    backend = dict(seen.trace.started.versions) if seen and seen.trace.started else {}
    return {**provenance.versions, **backend}


def _accelerator(cell: Cell, machine: Machine) -> str | None:
    """The name of what computes, where it is not the main processor."""
    if cell.device == "cuda" and machine.gpus:
        return machine.gpus[0].name
    return machine.chip if cell.device in ("metal", "mps") else None
