"""Rates of a device: the best of several tries, in the units that profiles have."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bench.backends.rates import SMALL_KERNELS, TRIES, best_s, rates


def test_the_fastest_try_counts_and_the_first_does_not() -> None:
    seen: list[None] = []
    moments = iter([0.0, 9.0, 10.0, 13.0, 20.0, 21.5, 30.0, 34.0, 40.0, 45.0])
    assert best_s(lambda: seen.append(None), clock=lambda: next(moments)) == 1.5
    assert len(seen) == TRIES + 1


def test_operations_and_bytes_are_those_of_the_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.backends.rates.best_s", lambda work: 2.0)
    found = rates(lambda dtype, side: print, lambda size: print, print, "cpu")
    assert found["matrix_flops_per_s"] == {"bfloat16": 1024.0**3, "float32": 1024.0**3}
    assert found["memory_bytes_per_s"] == 2**27
    assert found["launch_s"] == 2.0 / SMALL_KERNELS


@pytest.mark.parametrize("framework", ["torch", "mlx"])
def test_the_child_measures_this_cpu(framework: str) -> None:
    command = [sys.executable, "-m", "bench.backends.rates", framework, "cpu"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert set(found) == {"matrix_flops_per_s", "memory_bytes_per_s", "launch_s"}
    assert all(rate > 1e7 for rate in (*found["matrix_flops_per_s"].values(), found["memory_bytes_per_s"]))
