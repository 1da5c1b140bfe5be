"""Cells for the mlx predictor's tests, and what such a cell really takes: mlx's backend run in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from bench.model import model_from_config
from bench.spec import Cell, Implementation, workload

BASE: dict[str, Any] = {
    "model_type": "llama",
    "tie_word_embeddings": False,
    "head_dim": 32,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "intermediate_size": 704,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-5,
    "vocab_size": 4096,
    "rope_theta": 5e5,
    "max_position_embeddings": 2048,
}
"""Large enough that MLX hands work out faster than the CPU does it: only then are its peaks the same from run to run."""


def cell_of(
    config: dict[str, Any] | None = None, device: Any = "cpu", how: Implementation | None = None, **declared: Any
) -> Cell:
    model = model_from_config("tiny", {**BASE, **(config or {})})
    return Cell(workload(model=model, **declared), "mlx", device, how or Implementation())


def measured_peak_bytes(cell: Cell, *, steps: int = 4, synchronous: bool = False) -> int:
    """`mx.get_peak_memory` over some steps of the real backend, compiled, in a fresh process.

    `synchronous`: the least that a step takes once the first is over, with MLX's memory limit at one byte, so that it waits for
    unfinished work wherever it can. Not the most: a worker's thread says that a task is done before it lets go of what the task
    held, and on a busy machine one step or another has one array more (seen: 720,896 bytes, of 24.6 MB).
    """
    environment = {name: value for name, value in os.environ.items() if name != "MLX_DISABLE_COMPILE"}
    command = [sys.executable, __file__, json.dumps(cell.to_json()), str(steps), str(int(synchronous))]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=True)
    return int(answer.stdout.splitlines()[-1])


class _Watched:
    """A session that only counts its steps."""

    def __init__(self, steps: int) -> None:
        self.max_steps = steps

    def progress(self, what: str) -> None: ...

    def loaded(self, loaded: Any) -> None: ...

    def step(self, seen: Any) -> bool:
        return True

    def request(self, seen: Any) -> bool:
        return True


class _EachStep(_Watched):
    """A session that takes down the peak of every step by itself."""

    def __init__(self, steps: int) -> None:
        super().__init__(steps)
        self.peaks_bytes: list[int] = []

    def step(self, seen: Any) -> bool:
        import mlx.core as mx

        self.peaks_bytes.append(mx.get_peak_memory())
        mx.reset_peak_memory()
        return True


def _main(told: str, steps: int, synchronous: bool) -> None:
    import mlx.core as mx

    from bench.backends.mlx import Mlx
    from bench.data import Batches

    cell = Cell.from_json(json.loads(told))
    work = cell.workload
    length = work.prompt_tokens if work.serves else work.sequence_length
    batches = Batches(work.model.config["vocab_size"], work.batch_size, length or 0, work.seed)
    if synchronous:
        mx.set_memory_limit(1)
        each = _EachStep(steps)
        Mlx().run(cell, batches, each)
        print(min(each.peaks_bytes[1:]))
    else:
        print(Mlx().run(cell, batches, _Watched(steps)).framework_peak_bytes)


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1")
