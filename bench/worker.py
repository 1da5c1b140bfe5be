"""The child: one cell, one backend, one process.

In: a job as JSON on standard input, and the number of a pipe as the only argument. Out: events, one JSON object a line, on
that pipe. Standard output and error stay free for the framework; the parent keeps them in a log.

    {"cell": Cell.to_json(), "measure": {...}, "capacity_bytes": int | None, "parts": bool}
        ->   Started, Progress…, Loaded, Step…, Warm, Step…, [Parts,] Finished | Failed
"""

from __future__ import annotations

import errno
import json
import os
import select
import sys
import threading
import time
import traceback
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from bench.accounting import Accounted
from bench.backends.faults import remedy
from bench.backends.hub import at_hand
from bench.backends.interface import Backend, Held, OverLimit, Session, UnsupportedError, load_backend
from bench.data import Batches
from bench.events import Event, Failed, Finished, Progress, Started, event_to_json
from bench.reading.strict import printable
from bench.record import Outcome
from bench.session import Asking, Emit, TrainingSession, WrongTokens
from bench.spec import BadInput, Cell, Measure

REASON_CHARACTERS = 500


def work(cell: Cell, measure: Measure, emit: Emit, capacity_bytes: int | None = None, *, parts: bool = False) -> None:
    """Run the cell and emit its events; the last is `Finished` or `Failed`.

    `capacity_bytes` is the most memory that the run may have; None: whatever there is. `parts` asks for the parts of memory too.
    """
    backend = load_backend(cell.backend)
    try:
        cell = at_hand(cell, lambda what: emit(Progress(what=what)))
        began_s = time.perf_counter()
        backend.prepare()
        import_s = time.perf_counter() - began_s
        held = None if capacity_bytes is None else backend.limit_memory(cell.device, capacity_bytes)
        means, revision = held.means if held else None, cell.workload.revision
        emit(Started(import_s=import_s, versions=_versions(backend), memory_limit=means, revision=revision))
        session = TrainingSession(cell, measure, _batches(cell), emit)
        base_bytes = session.memory.present_bytes()
        watched = _accounted(session, held, capacity_bytes)
        asking = Asking(watched, emit) if parts else None
        counters = backend.run(cell, session.batches, asking or watched)
        if asking:
            asking.finish()
        emit(Finished(counters=counters, host_peak_bytes=session.memory.peak_bytes(), host_base_bytes=base_bytes))
    except Exception as error:  # every failure is a row with its class: here it gets one
        traceback.print_exc()
        emit(_failed(backend, error))


def _accounted(session: Session, held: Held | None, capacity_bytes: int | None) -> Session:
    """The session, watched over where the limit is kept by nothing but accounting."""
    if held is None or held.means != "accounting" or capacity_bytes is None:
        return session
    return Accounted(session, capacity_bytes, held.peak_bytes)


def _batches(cell: Cell) -> Batches:
    """What the backend trains on, or is asked: sequences of a training, prompts of requests."""
    work_ = cell.workload
    length = work_.prompt_tokens if work_.serves and work_.prompt_tokens else work_.sequence_length
    return Batches(work_.model.config["vocab_size"], work_.batch_size, length, work_.seed)


def _versions(backend: Backend) -> dict[str, str]:
    found = {}
    for name in backend.distributions:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _failed(backend: Backend, error: Exception) -> Failed:
    text = printable(" ".join(f"{type(error).__name__}: {error}".split()))
    outcome = _outcome_of(backend, error)
    advice = remedy(text) if outcome == "crashed" else None
    end = f"; {advice}" if advice else ""
    return Failed(outcome=outcome, reason=text[: REASON_CHARACTERS - len(end)] + end)


def _outcome_of(backend: Backend, error: Exception) -> Outcome:
    match error:
        case WrongTokens():
            return "invalid"
        case UnsupportedError() | BadInput():  # the second: files of weights that are not as they were when the suite was read
            return "unsupported"
        case OverLimit():
            return "over_limit"
        case MemoryError():
            return "oom_host"
        case OSError(errno=errno.ENOMEM):
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
        cell, measure, capacity_bytes = Cell.from_json(job["cell"]), Measure(**job["measure"]), job.get("capacity_bytes")
        work(cell, measure, emit, capacity_bytes, parts=job.get("parts", False))
    except BrokenPipeError:
        os._exit(1)


if __name__ == "__main__":
    main()
