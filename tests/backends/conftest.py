"""What the tests of the Hugging Face backend share: its stack imported once, tiny cells, and a session that listens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import pytest

from bench.backends.hf import HuggingFace
from bench.backends.interface import SeenRequest, SeenStep
from bench.data import Batches
from bench.events import Counters, Loaded
from bench.model import model_from_config
from bench.spec import IMPLEMENTATION_FIELDS, Cell, Implementation, workload

HF_SHAPE = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "intermediate_size": 192,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 512,
    "max_position_embeddings": 2048,
}
HF_FAMILIES = {
    "llama": {"model_type": "llama", "tie_word_embeddings": False, "rope_theta": 5e5},
    "qwen3": {"model_type": "qwen3", "tie_word_embeddings": True, "head_dim": 16, "rope_theta": 1e6},
    "qwen2": {"model_type": "qwen2", "tie_word_embeddings": True},
    "mistral": {"model_type": "mistral", "tie_word_embeddings": False},
}


@dataclass
class Recorder:
    """A session that keeps what it is told, and has enough after `enough` steps, or batches of requests."""

    max_steps: int = 3
    enough: int = 1_000_000
    told: list[str] = field(default_factory=list)
    steps: list[SeenStep] = field(default_factory=list)
    requests: list[SeenRequest] = field(default_factory=list)
    load: Loaded | None = None

    def progress(self, what: str) -> None:
        self.told.append(what)

    def loaded(self, loaded: Loaded) -> None:
        assert self.load is None
        self.load = loaded

    def step(self, seen: SeenStep) -> bool:
        self.steps.append(seen)
        return len(self.steps) < self.enough

    def request(self, seen: SeenRequest) -> bool:
        self.requests.append(seen)
        return len(self.requests) < self.enough

    @property
    def losses(self) -> list[float]:
        return [seen.loss for seen in self.steps if seen.loss is not None]


@dataclass(frozen=True)
class HfRun:
    """A run that is over."""

    cell: Cell
    session: Recorder
    loaded: Loaded
    batches: Batches
    peaks: Counters


@pytest.fixture(scope="session")
def hf() -> HuggingFace:
    """The backend, its stack imported: seconds, so once. One thread, for at this size a second one only waits."""
    backend = HuggingFace()
    backend.prepare()
    import_module("torch").set_num_threads(1)
    return backend


@pytest.fixture(scope="session")
def hf_recorder() -> type[Recorder]:
    return Recorder


@pytest.fixture(scope="session")
def hf_cell() -> Callable[..., Cell]:
    """A tiny cell on the CPU; keywords are workload or implementation fields, `config` overrides the architecture."""

    def make(family: str = "llama", method: str = "lora", config: dict[str, Any] | None = None, **fields: Any) -> Cell:
        asked = {name: fields.pop(name) for name in IMPLEMENTATION_FIELDS if name in fields}
        device = fields.pop("device", "cpu")
        model = model_from_config(f"tiny-{family}", {**HF_SHAPE, **HF_FAMILIES[family], **(config or {})})
        declared = {"batch_size": 2, "sequence_length": 16, "rank": 4, "alpha": 8.0, "learning_rate": 1e-2, **fields}
        return Cell(workload(model=model, method=method, **declared), "hf", device, Implementation(**asked))

    return make


@pytest.fixture(scope="session")
def hf_batches() -> Callable[..., Batches]:
    """The batches of a cell; with `repeat_every=1` one batch is learnt by heart."""

    def make(cell: Cell, repeat_every: int | None = None) -> Batches:
        work = cell.workload
        length = work.prompt_tokens if work.serves else work.sequence_length
        return Batches(work.model.config["vocab_size"], work.batch_size, length, work.seed, repeat_every)

    return make


@pytest.fixture(scope="session")
def hf_run(hf: HuggingFace, hf_batches: Callable[..., Batches]) -> Callable[..., HfRun]:
    """Run a cell through the backend's door."""

    def run(cell: Cell, *, max_steps: int = 3, enough: int = 1_000_000, repeat_every: int | None = None) -> HfRun:
        assert hf.refuses(cell) is None
        session, batches = Recorder(max_steps, enough), hf_batches(cell, repeat_every)
        peaks = hf.run(cell, batches, session)
        assert session.load is not None
        return HfRun(cell, session, session.load, batches, peaks)

    return run
