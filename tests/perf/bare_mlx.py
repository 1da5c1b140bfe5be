"""What one would write without a harness: the same model on mlx-lm's `train`, and a stopwatch at the end of each step.

In: a cell and the number of steps, as JSON on standard input. Out: `step` and its duration in seconds, a line for each step but
the first.
"""

import json
import sys
import time
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bench.backends import mlx_build
from bench.backends.mlx import Mlx, _choose_device
from bench.backends.mlx_train import compiling, make_optimizer
from bench.spec import Cell


class Quiet:
    """The part of a session that building asks for."""

    max_steps = 0

    def progress(self, what: str) -> None:
        return None


class Stopwatch:
    """mlx-lm's `training_callback`."""

    def __init__(self) -> None:
        self._end_s: float | None = None

    def on_train_loss_report(self, train_info: dict[str, Any]) -> None:
        before_s, self._end_s = self._end_s, time.perf_counter()
        if before_s is not None:
            print("step", self._end_s - before_s, flush=True)


def main() -> None:
    job = json.load(sys.stdin)
    cell = Cell.from_json(job["cell"])
    Mlx().prepare()
    _choose_device(cell.device)
    from mlx_lm.tuner.trainer import TrainingArgs, train

    work, steps = cell.workload, job["steps"]
    random = np.random.default_rng(0)
    length = work.sequence_length
    rows = random.integers(3, work.model.config["vocab_size"], (steps * work.batch_size, length + 1)).tolist()
    model = mlx_build.build(cell, Quiet())  # type: ignore[arg-type]
    mlx_build.attach_adapters(model, work)
    with TemporaryDirectory() as folder, compiling(cell.implementation.compile):
        args = TrainingArgs(
            batch_size=work.batch_size,
            iters=steps,
            steps_per_report=1,
            steps_per_eval=10**9,
            steps_per_save=10**9,
            max_seq_length=length + 1,
            grad_checkpoint=work.gradient_checkpointing,
            adapter_file=f"{folder}/adapters.safetensors",
        )
        train(model, make_optimizer(work), [(row, 0) for row in rows], None, args, training_callback=Stopwatch())


main()
