"""Where in a step the tracker is: phases from trl's trainer, blocks from the model, parts from what each tensor is.

In: a trainer that stands ready, its model and a tracker. Out: nothing; while the trainer trains, the tracker is told. The hooks
only look on: they make no tensors and keep none.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable
from typing import Any

from bench.backends.storages import Tracker
from bench.backends.timeline import Place

BLOCK = re.compile(r"\.layers\.(\d+)\.")
"""Where the name of a parameter says its block, in transformers' decoder-only models."""


def watch(trainer: Any, model: Any, tracker: Tracker) -> None:
    """From the start of training on, tell the tracker places and parts."""
    where = Where(model, tracker)
    where.follow_blocks()
    where.follow_trainer(trainer)


class Where:
    """The phase that holds now, and the hooks that change it."""

    def __init__(self, model: Any, tracker: Tracker) -> None:
        self._model = model
        self._tracker = tracker
        self._phase = "forward"

    def follow_trainer(self, trainer: Any) -> None:
        """Forward from each loss on, backward until it returns, then the optimizer, which the norm of the gradients is part of.

        Parts are named once they are known: gradients after backward, the optimizer's state after its step.
        """
        from transformers import TrainerCallback

        compute_loss, backward = trainer.compute_loss, trainer.accelerator.backward

        def forward_begins(*args: Any, **kwargs: Any) -> Any:
            self._enter("forward", None)
            return compute_loss(*args, **kwargs)

        def backward_begins(*args: Any, **kwargs: Any) -> None:
            self._enter("backward", None, "logits")
            backward(*args, **kwargs)
            self._backward_ended(trainer.optimizer)

        def on_train_begin(args: Any, state: Any, control: Any, **_: Any) -> None:
            gc.collect()
            self.name_loaded()
            self._tracker.start()

        def on_optimizer_step(args: Any, state: Any, control: Any, **_: Any) -> None:
            self.name_states(trainer.optimizer)

        trainer.compute_loss, trainer.accelerator.backward = forward_begins, backward_begins
        callback = TrainerCallback()
        callback.on_train_begin, callback.on_optimizer_step = on_train_begin, on_optimizer_step
        trainer.add_callback(callback)

    def name_loaded(self) -> None:
        """What is there before the first step: weights, with the scales of 4-bit ones, buffers and adapters."""
        for name, parameter in self._model.named_parameters():
            part = "adapters" if ".lora_" in name else "weights"
            for tensor in (parameter, *_scales(getattr(parameter, "quant_state", None))):
                self._tracker.name(part, tensor, block_of(name))
        for name, buffer in self._model.named_buffers():
            self._tracker.name("weights", buffer, block_of(name))

    def name_states(self, optimizer: Any) -> None:
        """The optimizer's state so far."""
        from torch import Tensor

        blocks = self._blocks()
        for parameter, state in optimizer.state.items():
            for each in state.values():
                if isinstance(each, Tensor):
                    self._tracker.name("optimizer", each, blocks.get(id(parameter)))

    def _backward_ended(self, optimizer: Any) -> None:
        """Operators of the optimizer take all parameters at once, or a group's."""
        blocks = self._blocks()
        groups = [group["params"] for group in optimizer.param_groups]
        trained = [each for each in self._model.parameters() if each.requires_grad]
        self._phase = "optimizer"
        self._tracker.enter(Place("optimizer"), None, [[blocks.get(id(each)) for each in group] for group in (*groups, trained)])
        for each in trained:
            if each.grad is not None:
                self._tracker.name("gradients", each.grad, blocks.get(id(each)))

    def _blocks(self) -> dict[int, int | None]:
        return {id(parameter): block_of(name) for name, parameter in self._model.named_parameters()}

    def follow_blocks(self) -> None:
        """A block is at work from its start to the next one's, in backward from when its output's gradient is known.

        With checkpointing it starts again in backward. What follows the blocks is the head's, until the gradient comes back.
        """
        backbone = base_of(self._model).base_model
        for index, block in enumerate(backbone.layers):
            block.register_forward_pre_hook(self._entering(index))
            block.register_forward_hook(self._leaving(index))
        backbone.register_forward_hook(self._ending)

    def _enter(self, phase: str, block: int | None, part: str | None = None) -> None:
        self._phase = phase
        self._tracker.enter(Place(phase, block), part)

    def _entering(self, block: int) -> Any:
        return lambda module, args: self._enter(self._phase, block)

    def _leaving(self, block: int | None) -> Any:
        def left(module: Any, args: Any, made: Any) -> None:
            output = made[0] if isinstance(made, tuple) else made
            if output.requires_grad:
                output.register_hook(lambda gradient: self._enter(self._phase, block))

        return left

    def _ending(self, module: Any, args: Any, made: Any) -> None:
        self._leaving(None)(module, args, made.last_hidden_state)
        self._enter(self._phase, None, "logits")


def base_of(model: Any) -> Any:
    """The transformers model within peft's, or the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def block_of(name: str) -> int | None:
    """The index of the block that a parameter of this name is in."""
    found = BLOCK.search(name)
    return int(found[1]) if found else None


def _scales(state: Any) -> Iterable[Any]:
    from torch import Tensor

    if state is None:
        return
    yield from (each for each in (state.absmax, state.code, state.offset) if isinstance(each, Tensor))
    yield from _scales(state.state2)
