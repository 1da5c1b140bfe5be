"""From what was seen to what is stored.

In: a cell, the machine, the provenance, a worker's trace and the judgement on it. Out: the row of `runs`. Rates and medians are
taken over the measured steps alone; a run that failed keeps whatever it had measured before.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bench.provenance import Provenance
from bench.record import Machine, Outcome, Peaks, Run, Step, workload_columns
from bench.spec import Cell
from bench.sweep.evidence import Trace


@dataclass(frozen=True, slots=True)
class Context:
    """What every run of one sweep shares."""

    suite: str
    question: str
    machine: Machine
    provenance: Provenance


def run_row(
    context: Context,
    cell: Cell,
    run_id: str,
    started_at: datetime,
    outcome: Outcome,
    reason: str | None,
    trace: Trace | None = None,
    parent_cpu_share: float | None = None,
) -> Run:
    """The row of one run; without a trace (nothing was started) only the identity, the conditions and the outcome."""
    machine = context.machine
    return Run(
        run_id=run_id,
        started_at=started_at,
        machine=machine.name,
        machine_id=machine.machine_id,
        suite=context.suite,
        question=context.question,
        cell=cell.id,
        cell_key=cell.key,
        workload_digest=cell.workload.digest,
        workload=_workload(cell, trace),
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
        parent_cpu_share=parent_cpu_share,
        **_versions(context.provenance, trace),
        **(_measured(trace) if trace else {}),
    )


def _workload(cell: Cell, trace: Trace | None) -> dict[str, Any]:
    """The workload's columns; the parameter count is the built model's where there is one."""
    columns = workload_columns(cell.workload)
    if trace and trace.loaded:
        columns["parameters"] = trace.loaded.parameters
    return columns


def _versions(provenance: Provenance, trace: Trace | None) -> dict[str, Any]:
    backend = dict(trace.started.versions) if trace and trace.started else {}
    return {"versions": {**provenance.versions, **backend}}


def _accelerator(cell: Cell, machine: Machine) -> str | None:
    """The name of what computes, where it is not the main processor."""
    if cell.device == "cuda" and machine.gpus:
        return machine.gpus[0].name
    return machine.chip if cell.device in ("metal", "mps") else None


def _measured(trace: Trace) -> dict[str, Any]:
    peaks = trace.finished.peaks if trace.finished else Peaks(framework_peak_bytes=_highest(trace.steps))
    return {
        **_rates([step for step in trace.steps if step.phase == "measured"]),
        "framework_peak_bytes": peaks.framework_peak_bytes,
        "reserved_peak_bytes": peaks.reserved_peak_bytes,
        "cache_peak_bytes": peaks.cache_peak_bytes,
        "host_peak_bytes": trace.finished.host_peak_bytes if trace.finished else None,
        "import_s": trace.started.import_s if trace.started else None,
        "load_s": trace.loaded.load_s if trace.loaded else None,
        "implementation": dict(trace.loaded.implementation) if trace.loaded else {},
        "trainable_parameters": trace.loaded.trainable_parameters if trace.loaded else None,
        "first_step_s": trace.steps[0].duration_s if trace.steps else None,
        "warmup_steps": sum(step.phase == "warmup" for step in trace.steps),
        "steps": len(trace.steps),
        "loss_first": trace.steps[0].loss if trace.steps else None,
        "loss_last": trace.steps[-1].loss if trace.steps else None,
        "tokens_digest": trace.steps[0].tokens_digest if trace.steps else None,
    }


def _rates(measured: Sequence[Step]) -> dict[str, float]:
    """Tokens per median step. Empty before the first measured step: not measured is not zero."""
    if not measured:
        return {}
    median_s = statistics.median(step.duration_s for step in measured)
    return {
        "step_s_median": median_s,
        "tokens_per_s": statistics.median(step.tokens for step in measured) / median_s,
        "loss_tokens_per_s": statistics.median(step.loss_tokens for step in measured) / median_s,
    }


def _highest(steps: Sequence[Step]) -> int | None:
    """The framework's peak as of the last steps seen, for a run that never finished."""
    return max((step.framework_peak_bytes for step in steps if step.framework_peak_bytes is not None), default=None)
