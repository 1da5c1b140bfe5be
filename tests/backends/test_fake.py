"""The fake backend plays what its config says, and refuses real models."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from bench.backends.fake import Fake, FakeFault
from bench.data import Batches
from bench.model import model_from_config
from bench.record import Counters
from bench.spec import Cell, workload

Played = Callable[..., tuple[Any, Counters]]


@pytest.fixture
def played(fake_cell: Callable[..., Cell], hf_recorder: Any) -> Played:
    """Play four steps: the session, and what the backend counts at the end."""

    def play(**plays: Any) -> tuple[Any, Counters]:
        session = hf_recorder(max_steps=4)
        return session, Fake().run(fake_cell(**plays), Batches(512, 2, 8, 0), session)

    return play


def test_it_refuses_models_that_are_not_fake(fake_cell: Callable[..., Cell]) -> None:
    config = {
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 64,
        "vocab_size": 8,
    }  # fmt: skip
    real = Cell(workload(model=model_from_config("real", config), method="full"), "fake", "cpu")
    assert Fake().refuses(real) == "the fake backend only plays models of model_type fake"
    assert Fake().refuses(fake_cell()) is None


@pytest.mark.parametrize(("error", "outcome"), [(FakeFault("oom_host: x"), "oom_host"), (RuntimeError("oom_host: x"), None)])
def test_only_its_own_faults_have_an_outcome(error: BaseException, outcome: str | None) -> None:
    assert Fake().fault(error) == outcome


def test_lists_are_played_step_by_step_and_their_last_value_repeats(played: Played) -> None:
    session, counters = played(step_s=[0.05, 0.001], peak_bytes=[5, 6, 7])
    assert [seen.framework_peak_bytes for seen in session.steps] == [5, 6, 7, 7]
    assert counters == Counters(framework_peak_bytes=7, compile_s=0.0)
    slow, *quick = [seen.duration_s for seen in session.steps]
    assert slow >= 0.05
    assert min(quick) < 0.05


def test_numbers_are_played_at_every_step_and_nothing_played_is_not_measured(played: Played) -> None:
    session, counters = played(peak_bytes=5)
    assert [seen.framework_peak_bytes for seen in session.steps] == [5] * 4
    session, counters = played()
    assert counters.framework_peak_bytes is None
    assert {seen.framework_peak_bytes for seen in session.steps} == {None}


def test_the_loss_falls_stands_still_or_is_no_number(played: Played) -> None:
    falling = played()[0].losses
    assert falling == sorted(set(falling), reverse=True)
    assert set(played(loss="constant")[0].losses) == {math.log(512)}
    assert all(math.isnan(loss) for loss in played(loss="nan")[0].losses)


def test_the_time_of_building_is_told(played: Played) -> None:
    assert played(load_s=0.002, build_s=0.001)[0].load.build_s == 0.001
    assert played()[0].load.build_s == 0.0
