"""The child: one cell, one backend, one process.

In: a job as JSON on standard input, and the number of a pipe as the only argument. Out: events, one JSON object a line, on
that pipe. Standard output and error stay free for the framework; the parent keeps them in a log.

    {"cell": Cell.to_json(), "measure": {...}}   ->   Started, Progress…, Loaded, Step…, Warm, Step…, Finished | Failed
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import time
import traceback
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from bench.backends.interface import Backend, UnsupportedError, load_backend
from bench.data import Batches
from bench.reading.strict import printable
from bench.record import Event, Failed, Finished, Outcome, Started, event_to_json
from bench.session import Emit, TrainingSession, WrongTokens
from bench.spec import Cell, Measure

REASON_CHARACTERS = 500


def work(cell: Cell, measure: Measure, emit: Emit) -> None:
    """Run the cell and emit its events; the last is `Finished` or `Failed`."""
    backend = load_backend(cell.backend)
    try:
        began_s = time.perf_counter()
        backend.prepare()
        emit(Started(import_s=time.perf_counter() - began_s, versions=_versions(backend)))
        session = TrainingSession(cell, measure, _batches(cell), emit)
        base_bytes = session.memory.present_bytes()
        counters = backend.run(cell, session.batches, session)
        emit(Finished(counters=counters, host_peak_bytes=session.memory.peak_bytes(), host_base_bytes=base_bytes))
    except Exception as error:  # every failure is a row with its class: here it gets one
        traceback.print_exc()
        emit(_failed(backend, error))


def _batches(cell: Cell) -> Batches:
    work_ = cell.workload
    return Batches(work_.model.config["vocab_size"], work_.batch_size, work_.sequence_length, work_.seed)


def _versions(backend: Backend) -> dict[str, str]:
    found = {}
    for name in backend.distributions:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _failed(backend: Backend, error: Exception) -> Failed:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return Failed(outcome=_outcome_of(backend, error), reason=printable(text)[:REASON_CHARACTERS])


def _outcome_of(backend: Backend, error: Exception) -> Outcome:
    match error:
        case WrongTokens():
            return "invalid"
        case UnsupportedError():
            return "unsupported"
        case MemoryError():
            return "oom_host"
        case _:
            return backend.fault(error) or "crashed"


def _pipe(descriptor: int) -> Emit:
    """An emitter that writes lines to the parent's pipe, and keeps that pipe from every process started below this one."""
    os.set_inheritable(descriptor, False)
    stream = os.fdopen(descriptor, "w", encoding="utf-8")

    def emit(event: Event) -> None:
        stream.write(json.dumps(event_to_json(event), separators=(",", ":")) + "\n")
        stream.flush()

    return emit


def _end_with_parent(descriptor: int) -> None:
    """End this process as soon as nobody reads its events: a hung orphan would hold the machine for good.

    The thread sleeps in poll(2), which always reports an error or hang-up on a pipe whose reader is gone.
    """
    waiting = select.poll()
    waiting.register(descriptor, 0)
    waiting.poll()
    os._exit(1)


def main() -> None:
    """Read the job, do it. A parent that is gone ends this process too."""
    descriptor = int(sys.argv[1])
    emit = _pipe(descriptor)
    threading.Thread(target=_end_with_parent, args=(descriptor,), daemon=True).start()
    job: dict[str, Any] = json.load(sys.stdin)
    try:
        work(Cell.from_json(job["cell"]), Measure(**job["measure"]), emit)
    except BrokenPipeError:
        os._exit(1)


if __name__ == "__main__":
    main()
