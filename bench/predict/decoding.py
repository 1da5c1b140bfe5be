"""Published rates of decoding against the roofline.

In: published rows of inference. Out: for each an observed and a predicted rate, or why there is none. Nothing is fitted on them:
they test the share of the bandwidth that is assumed, which training says too little of. The rows are llama.cpp's, which is no
stack of ours; it reads packed weights once a token as MLX does, so MLX's decoding is what stands for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.cited import Cited
from bench.predict.cited_machines import machine_of
from bench.predict.cited_models import model_named
from bench.predict.fractions import ASSUMED
from bench.predict.speed import tokens_per_s
from bench.spec import Cell, workload

PROMPT, GENERATED = 512, 128
"""What llama-bench measures where nothing else is asked of it (its README: `-p 512 -n 128`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """One row's rate, and what the roofline says, in tokens a second."""

    id: str
    source: str
    machine: str
    model: str
    observed: float
    predicted: float

    @property
    def error(self) -> float:
        """Signed, as a share of what was observed."""
        return self.predicted / self.observed - 1


def decoded_rows(rows: Iterable[Cited]) -> tuple[tuple[Decoded, ...], dict[str, str]]:
    """Those that can be compared, and by id why others cannot."""
    found: list[Decoded] = []
    refused: dict[str, str] = {}
    for row in rows:
        if row.method != "inference" or row.tokens_per_s is None:
            continue
        decoded = _decoded(row, row.tokens_per_s)
        if isinstance(decoded, Decoded):
            found.append(decoded)
        else:
            refused[row.id] = decoded
    return tuple(found), refused


def _decoded(row: Cited, observed: float) -> Decoded | str:
    model, machine = model_named(row.model or ""), machine_of(row.hardware or "", row.memory_gb)
    if model is None:
        return f"no architecture known here for {row.model or 'an unnamed model'}"
    if machine is None or machine.rated_flops_per_s is None or machine.memory_bytes_per_s is None:
        return "no rates are known of the machine"
    if row.quant_bits not in (4, 16):
        return f"weights in {row.quant_bits or 'unstated'} bits"
    bits = 4 if row.quant_bits == 4 else None
    work = workload(model=model, method="serve", prompt_tokens=PROMPT, generated_tokens=GENERATED, quantization_bits=bits)
    rate = tokens_per_s(Cell(work, "mlx", "metal"), machine, ASSUMED)
    if rate is None:
        return "no rates are known of the machine"
    return Decoded(id=row.id, source=row.family, machine=machine.name, model=model.name, observed=observed, predicted=rate)
