"""A child of the slow unsloth tests: unsloth by one of the ways that need no GPU, beside the same work done without it.

In: `cpu` (its fallback on stock transformers) or `mlx` (its trainer for Apple silicon, on MLX's CPU) as the argument, cells as
JSON on standard input. Out: one JSON document a cell, on the last lines of standard output.

unsloth patches its libraries for good, hence a process of its own for each way. For `mlx` it must find a Mac: the platform's
names are changed for it, once what asks for them truly is imported.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib import import_module
from typing import Any

from bench.backends.unsloth import ENVIRONMENT
from bench.data import Batches
from bench.spec import Cell

STEPS = 16
ASK_THE_PLATFORM = (
    "multiprocessing",
    "subprocess",
    "uuid",
    "ctypes.util",
    "torch",
    "transformers",
    "datasets",
    "mlx_lm.tuner.trainer",
)


class Listener:
    """A session that keeps what it is told."""

    max_steps = STEPS

    def __init__(self) -> None:
        self.told: dict[str, Any] = {"losses": [], "tokens": [], "loss_tokens": [], "digests": []}

    def progress(self, what: str) -> None:
        self.told["progress"] = what

    def loaded(self, loaded: Any) -> None:
        self.told |= {"parameters": loaded.parameters, "trainable": loaded.trainable_parameters}
        self.told["implementation"] = dict(loaded.implementation)

    def step(self, seen: Any) -> bool:
        self.told["losses"].append(seen.loss)
        self.told["tokens"].append(seen.tokens)
        self.told["loss_tokens"].append(seen.loss_tokens)
        self.told["digests"].append(seen.tokens_digest)
        return True


def batches_of(cell: Cell) -> Batches:
    """One optimizer step's micro-batches, again and again, to be learnt by heart."""
    work = cell.workload
    return Batches(
        work.model.config["vocab_size"], work.batch_size, work.sequence_length, work.seed, repeat_every=work.gradient_accumulation
    )


def by_torch(cell: Cell) -> list[float]:
    """The losses of the same work in plain torch: the model and adapters of `hf_build`, its own loss and a loop of five lines."""
    import torch

    from bench.backends import hf_build

    work, batches = cell.workload, batches_of(cell)
    model = hf_build.attach_adapters(hf_build.build(cell, Listener()), work)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=work.learning_rate, weight_decay=0.0)
    model.train()
    losses = []
    for _ in range(STEPS):
        step_loss = 0.0
        for index in range(work.gradient_accumulation):
            ids = torch.from_numpy(batches.ids(index))
            loss = model(input_ids=ids, labels=ids).loss / work.gradient_accumulation
            loss.backward()
            step_loss += loss.item()
        losses.append(step_loss)
        optimizer.step()
        optimizer.zero_grad()
    return losses


def cpu(cell: Cell) -> dict[str, Any]:
    """By unsloth's CPU path and, from the same weights and adapters, by plain torch."""
    from bench.backends import unsloth_cuda

    listener = Listener()
    unsloth_cuda.run(cell, batches_of(cell), listener)
    return listener.told | {"reference": by_torch(cell)}


def mlx(cell: Cell) -> dict[str, Any]:
    """By unsloth's MLX trainer and, from the same weights and adapters, by mlx-lm's."""
    from bench.backends import mlx_build, mlx_train, unsloth_apple

    plain, listener, reference = mlx_build.build(cell, Listener()), Listener(), Listener()
    mlx_build.attach_adapters(plain, cell.workload)
    drawn = {path: adapter["lora_a"] for path, adapter in mlx_build.adapters(plain)}
    attach = unsloth_apple.attach_adapters

    def same_adapters(model: Any, work: Any) -> None:
        attach(model, work)
        for path, adapter in mlx_build.adapters(model):
            adapter["lora_a"] = drawn[path]

    unsloth_apple.attach_adapters = same_adapters
    try:
        unsloth_apple.run(cell, batches_of(cell), listener)
    finally:
        unsloth_apple.attach_adapters = attach
    mlx_train.train(plain, cell, batches_of(cell), reference)
    return listener.told | {"reference": reference.told["losses"]}


def main() -> None:
    way = sys.argv[1]
    os.environ.update({name: value for name, value in ENVIRONMENT.items() if name != "UNSLOTH_DISABLE_CPU_FALLBACK"})
    os.environ["MLX_DISABLE_COMPILE"] = "1"
    if way == "mlx":
        for name in ASK_THE_PLATFORM:
            import_module(name)
        platform.system, platform.machine = (lambda: "Darwin"), (lambda: "arm64")
    import_module("unsloth")
    import_module("torch").set_num_threads(1)
    told = []
    for line in json.load(sys.stdin):
        cell = Cell.from_json(line)
        expected = batches_of(cell).digest(0, cell.workload.gradient_accumulation)
        told.append({"cpu": cpu, "mlx": mlx}[way](cell) | {"expected_digest": expected})
    print("\n" + "\n".join(json.dumps(each) for each in told))


if __name__ == "__main__":
    main()
