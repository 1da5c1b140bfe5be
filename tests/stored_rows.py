"""What the tests of the store write and read back."""

from dataclasses import fields
from pathlib import Path

from bench import store
from bench.files import layout
from bench.record import Reading, Run, Step

STEPS = [
    Step(step=1, phase="warmup", start_s=0.0, duration_s=0.5, tokens=32, loss_tokens=31, loss=5.5, framework_peak_bytes=0),
    Step(step=2, phase="measured", start_s=0.5, duration_s=0.25, tokens=32, loss_tokens=0, loss=None, tokens_digest="0f"),
]
READINGS = [
    Reading(t_s=0.0, meter="nvml", scope="gpu-board", quantity="power", unit="W", value=0.0),
    Reading(t_s=0.1, meter="nvml", scope="gpu-board", quantity="power", unit="W", value=None),
]


def as_row(run: Run) -> dict:
    """What must be read of a run."""
    row = {field.name: getattr(run, field.name) for field in fields(run)}
    work = row.pop("workload")
    return row | dict(work) | {"flags": list(run.flags)}


def rows_of(results, table="runs", **options) -> list[dict]:
    found = store.read(results, table, **options)
    assert found.damaged == ()
    return found.rows.to_pylist(maps_as_pydicts="strict")


def file_of(results, run_id="run-1", table="runs", machine="box") -> Path:
    return layout.run_path(results, table, machine, run_id)


def every_file(results) -> list[Path]:
    return sorted(path.relative_to(results) for path in results.rglob("*") if path.is_file())
