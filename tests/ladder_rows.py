"""Rows of `runs` as a ladder leaves them, for the tests of its factors and of its tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

WORK = "0123456789abcdef"
VERSIONS = {"python": "3.12.3", "torch": "2.14.1", "transformers": "5.17.0", "trl": "1.15.0"}
RATES = {"1-eager": 500.0, "2-sdpa": 1000.0, "8-unsloth": 2000.0}
PEAKS = {"1-eager": 12_000_000_000, "2-sdpa": 10_000_000_000, "8-unsloth": 5_000_000_000}


def rung_row(arm: str, index: int = 0, **fields: Any) -> dict[str, Any]:
    """One ok run of a rung on a 4090; its rates spread by a hundredth, its peaks not at all."""
    backend = "unsloth" if "unsloth" in arm else "hf"
    rate = RATES.get(arm, 900.0) * (1 + 0.01 * (index % 3 - 1))
    return {
        "run_id": f"{arm}-{index}-{fields.get('machine', '')}-{fields.get('workload_digest', '')}",
        "started_at": datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=index),
        "machine": "pc-rtx-4090",
        "machine_id": "0123",
        "suite": "ladder",
        "question": "Twice as fast as what?",
        "cell": f"llama-3.1-8b/qlora/{backend}@cuda/arm={arm}",
        "cell_key": arm,
        "workload_digest": WORK,
        "implementation": [("attention", arm)],
        "model": "llama-3.1-8b",
        "method": "qlora",
        "parameters": 8_030_261_248,
        "backend": backend,
        "device": "cuda",
        "tier": "measured",
        "outcome": "ok",
        "tokens_per_s": rate,
        "framework_peak_bytes": PEAKS.get(arm, 9_000_000_000),
        "host_peak_bytes": 3_000_000_000,
        "warmup_steps": 3,
        "steps": 23,
        "trainable_parameters": 41_943_040,
        "tokens_digest": "f0f0",
        "flags": [],
        "versions": sorted(VERSIONS.items()),
        "environment_digest": "e",
        **fields,
    }


def whole_ladder(**of_unsloth: Any) -> list[dict[str, Any]]:
    """Three runs of each of three rungs; the fields given are those of the third."""
    arms = {"1-eager": {}, "2-sdpa": {}, "8-unsloth": of_unsloth}
    return [rung_row(arm, index, **fields) for arm, fields in arms.items() for index in range(3)]
