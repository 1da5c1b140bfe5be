"""The parts of memory, measured: one more step, untimed, under the tracker of live storages.

In: a trainer whose measured steps are over, its model and cell. Out: told to the session, what weights, adapters, gradients,
optimizer state, activations and logits had of the device's storages when most of them lived. Nothing is changed in the step but
4-bit products, which are spelled out so that the dequantised weight within them is seen; what other kernels allocate within
themselves is not. The measured steps know nothing of it: hooks are set once they are over.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from typing import Any

from bench.backends import hf_device
from bench.backends.hf_dequantise import dequantised
from bench.backends.hf_places import Where
from bench.backends.interface import PartsSession
from bench.backends.storages import Tracker
from bench.events import Counters, Parts
from bench.spec import Cell

HOW = "live storages of one step more, seen through torch's operators"
COMPILED = "torch.compile hides the storages of a step: measure without it"
REASON_CHARACTERS = 300
PARTS = ("weights", "adapters", "gradients", "optimizer", "activations", "logits")


@dataclass
class Further:
    """The step that comes after the measured ones, while the trainer's loop still runs."""

    trainer: Any
    model: Any
    cell: Cell
    session: PartsSession
    counters: Counters | None = None
    over: bool = False
    _tracker: Tracker | None = field(default=None, repr=False)

    @property
    def under_way(self) -> bool:
        return self._tracker is not None

    def begin(self) -> bool:
        """Track from here on; `counters` keeps what the device's said before. False where nothing can be tracked."""
        self.counters = hf_device.counters(self.cell.device)
        if self.cell.implementation.compile:
            self.session.parts(Parts(parts={}, how=HOW, why=COMPILED))
            self.over = True
            return False
        gc.collect()
        tracker = Tracker(self.cell.device, dequantised() if self.cell.workload.quantization_bits else {})
        where = Where(self.model, tracker)
        where.name_loaded()
        where.name_states(self.trainer.optimizer)
        tracker.start()
        where.follow_blocks()
        where.follow_trainer(self.trainer)
        self._tracker = tracker
        tracker.__enter__()
        return True

    def end(self) -> None:
        """The step is over: tell its parts."""
        tracker = self._stop()
        if tracker is not None:
            found = tracker.timeline.peak().parts
            self.session.parts(Parts(parts={part: found.get(part, 0) for part in PARTS}, how=HOW))

    def fail(self, error: Exception) -> None:
        """The step did not come to its end; the measured ones stand."""
        self._stop()
        why = " ".join(f"{type(error).__name__}: {error}".split())[:REASON_CHARACTERS]
        self.session.parts(Parts(parts={}, how=HOW, why=f"the further step failed: {why}"))

    def _stop(self) -> Tracker | None:
        tracker, self._tracker, self.over = self._tracker, None, True
        if tracker is not None:
            tracker.__exit__(None, None, None)
        return tracker
