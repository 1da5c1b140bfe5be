"""The child that traces: what it is given, what it gives, and how it says that it cannot."""

import io
import json
import os
import subprocess
import sys

import pytest

from bench.backends.interface import UnsupportedError
from bench.catalog import catalogue
from bench.model import Model, canonical_json
from bench.predict import child, rules
from bench.predict.answer import UNABLE, memory_of, traced
from bench.spec import Cell, workload


def cell_of(backend="hf", device="cpu", **declared):
    model = catalogue().models["tiny-llama-xs"]
    return Cell(workload(model=model, **{"method": "lora", "sequence_length": 32, **declared}), backend, device)


def asked(monkeypatch, cell):
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(cell.to_json())))
    return child.main()


def test_it_answers_with_the_memory_that_the_stacks_tracer_finds(monkeypatch, capsys):
    monkeypatch.setattr(child, "tracer", lambda cell: rules.uncalibrated)
    assert asked(monkeypatch, cell_of()) == 0
    assert memory_of(json.loads(capsys.readouterr().out)) == rules.uncalibrated(cell_of())


def test_it_says_in_the_last_line_why_it_cannot(monkeypatch, capsys):
    assert asked(monkeypatch, cell_of("unsloth", "cuda")) == UNABLE
    assert "unsloth cannot be traced" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("cell", "what"),
    [
        (cell_of("unsloth", "cuda"), "unsloth cannot be traced, hf and mlx can"),
        (cell_of("unsloth", "metal"), "unsloth cannot be traced"),
        (cell_of("hf", "mps"), "not as on mps"),
        (cell_of("hf", "cuda", method="serve"), "not serving"),
        (cell_of("mlx", "metal", method="serve"), "not serving"),
    ],
)
def test_what_cannot_be_traced_is_refused_with_the_remedy(cell, what):
    with pytest.raises(UnsupportedError, match=f"^--how trace: .*{what}.*; --how rules predicts it$"):
        child.tracer(cell)


def test_an_architecture_that_names_its_sizes_otherwise_is_refused():
    model = Model("gpt2", canonical_json({"model_type": "gpt2", "vocab_size": 100, "n_embd": 64, "n_layer": 2, "n_head": 4}))
    with pytest.raises(UnsupportedError, match="a gpt2 names no num_hidden_layers; --how rules predicts it"):
        child.tracer(Cell(workload(model=model, method="full"), "hf", "cuda"))


def test_a_stack_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr("bench.backends.mlx.absent", lambda *packages: list(packages))
    with pytest.raises(UnsupportedError, match="tracing mlx needs mlx, mlx_lm"):
        child.tracer(cell_of("mlx"))


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "device", "how"), [("hf", "cuda", "trace"), ("mlx", "metal", "graph")])
def test_both_stacks_are_traced_in_a_process_of_their_own(backend, device, how):
    found = traced(cell_of(backend, device))
    assert found.how == how
    rotary_bytes = 1024  # at most: the frequencies, which the trace counts with the weights
    assert 0 <= found.parts["weights"] - rules.uncalibrated(cell_of(backend, device)).parts["weights"] <= rotary_bytes


def test_it_ends_with_the_process_that_asked():
    """However that ends: the system closes its end of the pipe. Else a killed command leaves a full core at work for minutes."""
    lifeline, held = os.pipe()
    script = "import sys, threading, time; from bench.predict import child; "
    script += "threading.Thread(target=child._end_with_parent, args=(int(sys.argv[1]),), daemon=True).start(); time.sleep(300)"
    waiting = subprocess.Popen([sys.executable, "-c", script, str(lifeline)], pass_fds=(lifeline,))
    os.close(lifeline)
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0.2)
    os.close(held)
    assert waiting.wait(60) == UNABLE
