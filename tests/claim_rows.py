"""Claims and rows of runs for the tests of `bench.claims`: planted, so that the right verdict is known."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd

from bench.analysis import prepare
from bench.catalog import catalogue
from bench.claims.claim import Claim, Expected, Side
from bench.claims.measured import Runs
from bench.spec import WORKLOAD_FIELDS, workload

SAID = {"en": "so it is", "fr": "il en est ainsi", "ro": "așa este"}
PC, MAC = Side(machines=("pc-rtx-4090",)), Side(machines=("mac-studio-m3-ultra",))
CONDITIONS = {"batch_size": 1, "sequence_length": 2048, "gradient_checkpointing": True, "rank": 16, "modules": "all"}
PLACES = {"pc-rtx-4090": ("hf", "cuda"), "mac-studio-m3-ultra": ("mlx", "metal")}
START = datetime(2026, 1, 1, tzinfo=UTC)


def claim(kind: str, **fields: Any) -> Claim:
    given = {"statement": SAID, "models": ("llama-3.1-8b",), "methods": ("lora",), "conditions": CONDITIONS, **fields}
    if isinstance(given.get("expected"), tuple):
        given["expected"] = Expected(*given["expected"])
    return Claim(id=f"a.{kind}", kind=kind, **given)  # type: ignore[arg-type]


def rows(
    place: str, values: Iterable[float], *, model: str = "llama-3.1-8b", method: str = "lora", work: Any = None, **fields: Any
) -> list[dict[str, Any]]:
    """A run for each rate, of the work that the claims of these tests are about unless `work` says otherwise."""
    backend, device = PLACES.get(place, ("hf", "cpu"))
    backend, device = fields.pop("backend", backend), fields.pop("device", device)
    made = workload(model=catalogue().models[model], method=method, **{**CONDITIONS, **(work or {})})
    declared = {name: getattr(made, name) for name in WORKLOAD_FIELDS if name != "model"}
    return [
        {
            "run_id": f"{place}-{backend}-{model}-{method}-{made.digest}-{number}",
            "started_at": START + timedelta(minutes=number),
            "machine": place,
            "machine_id": f"id-{place}",
            "cell": f"{model}/{method}/{backend}@{device}",
            "cell_key": f"{made.digest}-{backend}",
            "workload_digest": made.digest,
            "implementation": [("attention", "sdpa")],
            "model": model,
            "parameters": made.model.parameters,
            "backend": backend,
            "device": device,
            "tier": "measured",
            "outcome": "ok",
            "tokens_per_s": value,
            "trainable_parameters": 64,
            "tokens_digest": "t",
            "environment_digest": "e",
            "warmup_steps": 3,
            "steps": 13,
            "flags": [],
            **declared,
            **fields,
        }
        for number, value in enumerate(values)
    ]


def runs(*groups: list[dict[str, Any]], parts: dict[str, dict[str, float]] | None = None) -> Runs:
    return Runs(prepare(pd.DataFrame([row for group in groups for row in group])), parts or {})
