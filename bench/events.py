"""The events by which a worker tells of a run while it runs, and their JSON form.

In: what a backend did, as values of these types; or lines of JSON. Out: JSON; or the events again, every field checked. `None`
means "not measured"; zero is a measurement.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from bench.record import Outcome, Step

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Event: the model stands in its final precision, with its adapters, ready to train.

    `load_s` runs from the start of building to here, without imports; `build_s` is its part in which the model's weights were
    made or read. `implementation` is what the backend really used.
    """

    load_s: float
    parameters: int
    trainable_parameters: int
    implementation: Mapping[str, str]
    build_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Warm:
    """Event: warm-up ended after step `warmup_steps`, seen from steps that came later; those are measured ones.

    `troubles` is empty where the rule of `bench.trust.warmup` was met; else warm-up was cut short at its ceiling, and the flags
    say what never settled.
    """

    warmup_steps: int
    troubles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What the framework's own counters say of the training phase, in bytes; None where it has no such counter.

    `compile_s` is the time that the framework's compiler took by its own account; zero where nothing was to be compiled.
    """

    framework_peak_bytes: int | None = None
    reserved_peak_bytes: int | None = None
    cache_peak_bytes: int | None = None
    compile_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Event: the worker has imported its framework. `versions` are the packages that it will use.

    `memory_limit` says by what means the worker holds itself to its limit on memory; None where it has none. `revision` says
    which real weights lie at hand, also where the cell left that to the hub; None where weights are random.
    """

    import_s: float
    versions: Mapping[str, str]
    memory_limit: str | None = None
    revision: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Event: a sign of life while nothing else is to be told, e.g. while 80 layers are being built."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Event: what each part of memory had when most was in use, in bytes; together they are that peak.

    Names are those of `bench.predict.prediction.PARTS`, and `rest` where a framework does not tell some of them apart. Empty
    where nothing can be told, for the reason `why`. `how` says in a few words how they were found.
    """

    parts: Mapping[str, int]
    how: str
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Event: the run is complete. None: the system has no such counter.

    `host_peak_bytes` is the process's peak memory in training as the system counts it, `host_base_bytes` its memory once the
    framework was imported and before anything was built.
    """

    counters: Counters
    host_peak_bytes: int | None
    host_base_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Event: the worker ends without a result, and knows why. `reason` is one line; the log holds the rest."""

    outcome: Outcome
    reason: str


Event = Started | Progress | Loaded | Step | Warm | Parts | Finished | Failed
_EVENTS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Event)}


def event_to_json(event: Event) -> dict[str, Any]:
    """The event as a JSON object whose key `event` names its kind."""
    return {"event": type(event).__name__, **asdict(event)}


def event_from_line(line: str | bytes) -> Event:
    """The event of a line of JSON, every field of its declared type. Raises ValueError for anything else."""
    try:
        content = json.loads(line)
        name = content.pop("event")
        event: Event = _adapter(name).validate_json(json.dumps(content), strict=True)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no event: {type(error).__name__}") from error
    return event


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter, with_config

    return TypeAdapter(with_config(ConfigDict(extra="forbid"))(_EVENTS[name]))
