"""The fake backend plays what its config says, and refuses real models."""

from collections.abc import Callable

import pytest

from bench.backends.fake import Fake, FakeFault
from bench.spec import Cell, model_from_config, workload


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
