"""How fast this device multiplies and copies: run as a child, `python -m bench.backends.rates <framework> <device>`.

In: `torch` or `mlx`, and a device. Out: one JSON line: operations a second of large matrix products by dtype, bytes a second of
a large copy (read and written), seconds from one small kernel to the next. Each is the best of several tries, for a rate is a
property of the device and every disturbance only lowers it. Of a CUDA card, before that, what torch takes of it beside its
tensors (`card_share`). Takes a few seconds and less than 1 GB.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from bench.backends.card_share import card_share

TRIES = 5
SMALL_KERNELS = 200
SIDES: Mapping[str, int] = {"cpu": 1024}
COPIED_BYTES: Mapping[str, int] = {"cpu": 2**27}
LARGE_SIDE, LARGE_COPY_BYTES = 8192, 2**29
"""Large enough that no cache holds them and no launch counts; a CPU takes smaller ones."""
DTYPES = ("bfloat16", "float32")

Timed = Callable[[], None]


def best_s(work: Timed, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of the fastest of several tries, after one that does not count."""
    work()
    seconds = []
    for _ in range(TRIES):
        began = clock()
        work()
        seconds.append(clock() - began)
    return min(seconds)


def rates(product: Callable[[str, int], Timed], copy: Callable[[int], Timed], small: Timed, device: str) -> dict[str, Any]:
    """The document, from what does one product, one copy and a row of small kernels, each until it is done."""
    side, copied = SIDES.get(device, LARGE_SIDE), COPIED_BYTES.get(device, LARGE_COPY_BYTES)
    return {
        "matrix_flops_per_s": {dtype: 2 * side**3 / best_s(product(dtype, side)) for dtype in DTYPES},
        "memory_bytes_per_s": 2 * copied / best_s(copy(copied)),
        "launch_s": best_s(small) / SMALL_KERNELS,
    }


def with_torch(device: str) -> dict[str, Any]:
    """Raises what torch raises where the device is not there."""
    import torch

    taken = {"card_share": card_share(device, (*DTYPES, "float16"))} if device == "cuda" else {}
    done: Timed = _nothing if device == "cpu" else getattr(torch, device).synchronize
    little = torch.ones(8, device=device)

    def product(dtype: str, side: int) -> Timed:
        left = torch.randn(side, side, device=device, dtype=getattr(torch, dtype))
        out = torch.empty_like(left)
        return _until(done, lambda: torch.mm(left, left, out=out))

    def copy(size: int) -> Timed:
        source = torch.ones(size, dtype=torch.uint8, device=device)
        target = torch.empty_like(source)
        return _until(done, lambda: target.copy_(source))

    small = _until(done, lambda: [little.add_(1) for _ in range(SMALL_KERNELS)])
    return {**rates(product, copy, small, device), **taken}


def _until(done: Timed, start: Callable[[], object]) -> Timed:
    def whole() -> None:
        start()
        done()

    return whole


def _nothing() -> None:
    """On the CPU a call returns when its work is done."""


def with_mlx(device: str) -> dict[str, Any]:
    """Raises what MLX raises. It computes on its default device, Metal where there is one."""
    import mlx.core as mx

    def product(dtype: str, side: int) -> Timed:
        left = mx.random.normal((side, side)).astype(getattr(mx, dtype))
        mx.eval(left)
        return lambda: mx.eval(left @ left)

    def copy(size: int) -> Timed:
        source = mx.ones((size,), dtype=mx.uint8)
        mx.eval(source)
        return lambda: mx.eval(source + 1)

    def small() -> None:
        little = mx.ones((8,))
        for _ in range(SMALL_KERNELS):
            little = little + 1
        mx.eval(little)

    return rates(product, copy, small, device)


def main() -> None:
    """The child's whole life."""
    framework, device = sys.argv[1:]
    found = (with_mlx if framework == "mlx" else with_torch)(device)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
