"""What one would write without a harness: the same model on trl's SFTTrainer, and a stopwatch at the end of each step.

In: a cell and the number of steps, as JSON on standard input. Out: `step` and its duration in seconds, a line for each step but
the first.
"""

import json
import sys
import time
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bench.backends.hf import HuggingFace
from bench.backends.hf_build import attach_adapters, build
from bench.backends.hf_train import _optimizer, _settings, bare_tokenizer
from bench.spec import Cell


class Quiet:
    """The part of a session that building asks for."""

    max_steps = 0

    def progress(self, what: str) -> None:
        return None


def main() -> None:
    job = json.load(sys.stdin)
    cell = Cell.from_json(job["cell"])
    HuggingFace().prepare()
    from datasets import Dataset
    from transformers import PrinterCallback, TrainerCallback
    from trl import SFTTrainer

    work, steps = cell.workload, job["steps"]
    random = np.random.default_rng(0)
    rows = random.integers(3, work.model.config["vocab_size"], (steps * work.batch_size, work.sequence_length)).tolist()

    class Stopwatch(TrainerCallback):
        end_s: float | None = None

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            before_s, self.end_s = self.end_s, time.perf_counter()
            if before_s is not None:
                print("step", self.end_s - before_s, flush=True)

    model = attach_adapters(build(cell, Quiet()), work)  # type: ignore[arg-type]
    with TemporaryDirectory() as folder:
        trainer = SFTTrainer(
            model=model,
            args=_settings(cell, steps, folder),
            train_dataset=Dataset.from_dict({"input_ids": rows, "labels": rows}),
            processing_class=bare_tokenizer(),
            optimizer_cls_and_kwargs=_optimizer(cell),
            callbacks=[Stopwatch()],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()


main()
