"""Small trainings through a real backend, in a process whose native heap is counted: the child of `test_memory_truth.py`.

In: a backend and methods on the command line, `memhook.so` preloaded. Out: a JSON object a method on standard output, all in
bytes: what the harness would store (`host_*`, `framework_*`), what malloc gave (`heap_*`), and of what kind resident memory was
(`rss_*`). Present sizes are read at three moments: `base`, with the framework imported and nothing built; `start` of training;
`end`.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ["MLX_DISABLE_COMPILE"] = "1"  # mx.compile would start g++, which is no part of a training's memory

from bench.backends.interface import Backend, SeenStep, load_backend
from bench.data import Batches
from bench.events import Loaded
from bench.meters.process import KIB, ProcessMemory
from bench.model import model_from_config
from bench.spec import Cell, workload

SHAPE: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "intermediate_size": 1408,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 5e5,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
"""With its vocabulary 20 (mlx) or 45 (hf) million parameters: 80 and 180 MB in float32."""

WORK: dict[str, dict[str, Any]] = {
    "hf": {"batch_size": 4, "sequence_length": 128, "vocab_size": 32_768},
    "mlx": {"batch_size": 1, "sequence_length": 32, "vocab_size": 8192},
}
"""By backend. trl makes a buffer for 32,768 columns of logits whatever the vocabulary: with a smaller one, part of what malloc
gave would never be touched, so never be resident. MLX on the CPU is slow, so it gets less."""

STEPS = 2
"""The second has optimizer state from its start, so it has the peak."""
KINDS = {"RssAnon": "anonymous", "RssFile": "file"}


def heap(name: str) -> int:
    """A counter of memhook.c."""
    function = getattr(ctypes.CDLL(None), f"memhook_{name}")
    function.restype = ctypes.c_longlong
    return int(function())


@dataclass
class Measured:
    """A session that reads every counter where the worker does: `loaded` starts the peaks anew."""

    memory: ProcessMemory = field(default_factory=ProcessMemory)
    seen: dict[str, int] = field(default_factory=dict)
    max_steps: int = STEPS

    def look(self, moment: str) -> None:
        self.seen[f"heap_{moment}"] = heap("live_bytes")
        self.seen[f"host_{moment}"] = self.memory.present_bytes() or 0
        for line in Path("/proc/self/status").read_text().splitlines():
            name, _, amount = line.partition(":")
            if name in KINDS:
                self.seen[f"rss_{KINDS[name]}_{moment}"] = int(amount.split()[0]) * KIB

    def progress(self, what: str) -> None:
        pass

    def loaded(self, loaded: Loaded) -> None:
        self.seen["parameters"] = loaded.parameters
        self.look("start")
        assert self.memory.reset()
        ctypes.CDLL(None).memhook_reset_peak()

    def step(self, seen: SeenStep) -> bool:
        return True


def main(backend_name: str, *methods: str) -> None:
    """Import once; then train each method in a fork, so that each starts from the same process, freshly imported."""
    backend = load_backend(backend_name)
    backend.prepare()
    for method in methods:
        child = os.fork()
        if not child:
            print(json.dumps(measured(backend, method)), flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(f"{backend_name} {method}: the child ended with status {status}")


def measured(backend: Backend, method: str) -> dict[str, int]:
    """Train, and what every counter said."""
    fields = dict(WORK[backend.name])
    vocabulary = fields.pop("vocab_size")
    declared = workload(
        model=model_from_config("small", {**SHAPE, "vocab_size": vocabulary}),
        method=method,
        weights_dtype="float32",
        gradient_checkpointing=False,
        **fields,
    )
    cell = Cell(declared, backend.name, "cpu")
    assert backend.refuses(cell) is None, backend.refuses(cell)
    session = Measured()
    session.look("base")
    counters = backend.run(cell, Batches(vocabulary, declared.batch_size, declared.sequence_length), session)
    session.look("end")
    session.seen |= {"host_peak": session.memory.peak_bytes() or 0, "heap_peak": heap("peak_bytes")}
    session.seen |= {"framework_peak": counters.framework_peak_bytes or 0, "cache_peak": counters.cache_peak_bytes or 0}
    return session.seen


if __name__ == "__main__":
    main(*sys.argv[1:])
