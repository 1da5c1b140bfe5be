"""The parts of memory of tiny models, by one more step of the real backend."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from bench.backends import hf_parts
from bench.backends.hf import HuggingFace
from bench.backends.hf_build import attach_adapters, build
from bench.backends.interface import SeenRequest, SeenStep
from bench.data import Batches
from bench.events import Counters, Loaded, Parts
from bench.spec import Cell


@dataclass
class Curious:
    """A session that asks for the parts, and has enough after `enough` steps."""

    max_steps: int = 3
    enough: int = 1_000_000
    steps: list[SeenStep] = field(default_factory=list)
    told: list[Parts] = field(default_factory=list)

    def progress(self, what: str) -> None: ...
    def loaded(self, loaded: Loaded) -> None: ...

    def step(self, seen: SeenStep) -> bool:
        assert not self.told, "no step is told after the parts"
        self.steps.append(seen)
        return len(self.steps) < self.enough

    def request(self, seen: SeenRequest) -> bool:
        return True

    def parts(self, parts: Parts) -> None:
        self.told.append(parts)


@pytest.fixture
def asked(hf: HuggingFace, hf_batches: Callable[..., Batches]) -> Callable[..., tuple[Curious, Counters]]:
    def run(cell: Cell, **session: int) -> tuple[Curious, Counters]:
        curious = Curious(**session)
        return curious, hf.run(cell, hf_batches(cell), curious)

    return run


def sizes(hf: HuggingFace, cell: Cell) -> dict[str, int]:
    """Bytes of the built model, its adapters apart, by what its tensors say of themselves."""
    model = attach_adapters(build(cell, Curious()), cell.workload)
    named = {id(tensor): (name, tensor) for name, tensor in [*model.named_parameters(), *model.named_buffers()]}
    found = {"weights": 0, "adapters": 0}
    for name, tensor in named.values():
        found["adapters" if ".lora_" in name else "weights"] += tensor.nbytes
    return found


@pytest.mark.parametrize("method", ["full", "lora"])
def test_the_parts_are_what_the_tensors_say(
    hf: HuggingFace, hf_cell: Callable[..., Cell], asked: Callable[..., Any], method: str
) -> None:
    """AdamW keeps two moments in the dtype of what is trained, and a step count of four bytes for each tensor."""
    cell = hf_cell(method=method)
    session, _ = asked(cell)
    (told,) = session.told
    assert (told.why, list(told.parts)) == (None, list(hf_parts.PARTS))
    expected = sizes(hf, cell)
    assert {name: told.parts[name] for name in expected} == expected
    trained = expected["adapters"] or expected["weights"]
    assert 2 * 0.95 * trained <= told.parts["optimizer"] <= 2 * 1.05 * trained  # buffers aside, step counts beside
    assert told.parts["logits"] > 0
    assert told.parts["activations"] > 0


def test_4_bit_weights_are_counted_packed_with_their_scales(hf_cell: Callable[..., Cell], asked: Callable[..., Any]) -> None:
    lora, qlora = (asked(hf_cell(method=method))[0].told[0].parts for method in ("lora", "qlora"))
    assert qlora["adapters"] == lora["adapters"]
    assert 0.3 < qlora["weights"] / lora["weights"] < 0.8  # embeddings and head stay in 16 bits


def test_longer_sequences_take_more_activations_and_the_same_weights(
    hf_cell: Callable[..., Cell], asked: Callable[..., Any]
) -> None:
    short, long = (asked(hf_cell(sequence_length=length, gradient_checkpointing=False))[0].told[0].parts for length in (64, 256))
    assert long["weights"] == short["weights"]
    assert 3 < long["activations"] / short["activations"] < 5


def test_the_measured_steps_are_those_of_a_run_without_parts(
    hf_run: Callable[..., Any], hf_cell: Callable[..., Cell], asked: Callable[..., Any]
) -> None:
    cell = hf_cell()
    session, counters = asked(cell, max_steps=6, enough=4)
    plain = hf_run(cell, max_steps=6, enough=4)
    assert [step.loss for step in session.steps] == [step.loss for step in plain.session.steps]
    assert [step.tokens_digest for step in session.steps] == [step.tokens_digest for step in plain.session.steps]
    assert counters == plain.peaks
    assert len(session.told) == 1
    to_the_end, _ = asked(cell, max_steps=3)
    assert (len(to_the_end.steps), len(to_the_end.told)) == (3, 1)


def test_a_further_step_that_fails_leaves_the_run_whole(
    hf_cell: Callable[..., Cell], asked: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("can't allocate memory")

    start = hf_parts.Tracker.start

    def then_fails(tracker: hf_parts.Tracker) -> None:
        start(tracker)
        monkeypatch.setattr(hf_parts.Tracker, "see", fails)

    monkeypatch.setattr(hf_parts.Tracker, "start", then_fails)
    session, _ = asked(hf_cell())
    assert len(session.steps) == 3
    assert session.told == [Parts(parts={}, how=hf_parts.HOW, why="the further step failed: RuntimeError: can't allocate memory")]


def test_a_failure_before_it_is_the_runs_own(
    hf_cell: Callable[..., Cell], asked: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Curious, seen: SeenStep) -> bool:
        raise RuntimeError("in a measured step")

    monkeypatch.setattr(Curious, "step", fails)
    with pytest.raises(RuntimeError, match="in a measured step"):
        asked(hf_cell())


def test_a_compiled_step_hides_its_storages(hf_cell: Callable[..., Cell]) -> None:
    session = Curious()
    further = hf_parts.Further(trainer=None, model=None, cell=hf_cell(compile=True), session=session)
    assert further.begin() is False
    assert further.over
    assert session.told == [Parts(parts={}, how=hf_parts.HOW, why=hf_parts.COMPILED)]
