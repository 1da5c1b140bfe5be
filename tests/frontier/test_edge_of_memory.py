"""The true edge of a small torch model under a limit that the kernel keeps: found by real workers, and borne out by others."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_models import LLAMA

from bench import store
from bench.frontier.run import find
from bench.limits import Limit
from bench.predict.answer import foreteller
from bench.record import Machine
from bench.run import Options, sweep
from bench.suite import read_suite

SHAPE = {**LLAMA, "hidden_size": 256, "num_hidden_layers": 4, "intermediate_size": 704, "num_attention_heads": 4, "head_dim": 64}
LIMIT = Limit(1_000_000_000)
HEAD = (
    'question = "Where is the edge?"\nrepeats = 1\n[sweep]\nmodel = ["./small.json"]\nmethod = ["full"]\nbackend = ["hf@cpu"]\n'
)
WORK = 'sequence_length = 64\nweights_dtype = "float32"\ngradient_checkpointing = false\n'
MEASURE = "[measure]\nwarmup_steps = 1\nwarmup_max_steps = 1\nsteps = 2\nevent_timeout_s = 300\n"


class Silent:
    """An observer that is told and says nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def suite(folder: Path, name: str, text: str) -> Any:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return read_suite(path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_edge_of_a_torch_model_under_a_limit(tmp_path: Path, machine: Machine) -> None:
    """Found to within 5%; then, in fresh processes of an ordinary sweep, a step below it runs and a step above does not."""
    (tmp_path / "small.json").write_text(json.dumps(SHAPE))
    frontier = "[frontier]\nconfirm_steps = 8\nbatch_size = {from = 1, to = 200}\n"
    asked = suite(tmp_path, "edge", f"{HEAD}[fixed]\n{WORK}{MEASURE}{frontier}")
    options = Options(results=tmp_path / "edge", limit=LIMIT)
    (edge,) = find(asked, machine, options, foreteller(machine, LIMIT), Silent()).edges
    assert edge.predicted is not None
    assert edge.status == "confirmed", edge.why
    assert isinstance(edge.last, int)
    assert isinstance(edge.first, int)
    assert edge.first - edge.last == 1 <= 0.05 * edge.last
    sizes = f"batch_size = [{edge.last - 1}, {edge.first + 1}]\n"
    beside = suite(tmp_path, "beside", HEAD + sizes + f"[fixed]\n{WORK}{MEASURE}")
    sweep(beside, machine, Options(results=tmp_path / "beside", limit=LIMIT), Silent())
    found = {row["batch_size"]: row["outcome"] for row in store.read(tmp_path / "beside", "runs").rows.to_pylist()}
    assert found == {edge.last - 1: "ok", edge.first + 1: "oom_host"}
