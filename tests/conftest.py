"""What many tests share: cells of the fake backend, a machine that is nobody's, and a lock of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from bench.model import model_from_config
from bench.record import Machine, Run, workload_columns
from bench.spec import Cell, Measure, workload

hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")
"""How long an example takes depends on what else the machine does, so it is no reason to fail."""
FAKE_CONFIG = {"model_type": "fake", "vocab_size": 512, "max_position_embeddings": 4096, "parameters": 1000}


@pytest.fixture(autouse=True)
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests must neither wait for a real sweep on this machine nor stop one."""
    monkeypatch.setenv("WINGSPAN_LOCK", str(tmp_path / "machine.lock"))


@pytest.fixture(scope="module")
def memhook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """memhook.c, compiled: the count of what malloc gave, for a child that preloads it."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.fail("memory figures cannot be checked without a C compiler: install one (Debian: apt-get install gcc)")
    library = tmp_path_factory.mktemp("memhook") / "memhook.so"
    source = Path(__file__).parent / "memhook.c"
    subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.fixture
def fake_cell() -> Callable[..., Cell]:
    """A cell of the fake backend; keywords are what it plays (see bench/backends/fake.py), `method` and `name` the cell's."""

    def make(name: str = "fake", method: str = "lora", **plays: Any) -> Cell:
        model = model_from_config(name, {**FAKE_CONFIG, **plays})
        return Cell(workload(model=model, method=method, sequence_length=8, batch_size=2), "fake", "cpu")

    return make


@pytest.fixture
def machine() -> Machine:
    """A computer with nothing but processors."""
    return Machine(
        name="test-machine",
        machine_id="0123456789ab",
        system="Linux",
        architecture="x86_64",
        os_version="Test OS 1",
        chip="Test Chip",
        cpu_cores=2,
        memory_bytes=16 * 2**30,
    )


@pytest.fixture
def measure() -> Measure:
    """Short, with a warm-up of fixed length, and quick to take silence for a hang."""
    return Measure(warmup_steps=1, warmup_max_steps=1, steps=2, event_timeout_s=30)


@pytest.fixture
def write_suite(tmp_path: Path) -> Callable[..., Path]:
    """A suite file of fake models, one config.json each: {name: what it plays}."""

    def write(models: dict[str, dict[str, Any]], repeats: int = 1, methods: str = '["lora"]', **measure: Any) -> Path:
        for name, plays in models.items():
            folder = tmp_path / "models" / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "config.json").write_text(json.dumps({**FAKE_CONFIG, "label": name, **plays}))
        paths = json.dumps([f"models/{name}/config.json" for name in models])
        settings = {"warmup_steps": 1, "warmup_max_steps": 1, "steps": 5, "event_timeout_s": 30, **measure}
        lines = [f"{key} = {value}" for key, value in settings.items()]
        path = tmp_path / "probe.toml"
        path.write_text(
            f'question = "Does it?"\nrepeats = {repeats}\n[sweep]\nmodel = {paths}\nmethod = {methods}\nbackend = ["fake"]\n'
            "[fixed]\nsequence_length = 8\nbatch_size = 2\n[measure]\n" + "\n".join(lines) + "\n"
        )
        return path

    return write


@pytest.fixture(scope="session")
def make_run() -> Callable[..., Run]:
    """An `ok` run of a tiny Llama; keywords are fields of `Run`, in place of its own."""
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "vocab_size": 256,
    }
    work = workload(model=model_from_config("tiny-llama", config), method="lora")
    own = {
        "started_at": datetime(2026, 11, 30, 2, 15, 0, 123456, tzinfo=UTC),
        "machine": "box",
        "machine_id": "0123",
        "suite": "smoke",
        "cell": "tiny-llama/lora/hf@cpu",
        "cell_key": "fedc",
        "workload_digest": work.digest,
        "workload": workload_columns(work),
        "backend": "hf",
        "device": "cpu",
        "outcome": "ok",
    }
    return lambda run_id="run-1", **values: Run(run_id=run_id, **(own | values))
