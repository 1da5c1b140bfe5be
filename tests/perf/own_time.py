"""How long the harness's own code takes within a step: the worker as it is, with a stopwatch around what a bare script lacks.

In: a job as the worker takes it, on standard input. Out: seconds by the harness per measured step, and the median step, as the
last line. Counted are the session (checks, events, memory, CPU time) and the digest of the tokens, in which for mlx the making of
the batch is included, which a bare script does too: so this is an upper bound.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.backends import hf_watch, mlx_feed
from bench.events import Event
from bench.record import Step
from bench.session import TrainingSession
from bench.spec import Cell, Measure
from bench.worker import work

spent_s = 0.0
ends: list[tuple[float, float]] = []


def timed(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: Any, **named: Any) -> Any:
        global spent_s  # noqa: PLW0603  # one account for all that is timed
        began_s = time.perf_counter()
        try:
            return function(*given, **named)
        finally:
            spent_s += time.perf_counter() - began_s

    return call


def timed_batches(generate: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    def call(*given: Any, **named: Any) -> Iterator[Any]:
        batches = generate(*given, **named)
        while True:
            yield timed(next)(batches)

    return call


def emit(event: Event) -> None:
    """As into the pipe: an event becomes a line of JSON and leaves the process."""
    from bench.events import event_to_json

    print(json.dumps(event_to_json(event)), file=sys.stderr, flush=True)
    if isinstance(event, Step):
        ends.append((spent_s, event.duration_s))


def main() -> None:
    job = json.load(sys.stdin)
    measure = Measure(**job["measure"])
    hf_watch._account = timed(hf_watch._account)
    mlx_feed.Feed.__call__ = timed_batches(mlx_feed.Feed.__call__)  # type: ignore[method-assign]
    TrainingSession.step = timed(TrainingSession.step)  # type: ignore[method-assign]
    work(Cell.from_json(job["cell"]), measure, emit)
    first = measure.warmup_steps
    own_s = (ends[-1][0] - ends[first][0]) / (len(ends) - 1 - first)
    print(json.dumps({"own_s": own_s, "step_s": statistics.median(step_s for _, step_s in ends[first:])}))


main()
