"""A child process that finds a cell's memory from its own step, for it has to import the framework.

In: a cell as JSON on standard input, and the number of a pipe as the only argument, whose other end the asking process holds: it
ends when that does. Out: its `Memory` as JSON, the last line of standard output. Exit code 2, and the reason
as the last line of standard error, where the step cannot be traced.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib import import_module

from bench.backends.interface import UnsupportedError, load_backend
from bench.predict.answer import UNABLE
from bench.predict.prediction import Memory
from bench.spec import BackendName, BadInput, Cell

TRACERS: Mapping[BackendName, str] = {"hf": "bench.predict.trace", "mlx": "bench.predict.mlx"}
"""By backend, the module whose `memory` traces it."""


def main() -> int:
    cell = Cell.from_json(json.load(sys.stdin))
    try:
        print(json.dumps(asdict(tracer(cell)(cell))))
    except (UnsupportedError, BadInput) as error:
        print(str(error), file=sys.stderr)
        return UNABLE
    return 0


def _end_with_parent(lifeline: int) -> None:
    """Nothing is ever written to the pipe: reading from it returns when nobody holds its other end."""
    os.read(lifeline, 1)
    os._exit(UNABLE)


def tracer(cell: Cell) -> Callable[[Cell], Memory]:
    """The function that traces the cell's stack. Raises UnsupportedError where there is none, or its packages are missing."""
    module = TRACERS.get(cell.backend)
    if module is None:
        raise UnsupportedError(f"--how trace: {cell.backend} cannot be traced, hf and mlx can; --how rules predicts it")
    if cell.workload.serves:
        raise UnsupportedError("--how trace: steps of training are traced, not serving; --how rules predicts it")
    if cell.device == "mps":
        raise UnsupportedError("--how trace: a step is traced as on CUDA or the CPU, not as on mps; --how rules predicts it")
    config = cell.workload.model.config
    if "num_hidden_layers" not in config:
        raise UnsupportedError(f"--how trace: a {config['model_type']} names no num_hidden_layers; --how rules predicts it")
    missing = load_backend(cell.backend).missing("cpu")
    if missing:
        raise UnsupportedError(
            f"--how trace: tracing {cell.backend} needs {', '.join(missing)} in this environment; --how rules needs nothing"
        )
    found: Callable[[Cell], Memory] = import_module(module).memory
    return found


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, args=(int(sys.argv[1]),), daemon=True).start()
    sys.exit(main())
