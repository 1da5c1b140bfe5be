"""Observations made up for the tests of fitting and scoring."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.catalog import catalogue
from bench.limits import profile_of
from bench.predict.evidence import Observation
from bench.predict.prediction import Memory
from bench.spec import Cell, workload

CELL = Cell(workload(model=catalogue().models["llama-3.1-8b"], method="lora", sequence_length=2048), "hf", "cuda")
BASE = Observation(
    id="a-1",
    family="a",
    source="s",
    stack="hf",
    framework="HF",
    own=True,
    cells=(CELL,),
    missing=(),
    logit_bytes=0,
    machine=profile_of("a100-80gb"),
    meter="allocated",
    outcome="ok",
)


def observation(**change: Any) -> Observation:
    return replace(BASE, **change)


def memory(peak_bytes: int, spread: float = 1.1) -> Memory:
    return Memory(
        parts={},
        peak_bytes=peak_bytes,
        peak_low_bytes=round(peak_bytes / spread),
        peak_high_bytes=round(peak_bytes * spread),
        held_bytes=2 * peak_bytes,
        held_low_bytes=round(2 * peak_bytes / spread),
        held_high_bytes=round(2 * peak_bytes * spread),
        how="rules",
        reserved_bytes=3 * peak_bytes // 2,
    )


def ten_gb(cell: Cell, full_logits: bool) -> Memory:
    """Rules to which all cells are one: 10 GB, 20 GB with full logits."""
    return memory(20 * 10**9 if full_logits else 10 * 10**9)
