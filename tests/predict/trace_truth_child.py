"""Trainings through the real hf backend in a process whose native heap is counted: the other side of `test_trace_truth.py`.

In: sizes, methods and settings of checkpointing on the command line, `memhook.so` preloaded. Out: for each, a line of JSON with
the bytes that malloc gave, above those before the model was built. Nothing of the tracer takes part, unless the word `parts`
comes first: then the run ends with the further step of `run --parts`, and the line has what that step told, too.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys

from memory_truth_child import Measured
from trace_cells import cell_of, tiny

from bench.backends.interface import SeenStep, load_backend
from bench.data import Batches
from bench.events import Parts
from bench.spec import Cell


class Silent(Measured):
    """As the worker's: the peak starts anew when the model is loaded."""

    def look(self, moment: str) -> None:
        pass


class Curious(Silent):
    """Asks for the parts, and counts malloc's peak in the further step alone."""

    def step(self, seen: SeenStep) -> bool:
        ctypes.CDLL(None).memhook_reset_peak()
        return True

    def request(self, seen: object) -> bool:
        return True

    def parts(self, parts: Parts) -> None:
        assert parts.why is None, parts.why
        self.seen["parts"] = sum(parts.parts.values())
        self.seen["heap_peak"] = heap("peak_bytes")


def main(*asked: str) -> None:
    """Each in a fork of one process that has imported the stack and computed nothing yet."""
    kind = Curious if asked[0] == "parts" else Silent
    backend = load_backend("hf")
    backend.prepare()
    for each in asked[kind is Curious :]:
        size, method, checkpointing = each.split(",")
        child = os.fork()
        if not child:
            found = given_bytes(backend, cell_of(size, method, checkpointing == "on"), kind)
            print(json.dumps({"cell": each, **found}), flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(f"{each}: the child ended with status {status}")


def given_bytes(backend: object, cell: Cell, kind: type[Silent]) -> dict[str, int]:
    """The most that malloc had given while training. A tiny training before brings in what is loaded once: kernels, threads."""
    run(backend, tiny(cell.workload.method, checkpointing=cell.workload.gradient_checkpointing), kind())
    before, session = heap("live_bytes"), kind()
    run(backend, cell, session)
    if "parts" not in session.seen:
        return {"bytes": heap("peak_bytes") - before}
    return {"bytes": session.seen["heap_peak"] - before, "parts_bytes": session.seen["parts"]}


def run(backend: object, cell: Cell, session: Silent) -> None:
    work = cell.workload
    batches = Batches(work.model.config["vocab_size"], work.batch_size, work.sequence_length)
    backend.run(cell, batches, session)


def heap(name: str) -> int:
    function = getattr(ctypes.CDLL(None), f"memhook_{name}")
    function.restype = ctypes.c_longlong
    return int(function())


if __name__ == "__main__":
    main(*sys.argv[1:])
