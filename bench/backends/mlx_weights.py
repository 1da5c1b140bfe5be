"""Where the values of an mlx-lm model's parameters come from: drawn at random, or read from safetensors files.

In: a model that is still lazy, and its workload. Out: a tree of arrays, lazy too, in `weights_dtype`: nothing is drawn or read
before the array is evaluated, and what is read is let go as soon as it has its dtype.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.backends.interface import UnsupportedError
from bench.model import norm_start
from bench.spec import Workload
from bench.weights import checkpoint_of, matched

INITIALIZER_RANGE = 0.02
"""Standard deviation of random weights where the config names none: the default of transformers' `LlamaConfig`."""


def values_of(model: Any, workload: Workload) -> Any:
    """The model's parameters. Raises BadFile where files lack what the model wants, or hold what it does not."""
    return _drawn(model, workload) if workload.weights == "random" else _read(model, workload)


def _drawn(model: Any, workload: Workload) -> Any:
    """Normal with the architecture's `initializer_range`, norms scaling by one, biases zero, in the order of the tree."""
    import mlx.core as mx
    from mlx.utils import tree_map_with_path

    mx.random.seed(workload.seed)
    dtype = getattr(mx, workload.weights_dtype)
    declared = workload.model.config.get("initializer_range")
    spread = INITIALIZER_RANGE if declared is None else declared
    norm = norm_start(workload.model.config)

    def draw(path: str, value: Any) -> Any:
        if path.endswith("bias"):
            return mx.zeros(value.shape, dtype)
        if value.ndim == 1:
            return mx.full(value.shape, norm, dtype)
        return mx.random.normal(value.shape, dtype, scale=spread)

    return tree_map_with_path(draw, model.parameters())


def _read(model: Any, workload: Workload) -> Any:
    """As the files have them. mlx-lm's models share the names of transformers'; a tied one has no head of its own."""
    import mlx.core as mx
    from mlx.utils import tree_flatten, tree_unflatten

    if workload.model.origin is None:
        raise UnsupportedError(f"no folder with weights of {workload.model.name} is known")
    wanted = {name: value.shape for name, value in tree_flatten(model.parameters())}
    checkpoint = checkpoint_of(Path(workload.model.origin), workload.revision if workload.weights == "folder" else None)
    places = matched(checkpoint, wanted, tied="lm_head.weight" not in wanted)
    wide = next((place.name for place in places.values() if place.dtype == "F64"), None)
    if wide is not None:
        raise UnsupportedError(f"MLX reads no F64 tensors, such as {wide}: save the weights in 32 or 16 bits")
    files: dict[Path, Any] = {file: mx.load(str(file)) for file in sorted({place.file for place in places.values()})}
    dtype = getattr(mx, workload.weights_dtype)
    return tree_unflatten([(name, files[place.file][place.name].astype(dtype)) for name, place in places.items()])
