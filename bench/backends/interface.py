"""The door to every training stack.

In: a cell, its token batches and a session. Out: a trained model's steps and peaks, told to the session as they happen. A
backend's module imports its framework inside functions only, so that planning, and `wingspan doctor`, cost nothing.

To add a backend: one file with a class that satisfies `Backend`, and one row in `BACKENDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, runtime_checkable

from bench.data import Batches
from bench.events import Counters, Loaded, Parts
from bench.record import Outcome
from bench.spec import BackendName, Cell, Device


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenStep:
    """One optimizer step as the backend saw it; fields as in `bench.record.Step`. The worker adds the phase."""

    step: int
    start_s: float
    duration_s: float
    tokens: int
    loss_tokens: int
    loss: float | None
    framework_peak_bytes: int | None
    tokens_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRequest:
    """One batch of requests as the backend served it, counted from 1.

    `prefill_s` runs from the synchronised start to the moment at which the first token of every sequence is known on the host,
    `decode_s` from there to the last. `prompt_tokens` and `generated_tokens` are totals over the batch; of those generated, the
    first of each sequence came with the prefill. `tokens_digest` is taken over the prompts as the framework received them.
    """

    number: int
    start_s: float
    prefill_s: float
    decode_s: float
    prompt_tokens: int
    generated_tokens: int
    framework_peak_bytes: int | None
    tokens_digest: str


class UnsupportedError(ValueError):
    """What a backend cannot do, found only once its framework is there; the outcome is `unsupported`, the message its reason."""


class OverLimit(RuntimeError):
    """More memory than the run may have, found by counting; the outcome is `over_limit`, the message its reason."""


@dataclass(frozen=True, slots=True)
class Held:
    """How a process is held to a limit on its memory.

    `means` is the column `memory_limit`: `torch-cuda-allocator`, `torch-mps-allocator` and `rlimit-data` refuse what goes beyond.
    Under `accounting` nothing does: the worker compares the peak, by the steps' own count and by `peak_bytes` where that is
    given, and ends the run.
    """

    means: str
    peak_bytes: Callable[[], int] | None = None


class Session(Protocol):
    """The worker's side: what a backend tells while it works."""

    @property
    def max_steps(self) -> int:
        """The most optimizer steps, or batches of requests, that will be wanted."""

    def progress(self, what: str) -> None:
        """A sign of life, to be given at least every few seconds while building (cheap: it may be called per layer)."""

    def loaded(self, loaded: Loaded) -> None:
        """The model is ready; memory counters of the process are reset after this."""

    def step(self, seen: SeenStep) -> bool:
        """One step is over. False: stop training now."""

    def request(self, seen: SeenRequest) -> bool:
        """One batch of requests is served. False: stop serving now."""


@runtime_checkable
class PartsSession(Session, Protocol):
    """A session that also wants to know the parts of memory: of one more step, untimed, once it has seen enough of them."""

    def parts(self, parts: Parts) -> None:
        """What each part had at the peak, or why it cannot be told. To be called once; the run's figures are complete by then."""


class Backend(Protocol):
    """One training stack."""

    @property
    def name(self) -> BackendName:
        """Its name in suites."""

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices it can use, preferred first."""

    @property
    def distributions(self) -> tuple[str, ...]:
        """Distributions whose versions belong to a run."""

    @property
    def extras(self) -> Mapping[Device, str]:
        """The extra of this project that brings it, per device."""

    def missing(self, device: Device) -> list[str]:
        """The packages that this environment lacks for that device; imports none of them."""

    def refuses(self, cell: Cell) -> str | None:
        """Why this backend cannot do exactly what the cell declares; None if it can. Imports no framework."""

    def prepare(self) -> None:
        """Import the framework: seconds, in the child only."""

    def limit_memory(self, device: Device, capacity_bytes: int) -> Held:
        """Hold this process to that many bytes, after `prepare` and before anything is built.

        Raises OverLimit where the process has more already, UnsupportedError where it cannot be held.
        """

    def run(self, cell: Cell, batches: Batches, session: Session) -> Counters:
        """Build the model, train it, tell the session. Raises what the framework raises; `fault` reads it."""

    def fault(self, error: BaseException) -> Outcome | None:
        """The outcome that an exception of this framework stands for (`oom_device`, `oom_host`, …); None: unknown.

        `UnsupportedError`, `OverLimit` and `MemoryError` mean the same everywhere and are not asked about. The parent asks with a
        RuntimeError of a single line where a process died and only its log can tell.
        """


BACKENDS: Mapping[BackendName, str] = {
    "hf": "bench.backends.hf:HuggingFace",
    "mlx": "bench.backends.mlx:Mlx",
    "unsloth": "bench.backends.unsloth:Unsloth",
    "fake": "bench.backends.fake:Fake",
}


def load_backend(name: BackendName) -> Backend:
    """The backend of that name. Raises KeyError for an unknown one."""
    module, _, attribute = BACKENDS[name].partition(":")
    backend: Backend = getattr(import_module(module), attribute)()
    return backend


def absent(*packages: str) -> list[str]:
    """Those of the packages that this environment lacks, without importing any."""
    return [package for package in packages if find_spec(package) is None]
