"""The hf backend's own step under the tracker: built, adapted and trained by the same functions, on fake tensors or real ones.

In: a cell, and the device that it should be as on. Out: the `Timeline` of two optimizer steps, and where the model's blocks were
in it. The trainer is trl's, as `hf_train` makes it, and its loop runs unmodified; only the batches are handed to it directly.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any

from bench.backends import hf_build, hf_train
from bench.backends.hf_attention import held_to
from bench.backends.hf_dequantise import dequantised
from bench.backends.hf_places import watch
from bench.backends.interface import UnsupportedError
from bench.backends.storages import Tracker
from bench.backends.timeline import Timeline
from bench.data import Batches
from bench.events import Loaded
from bench.predict.trace_cuda import as_on_cuda, workspaces
from bench.predict.trace_fake import answers, fake_values, made_traceable
from bench.spec import Cell, Device

STEPS = 2
"""The second has the optimizer's state from its start, so it has the peak."""
MICRO_BATCHES = 2
"""From the second on, every micro-batch finds gradients to add to, and is like any other."""


@dataclass(frozen=True, slots=True)
class _Silent:
    """A session that nobody listens to."""

    max_steps: int = STEPS

    def progress(self, what: str) -> None: ...
    def loaded(self, loaded: Loaded) -> None: ...
    def step(self, seen: Any) -> bool:
        return True

    def request(self, seen: Any) -> bool:
        return True


def fake_step(cell: Cell, as_on: Device) -> Timeline:
    """Two steps without memory or values. `as_on`: `cuda` or `cpu`. Raises UnsupportedError for what cannot be traced."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    cell = _traced_on_cpu(cell, as_on)
    special = {**answers(), **dequantised(), **(workspaces() if as_on == "cuda" else {})}
    with made_traceable(), as_on_cuda() if as_on == "cuda" else held_to(cell.implementation.attention):
        return _trained(cell, Tracker("cpu", special), mode)


def real_step(cell: Cell) -> Timeline:
    """The same two steps for real, on the CPU: what the fake ones are compared with."""
    with held_to(cell.implementation.attention):
        return _trained(cell, Tracker("cpu", dequantised()), None)


def _traced_on_cpu(cell: Cell, as_on: Device) -> Cell:
    """The cell as it can be traced: on the CPU, with the kernel that the optimizer would take on the device."""
    asked = cell.implementation
    for refused, what in (
        (as_on not in ("cuda", "cpu"), f"as on {as_on}"),
        (bool(asked.compile), "with torch.compile"),
        (asked.kernels is not None, f"with {asked.kernels}'s kernels"),
        (cell.workload.serves, "of serving"),
        (cell.workload.master_dtype is not None and cell.workload.weights_dtype == "float16", "with autocast to float16"),
        (cell.workload.optimizer == "adamw_8bit" and as_on == "cpu", "with an 8-bit optimizer on the CPU"),
    ):
        if refused:
            raise UnsupportedError(f"a step {what} cannot be traced: predict it by the rules")
    kernel = asked.optimizer_kernel
    if as_on == "cuda" and cell.workload.optimizer != "adamw_8bit":
        kernel = kernel or "foreach"
    attention = "sdpa" if asked.attention in ("flash", "flash-attn") and as_on == "cuda" else asked.attention
    work = replace(cell.workload, gradient_accumulation=min(MICRO_BATCHES, cell.workload.gradient_accumulation))
    return replace(cell, workload=work, device="cpu", implementation=replace(asked, optimizer_kernel=kernel, attention=attention))


def _trained(cell: Cell, tracker: Tracker, mode: Any) -> Timeline:
    """Build, then two steps. `mode` is the fake mode, or None for real tensors."""
    session, faked = _Silent(), mode or nullcontext()
    with TemporaryDirectory(prefix="wingspan-trace-") as folder, tracker:
        base = hf_build.build(cell, session, None if mode is None else fake_values(mode))
        with faked:
            model = hf_build.attach_adapters(base, cell.workload)
        batches = Batches(cell.workload.model.config["vocab_size"], cell.workload.batch_size, cell.workload.sequence_length)
        trainer = hf_train._trainer(model, cell, batches, STEPS, folder)
        loader = _loader(trainer, cell, batches, mode)
        for each in (tensor for batch in loader for tensor in batch.values()):
            tracker.see(each)
        trainer.get_train_dataloader = lambda: loader
        watch(trainer, model, tracker)
        with faked:
            trainer.train()
    return tracker.timeline


def _loader(trainer: Any, cell: Cell, batches: Batches, mode: Any) -> list[dict[str, Any]]:
    """The micro-batches as trl's own collator makes them."""
    made = []
    for index in range(STEPS * cell.workload.gradient_accumulation):
        batch = trainer.data_collator([{"input_ids": row, "labels": row} for row in batches.ids(index)])
        made.append({name: each if mode is None else mode.from_tensor(each) for name, each in batch.items()})
    return made
