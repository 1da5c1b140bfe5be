"""When buffers come free: what the device's queue of unfinished work still holds.

In: operation by operation, the tasks it dispatched and the buffers it used. Out: the buffers that are let go by then. MLX hands
work out ahead of its execution, and the queue holds each operation's inputs and scratch until that has run (`eval` of
mlx/backend/cpu/eval.cpp and mlx/backend/metal/eval.cpp). It waits once more than `MAX_ACTIVE_TASKS` parcels of work are
unfinished (mlx/transforms.cpp, `eval_impl`).

Work outlasts its preparation by far in models of any size, so the queue is taken to be full: of what it holds, nothing finishes
before MLX waits for it. `AtOnce` is the other end: work that finishes as soon as it is handed out.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from bench.predict.mlx_graph import Operation

MAX_ACTIVE_TASKS = 10
"""mlx/transforms.cpp."""
DISPATCHES_PER_TASK = 10
"""mlx/backend/cpu/encoder.h."""
OPS_PER_COMMAND_BUFFER, MI_ELEMENTS_PER_COMMAND_BUFFER = 50, 50
"""`MLX_MAX_OPS_PER_BUFFER` and `MLX_MAX_MB_PER_BUFFER` where the environment is silent, of a Max or Ultra (mlx/backend/metal/
device.cpp; 40 and 40 on a base or Pro). The second counts elements, not bytes, of the distinct buffers used
(`CommandEncoder::set_input_array`)."""

Holds = list[Any]


class Queue(Protocol):
    """A device's queue."""

    def ran(self, operation: Operation, dispatches: int, holds: Holds) -> Holds:
        """Take in one operation; give the buffers that are let go, one entry for each hold."""


class AtOnce:
    """Everything has run by the time the next operation is prepared."""

    def ran(self, operation: Operation, dispatches: int, holds: Holds) -> Holds:
        return holds


class CpuQueue:
    """Ten dispatches make a task.

    `ahead` is how many tasks may be unfinished: 0 where MLX's memory limit is exceeded throughout.
    """

    def __init__(self, ahead: int = MAX_ACTIVE_TASKS) -> None:
        self._ahead = ahead
        self._open: Holds = []
        self._dispatched = 0
        self._tasks: deque[Holds] = deque()

    def ran(self, operation: Operation, dispatches: int, holds: Holds) -> Holds:
        for _ in range(dispatches):
            self._dispatch([])
        self._dispatch(holds)
        done: Holds = []
        while len(self._tasks) > self._ahead:
            done += self._tasks.popleft()
        return done

    def _dispatch(self, holds: Holds) -> None:
        self._open += holds
        self._dispatched += 1
        if self._dispatched % DISPATCHES_PER_TASK == 0:
            self._tasks.append(self._open)
            self._open = []


class MetalQueue:
    """A command buffer is committed once it holds more than 50 kernels or has touched more than 50 Mi elements."""

    def __init__(self, ahead: int = MAX_ACTIVE_TASKS) -> None:
        self._ahead = ahead
        self._committed: deque[Holds] = deque()
        self._begin()

    def _begin(self) -> None:
        self._open: Holds = []
        self._kernels, self._elements = 0, 0
        self._touched = set[int]()

    def ran(self, operation: Operation, dispatches: int, holds: Holds) -> Holds:
        self._open += holds
        if dispatches:
            self._kernels += dispatches
            self._touch(operation)
        if self._kernels > OPS_PER_COMMAND_BUFFER or self._elements >> 20 > MI_ELEMENTS_PER_COMMAND_BUFFER:
            self._committed.append(self._open)
            self._begin()
        done: Holds = []
        while len(self._committed) > self._ahead:
            done += self._committed.popleft()
        return done

    def _touch(self, operation: Operation) -> None:
        for array in [*operation.inputs, *operation.outputs]:
            if not array.is_constant and id(array.buffer) not in self._touched:
                self._touched.add(id(array.buffer))
                self._elements += array.layout.data_size
