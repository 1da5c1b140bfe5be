"""The fake backend plays what its config says, and refuses real models."""

import json
import math
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.backends.fake import Fake, FakeFault
from bench.backends.interface import Held
from bench.data import Batches
from bench.events import Counters
from bench.model import model_from_config
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


def test_what_stands_in_a_file_is_played_and_may_change_while_the_work_stays(played: Played, tmp_path: Path) -> None:
    file = tmp_path / "peak"
    peaks = []
    for peak_bytes in ("5", "7"):
        file.write_text(peak_bytes)
        peaks.append(played(peak_bytes=str(file))[1].framework_peak_bytes)
    assert peaks == [5, 7]


@pytest.fixture
def answered(fake_cell: Callable[..., Cell], hf_recorder: Any) -> Callable[..., Any]:
    """Serve four batches of two prompts of eight tokens."""

    def serve(**plays: Any) -> Any:
        cell, session = fake_cell(method="serve", **plays), hf_recorder(max_steps=4)
        Fake().run(cell, Batches(512, 2, 8, 0), session)
        return session

    return serve


def test_requests_are_played_as_told(answered: Callable[..., Any]) -> None:
    session = answered(prefill_s=[0.05, 0.001], step_s=[0.001, 0.05, 0.001], peak_bytes=[5, 6])
    requests = session.requests
    assert [seen.framework_peak_bytes for seen in requests] == [5, 6, 6, 6]
    assert requests[0].prefill_s >= 0.05
    assert requests[1].decode_s >= 0.05
    assert {(seen.prompt_tokens, seen.generated_tokens) for seen in requests} == {(16, 256)}
    assert [seen.tokens_digest for seen in requests] == [Batches(512, 2, 8, 0).digest(index, 1) for index in range(4)]
    assert session.load.trainable_parameters == 0


def test_requests_fail_as_told(answered: Callable[..., Any]) -> None:
    with pytest.raises(FakeFault, match="oom_device: played at step 3"):
        answered(fail="oom_device", fail_at_step=3)
    assert answered(fail="tokens", fail_at_step=2).requests[1].tokens_digest == Batches(512, 2, 8, 0).digest(2, 1)


def test_the_time_of_building_is_told(played: Played) -> None:
    assert played(load_s=0.002, build_s=0.001)[0].load.build_s == 0.001
    assert played()[0].load.build_s == 0.0


def test_its_limit_is_kept_by_accounting() -> None:
    assert Fake().limit_memory("cpu", 1000) == Held("accounting")


def test_an_abort_leaves_its_words() -> None:
    code = "import sys, json; from bench.backends.fake import _play; _play(json.loads(sys.argv[1]), 2)"
    play = json.dumps({"fail": "abort", "fail_at_step": 2, "says": "what():  no room"})
    done = subprocess.run([sys.executable, "-c", code, play], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGABRT, "what():  no room\n")
