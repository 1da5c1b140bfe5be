"""Where the values of a transformers model's parameters come from: drawn at random, or read from safetensors files.

In: a model whose parameters are still on the meta device, and its cell. Out: a function that makes one parameter at a time, on
the cell's device, in the dtype of the empty one. Files are opened, read and closed again for each parameter, so that no more of
them is held than that; a parameter is copied out of the mapped file, into memory of the process's own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.backends.interface import UnsupportedError
from bench.model import norm_start
from bench.spec import Cell
from bench.weights import checkpoint_of, matched

DEFAULT_INITIALIZER_RANGE = 0.02
"""Where an architecture declares none: the value of transformers' own Llama and Qwen3 configurations."""

Values = Callable[[str, Any], Any]
"""Name and empty parameter to its values."""


def values_of(model: Any, cell: Cell) -> Values:
    """The source of the cell's weights. Raises BadFile where files lack what the model wants, or hold what it does not."""
    return _drawn(model, cell) if cell.workload.weights == "random" else _read(model, cell)


def _drawn(model: Any, cell: Cell) -> Values:
    """Normal with the architecture's `initializer_range`, norms scaling by one, biases zero, in place and from the seed."""
    import torch

    deviation = getattr(model.config, "initializer_range", DEFAULT_INITIALIZER_RANGE)
    norm = norm_start(cell.workload.model.config)
    generator = torch.Generator(device=cell.device).manual_seed(cell.workload.seed)

    def values(name: str, empty: Any) -> Any:
        made = torch.empty(empty.shape, dtype=empty.dtype, device=cell.device)
        if name.endswith("bias"):
            return made.zero_()
        return made.fill_(norm) if empty.ndim == 1 else made.normal_(0.0, deviation, generator=generator)

    return values


def _read(model: Any, cell: Cell) -> Values:
    """As the files have them, brought to the dtype of the model's parameters."""
    from safetensors import safe_open

    wanted = {name: tuple(empty.shape) for name, empty in model.named_parameters()}
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    work = cell.workload
    checkpoint = checkpoint_of(origin_of(cell), work.revision if work.weights == "folder" else None)
    places = matched(checkpoint, wanted, tied=tied)

    def values(name: str, empty: Any) -> Any:
        place = places[name]
        with safe_open(place.file, framework="pt", device="cpu") as file:
            return file.get_tensor(place.name).to(device=cell.device, dtype=empty.dtype, copy=True)

    return values


def origin_of(cell: Cell) -> Path:
    """The folder of the cell's real weights. Raises UnsupportedError where none is known."""
    if cell.workload.model.origin is None:
        raise UnsupportedError(f"no folder with weights of {cell.workload.model.name} is known")
    return Path(cell.workload.model.origin)
