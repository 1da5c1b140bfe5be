"""Thousands of runs, put straight into a results folder, for what reads many.

In: a folder. Out: the files that as many calls of `store.append` would have left, a file each, or one for each machine, as
`compact` leaves them: encoded and sealed by the store itself, but not flushed to disk one by one, which would take an hour.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from bench import store
from bench.files import layout
from bench.model import model_from_config
from bench.provenance import Provenance
from bench.record import Machine, Run, Step
from bench.spec import Cell, workload
from bench.sweep.rows import Context, run_row

MACHINES = ("perf-one", "perf-two")
BACKENDS = ("hf", "mlx")
LENGTHS = range(64, 64 * 51, 64)
"""Sequence lengths: 50 workloads for each machine and backend, so 200 cells."""
WARMUP_STEPS = 3
NIGHTLY_CELLS, REPEATS = 10, 6
SLOWER_FROM = 0.7
"""After this share of the nights one cell is slower, by a tenth."""


def fill(results: Path, runs: int, steps: int) -> None:
    """Write so many runs of so many steps each."""
    generator = random.Random(7)
    rates = [generator.gauss(1.0, 0.02) for _ in range(1000)]
    for number, run in enumerate(many(runs, steps)):
        duration_s = run.step_s_median or 1.0
        told = [
            Step(
                step=each,
                phase="warmup" if each <= WARMUP_STEPS else "measured",
                start_s=(each - 1) * duration_s,
                duration_s=duration_s * rates[(number * 31 + each) % len(rates)],
                tokens=run.workload["sequence_length"],
                loss_tokens=run.workload["sequence_length"] - 1,
                loss=6.0 - each / steps,
                host_peak_bytes=2**30 + each,
                cpu_s=duration_s,
            )
            for each in range(1, steps + 1)
        ]
        _put(results, run, told)


def fill_compacted(results: Path, runs: Iterable[Run]) -> None:
    """Write the rows of these runs, without steps, into one file for each machine."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        rows.setdefault(run.machine, []).append(store._run_row(run))
    for machine, own in rows.items():
        content = store._encode(store.SCHEMAS["runs"], own)
        folder = layout.run_path(results, "runs", machine, "any").parent
        folder.mkdir(parents=True)
        layout.compacted_path(folder, hashlib.sha256(content).hexdigest()).write_bytes(content)


def nightly(nights: int) -> Iterator[Run]:
    """As many nights of the first cells of one machine, each measured several times; one cell gets slower."""
    generator = random.Random(9)
    first = date(2026, 1, 1)
    cells = [run for run in many(len(LENGTHS) * len(MACHINES) * len(BACKENDS), 10) if run.machine == MACHINES[0]][:NIGHTLY_CELLS]
    for night in range(nights):
        level = [generator.gauss(1.0, 0.005) for _ in cells]
        for number, repeat in ((number, repeat) for number in range(len(cells)) for repeat in range(REPEATS)):
            slower = 0.9 if number == 0 and night >= SLOWER_FROM * nights else 1.0
            rate = cells[number].workload["sequence_length"] * level[number] * slower * generator.gauss(1.0, 0.01)
            began = cells[number].started_at + timedelta(days=night, minutes=repeat)
            yield replace(
                cells[number],
                run_id=f"{began:%Y%m%dT%H%M%SZ}-{number:04x}{repeat:04x}",
                started_at=began,
                night=(first + timedelta(days=night)).isoformat(),
                tokens_per_s=rate,
                step_s_median=cells[number].workload["sequence_length"] / rate,
            )


def many(number: int, steps: int) -> Iterator[Run]:
    """So many runs of so many steps each, over 200 cells."""
    generator = random.Random(8)
    templates = [_template(machine, backend, length) for length in LENGTHS for machine in MACHINES for backend in BACKENDS]
    for index in range(number):
        template = templates[index % len(templates)]
        began = template.started_at + timedelta(minutes=index)
        rate = template.workload["sequence_length"] * generator.gauss(1.0, 0.01) * (2 if template.backend == "mlx" else 1)
        yield replace(
            template,
            run_id=f"{began:%Y%m%dT%H%M%SZ}-{index:08x}",
            started_at=began,
            implementation={"attention": "sdpa", "optimizer": "torch"},
            tokens_per_s=rate,
            step_s_median=template.workload["sequence_length"] / rate,
            steps=steps,
            warmup_steps=WARMUP_STEPS,
            host_peak_bytes=2**30 + index,
            framework_peak_bytes=2**28 + index,
            trainable_parameters=1000,
            tokens_digest="feed",
            load_s=1.0,
            first_step_s=1.5,
            host_cpu_share=1.9,
            not_measured={"power_w": "no meter reads this machine's power"},
        )


def _template(machine: str, backend: str, length: int) -> Run:
    box = Machine(
        name=machine, machine_id=machine.encode().hex()[-12:], system="Linux", architecture="x86_64", os_version="Test OS 1",
        chip="Test Chip", cpu_cores=2, memory_bytes=16 * 2**30,
    )  # fmt: skip
    model = model_from_config(
        "fake", {"model_type": "fake", "vocab_size": 512, "max_position_embeddings": 4096, "parameters": 1000}
    )
    work = workload(model=model, method="lora", sequence_length=length, batch_size=1)
    cell = Cell(work, backend, "cpu", swept=(("sequence_length", length),))  # type: ignore[arg-type]
    context = Context("perf", "How fast?", box, Provenance("abc", "feed", {"python": "3.11", "torch": "2.13.0"}))
    return run_row(context, cell, "r", datetime(2026, 1, 1, tzinfo=UTC), "ok", None)


def _put(results: Path, run: Run, steps: list[Step]) -> None:
    rows = [{"run_id": run.run_id, **store._fields(step)} for step in steps]
    for table, content in (("steps", rows), ("runs", [store._run_row(run)])):
        path = layout.run_path(results, table, run.machine, run.run_id)  # type: ignore[arg-type]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store._encode(store.SCHEMAS[table], content))  # type: ignore[index]
