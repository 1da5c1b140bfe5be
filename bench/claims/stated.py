"""What a published row itself says of its conditions: which of a claim's it does not meet, and which it leaves open.

In: a claim and a `Cited` row. Out: conditions, by field of a workload. Nothing is assumed here, unlike where a row is held to the
predictor (`bench.predict.evidence`), which has to have a value for everything: what a source does not say refuses nothing and is
listed as open, and nothing is both. One default counts as said: that of mlx-lm where its version is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from bench.cited import Cited
from bench.claims.asked import LAYERED, is_equal, wanted
from bench.claims.claim import Claim
from bench.model import Model
from bench.predict.cited_models import model_named
from bench.predict.cited_stacks import stack_of
from bench.predict.cited_terms import UNDECLARABLE, bits_of, method_of, modules_of, optimizer_of
from bench.predict.evidence import LAYERS, LONGEST, MLX_LAYERS

DTYPES = (
    (re.compile(r"bf16|bfloat16", re.IGNORECASE), "bfloat16"),
    (re.compile(r"fp16|float16|half", re.IGNORECASE), "float16"),
    (re.compile(r"fp32|float32", re.IGNORECASE), "float32"),
)
ADAPTERS = re.compile(r"adapters? (in )?((bf|fp|bfloat|float)\d+)", re.IGNORECASE)
SERVED = "inference"


def method_said(row: Cited) -> str | None:
    """The method by its name here; None for what is neither training nor serving as it is done here."""
    return "serve" if row.method == SERVED else method_of(row)


def said(row: Cited) -> dict[str, Any]:
    """What the source says, by field of a workload, as a cell would declare it; what it leaves open is not in it."""
    told = {
        "batch_size": row.batch,
        "sequence_length": _length(row),
        "gradient_accumulation": row.grad_accum,
        "gradient_checkpointing": None if row.grad_checkpointing is None else row.grad_checkpointing != "no",
        "optimizer": _optimizer(row),
        "weights_dtype": _dtype(ADAPTERS.sub("", row.dtype or "")),
        "adapter_dtype": _dtype(found[2]) if (found := ADAPTERS.search(row.dtype or "")) else None,
        "quantization_bits": bits_of(row),
        "rank": row.lora_rank,
        "modules": modules_of(row.lora_targets),
        LAYERED: _layers(row),
    }
    return {name: value for name, value in told.items() if value is not None}


def apart(claim: Claim, row: Cited) -> list[str]:
    """The conditions of the claim that the source says were others, as `sequence_length 512`."""
    told, wants = said(row), _wants(claim, row)
    found = [f"{name} {told[name]}" for name, value in wants.items() if name in told and not is_equal(told[name], value)]
    layers = told.get(LAYERED)
    every = not wants or LAYERED in wants or layers in (None, _blocks(row))
    return found if every else [*found, f"{LAYERED} {layers}"]


def left_open(claim: Claim, row: Cited, more: Iterable[str] = ()) -> tuple[str, ...]:
    """The conditions that the source does not say, in words; `more` are what else it leaves open."""
    told, wants = said(row), _wants(claim, row)
    names = [*wants, *([LAYERED] if wants and _by_layers(row) else [])]
    contradicted = {_worded(each.partition(" ")[0]) for each in apart(claim, row)}
    words = [*(_worded(name) for name in names if name not in told), *more]
    return tuple(dict.fromkeys(each for each in words if each not in contradicted))


def agree(claim: Claim, one: Cited, two: Cited) -> bool:
    """Whether two rows are the same wherever both say how they were."""
    first, second = said(one), said(two)
    return all(first[name] == second[name] for name in _wants(claim, one) if name in first and name in second)


def _wants(claim: Claim, row: Cited) -> Mapping[str, Any]:
    """What the claim wants of the row's method; nothing where it is not about that method."""
    method = method_said(row)
    return {} if method is None or (claim.methods and method not in claim.methods) else wanted(claim, method)


def _length(row: Cited) -> int | None:
    """That of the longest text of a batch, where the source counts it; a bound is what it says otherwise."""
    longest = LONGEST.search(row.notes or "")
    return int(longest.group(1)) if longest else row.seq_len


def _optimizer(row: Cited) -> str | None:
    """In its own words where no cell can declare it: paged, or of another kind."""
    text = row.optimizer
    return text if text is None or UNDECLARABLE.search(text) else optimizer_of(row)


def _dtype(text: str) -> str | None:
    return next((name for pattern, name in DTYPES if pattern.search(text)), None)


def _by_layers(row: Cited) -> bool:
    return method_said(row) in ("lora", "qlora") and stack_of(row).backend == "mlx"


def _layers(row: Cited) -> int | None:
    """On how many blocks mlx-lm put adapters: as said, else by the default of the version that is named."""
    if not _by_layers(row):
        return None
    told = LAYERS.search(row.notes or "")
    if told:
        return int(told.group(1))
    return MLX_LAYERS if "mlx-lm" in (row.framework_version or "") else None


def _blocks(row: Cited) -> Any:
    model: Model | None = model_named(row.model or "")
    return None if model is None else model.config.get("num_hidden_layers")


def _worded(name: str) -> str:
    return name.replace("_", " ")
