"""Runs that nobody ran, as the store would give them back: the same every time.

The numbers are invented, of a plausible size, so that pages and figures can be looked at before anything was measured.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest

MODELS = {
    "llama-3.2-1b": 1.236e9,
    "qwen3-4b": 4.02e9,
    "llama-3.1-8b": 8.03e9,
    "qwen3-14b": 14.77e9,
    "qwen3-32b": 32.76e9,
    "llama-3.3-70b": 70.55e9,
}
CAPACITIES = {"mac-studio-m3-ultra": 103_079_215_104, "pc-rtx-4090": 25_757_220_864}
USABLE = {"mac-studio-m3-ultra": 80e9, "pc-rtx-4090": 25.2e9}
MACHINES = {
    "mac-studio-m3-ultra": ("Apple M3 Ultra", "Apple M3 Ultra", 103_079_215_104, "macOS 15.6"),
    "pc-rtx-4090": ("Intel Core i9-14900K", "NVIDIA GeForce RTX 4090", 67_108_864_000, "Ubuntu 24.04"),
}
PARTIES = [
    ("mac-studio-m3-ultra", "mlx", "metal", 0.30),
    ("mac-studio-m3-ultra", "hf", "mps", 0.17),
    ("pc-rtx-4090", "hf", "cuda", 1.0),
]
BYTES_PER_PARAMETER = {"full": 8.1, "lora": 2.25, "qlora": 0.66}
PACKAGES = {
    "hf": {"torch": "2.15.0", "transformers": "5.24.0", "peft": "0.21.2", "trl": "1.16.0"},
    "mlx": {"mlx": "0.32.4", "mlx-lm": "0.32.2"},
}
IMPLEMENTATIONS = {
    "hf": {"attention": "sdpa", "loss": "trl, fused head in tiles", "optimizer": "adamw_torch, fused", "compile": "none"},
    "mlx": {
        "attention": "mx.fast.scaled_dot_product_attention",
        "loss": "mlx_lm default_loss over full logits",
        "compile": "step",
    },
}
QUANTIZED = {"hf": "nf4", "mlx": "affine, 4 bits, groups of 64"}


def digest(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def make_run(model: str = "llama-3.1-8b", method: str = "lora", index: int = 0, **fields: Any) -> dict[str, Any]:
    """One row of `runs`: an ok run of mlx on the Mac, unless fields say otherwise."""
    machine, backend = fields.get("machine", "mac-studio-m3-ultra"), fields.get("backend", "mlx")
    device = fields.get("device", {"mlx": "metal", "hf": "cuda"}.get(backend, "cpu"))
    chip, accelerator, memory, system = MACHINES.get(machine, ("Some chip", None, 16 * 2**30, "Some OS 1"))
    work = digest(model, method, fields.get("batch_size", 1))
    swept = f"/batch_size={fields['batch_size']}" if "batch_size" in fields else ""
    quantized = {"quantization_format": QUANTIZED.get(backend, "none") if method == "qlora" else "none"}
    row = {
        "run_id": digest(machine, backend, device, work, index),
        "schema_version": 2,
        "started_at": datetime(2026, 3, 1, 9, tzinfo=UTC) + timedelta(minutes=7 * index),
        "machine": machine,
        "machine_id": digest(machine)[:12],
        "suite": "lesson",
        "question": "Which machine trains which models, and how fast?",
        "cell": f"{model}/{method}/{backend}@{device}{swept}",
        "cell_key": digest(work, backend, device),
        "workload_digest": work,
        "implementation": sorted({**IMPLEMENTATIONS.get(backend, {}), **quantized}.items()),
        "model": model,
        "architecture": "{}",
        "parameters": int(MODELS.get(model, 1e6)),
        "method": method,
        "backend": backend,
        "device": device,
        "batch_size": 1,
        "sequence_length": 2048,
        "optimizer": "adamw",
        "tier": "measured",
        "outcome": "ok",
        "reason": None,
        "tokens_per_s": 400.0,
        "loss_tokens_per_s": 399.8,
        "step_s_median": 5.12,
        "framework_peak_bytes": 20_000_000_000,
        "host_peak_bytes": 3_000_000_000,
        "load_s": 11.5,
        "first_step_s": 7.4,
        "warmup_steps": 3,
        "steps": 13,
        "trainable_parameters": 41_943_040,
        "loss_first": 11.93,
        "loss_last": 11.71,
        "tokens_digest": digest("tokens", work),
        "flags": [],
        "versions": sorted({"python": "3.12.3", "os": system, **PACKAGES.get(backend, {})}.items()),
        "environment_digest": digest("environment", machine, backend),
        "source_revision": "0773a8b1f6c0d9aa5b2e1c34d5e6f708192a3b4c",
        "chip": chip,
        "accelerator": accelerator,
        "memory_bytes": memory,
        "os_version": system,
        "warmup_rule": "first of 2 to 30 steps followed by 10 that are steady",
        "outlier_steps": 0,
        "host_cpu_share": 0.98,
        "others_cpu_share": 0.05,
        "swap_growth_bytes": 0,
        "device_settings": [],
        "not_measured": [],
    }
    return row | fields


NEW_IN_2 = (
    *("warmup_rule", "outlier_steps", "device_peak_scope", "device_settings", "not_measured", "others_cpu_share", "build_s"),
    *("compile_s", "peak_power_w", "energy_counter_j", "energy_integral_j", "energy_above_idle_j", "j_per_token_above_idle"),
    *("energy_window_s", "wall_power_w", "wall_energy_j"),
)


def powered(row: dict[str, Any], power_w: float, idle_w: float, **fields: Any) -> dict[str, Any]:
    """The row with a counter of the scope that its device has, and an integral a little below it."""
    scope = {"cuda": "gpu-board", "metal": "soc", "mps": "soc"}.get(row["device"], "package")
    window_s = 10 * row["step_s_median"]
    tokens = window_s * row["tokens_per_s"]
    energy_j, above_j = power_w * window_s, (power_w - idle_w) * window_s
    return {
        **row,
        **{"power_w": power_w, "peak_power_w": 1.2 * power_w, "power_scope": scope, "idle_power_w": idle_w},
        **{"energy_j": energy_j, "energy_counter_j": energy_j, "energy_integral_j": energy_j / 1.02},
        **{"j_per_token": energy_j / tokens, "j_per_token_above_idle": above_j / tokens},
        **{"energy_above_idle_j": above_j, "energy_window_s": window_s},
        **fields,
    }


def fail(row: dict[str, Any], outcome: str, reason: str) -> dict[str, Any]:
    """The row of a run that came to nothing: no measurement is left in it."""
    measured = ("tokens_per_s", "loss_tokens_per_s", "step_s_median", "framework_peak_bytes", "host_peak_bytes", "load_s")
    measured += ("power_w", "peak_power_w", "idle_power_w", "energy_j", "energy_counter_j", "energy_integral_j", "power_scope")
    measured += ("j_per_token", "j_per_token_above_idle", "energy_above_idle_j", "energy_window_s", "device_peak_bytes")
    measured += ("device_peak_scope", "host_cpu_share", "others_cpu_share", "swap_growth_bytes", "outlier_steps")
    more = ("first_step_s", "warmup_steps", "steps", "trainable_parameters", "loss_first", "loss_last", "tokens_digest")
    return {**row, **dict.fromkeys(measured + more), "implementation": [], "outcome": outcome, "reason": reason}


def lesson_rows(repeats: int = 3, batch_sizes: tuple[int, ...] = ()) -> Iterator[dict[str, Any]]:
    """The lesson's grid: six models, three methods, three parties, with everything that can go wrong."""
    chance = random.Random(7)
    index = 0
    for model, parameters in MODELS.items():
        for method, weight in BYTES_PER_PARAMETER.items():
            for machine, backend, device, speed in PARTIES:
                for batch_size in batch_sizes or (None,):
                    for _ in range(repeats):
                        index += 1
                        swept = {"batch_size": batch_size} if batch_size else {}
                        peak = parameters * weight + 1.4e9 * (batch_size or 1)
                        rate = speed * 1.36e13 / parameters * chance.lognormvariate(0, 0.015)
                        row = make_run(
                            model, method, index, machine=machine, backend=backend, device=device, tokens_per_s=rate,
                            loss_tokens_per_s=rate * 2047 / 2048, step_s_median=2048 / rate, first_step_s=3000 / rate,
                            framework_peak_bytes=int(peak), host_peak_bytes=int(2e9 + parameters / 20),
                            load_s=parameters / 6e8 * chance.lognormvariate(0, 0.1), **swept,
                        )  # fmt: skip
                        yield _mishap(_metered(row), peak, chance)


def _metered(row: dict[str, Any]) -> dict[str, Any]:
    """The row with what the meters of its machine say of it: watts everywhere, the device's memory on the card."""
    if row["device"] == "cuda":
        settings = [("driver", "580.95.05"), ("power_limit_w", "450")]
        device = {"device_peak_bytes": int(row["framework_peak_bytes"] * 1.1), "device_peak_scope": "process"}
        return powered(row, 380.0, 22.0, device_settings=settings, **device)
    missing = [("device_peak_bytes", "the driver counts no memory of a device that shares the computer's")]
    return powered(row, 170.0, 9.0, not_measured=missing)


def _mishap(row: dict[str, Any], peak: float, chance: random.Random) -> dict[str, Any]:
    if row["device"] == "mps" and row["method"] == "qlora":
        return fail(row, "unsupported", "bitsandbytes has no 4-bit kernels for mps")
    if row["method"] == "full" and row["parameters"] > 2e10:
        return fail(row, "skipped", "excluded by the suite: more than half a terabyte")
    if peak > USABLE[row["machine"]]:
        gib = peak / 2**30
        return fail(row, "oom_device", f"CUDA out of memory: tried to hold {gib:.1f} GiB, the device has less")
    if row["model"] == "llama-3.3-70b" and chance.random() < 0.8:
        return fail(row, "crashed", "GPU command buffer error 14 <IOGPUCommandQueueErrorDomain> in step 4")
    if chance.random() < 0.04:
        return {**row, "tokens_per_s": row["tokens_per_s"] * 0.7, "flags": ["throttled"]}
    return {**row, "flags": ["short-energy-window"]} if row["energy_window_s"] < 10 else row


def as_schema_1(row: dict[str, Any]) -> dict[str, Any]:
    """The row as the first schema stored it."""
    return {name: value for name, value in row.items() if name not in NEW_IN_2} | {"schema_version": 1}


def toy_rows() -> Iterator[dict[str, Any]]:
    """What the smoke suite gives on a CPU: two tiny architectures in two sizes, both backends, one without counter; schema 1."""
    chance = random.Random(3)
    sizes = {"llama-tiny": 164_000, "llama-small": 524_000, "qwen3-tiny": 171_000, "qwen3-small": 540_000}
    for index, (model, parameters) in enumerate(sizes.items()):
        for method in BYTES_PER_PARAMETER:
            for backend in ("hf", "mlx"):
                for repeat in range(2):
                    rate = (900 if backend == "hf" else 1700) * 164_000 / parameters * chance.lognormvariate(0, 0.1)
                    row = make_run(
                        model, method, 2 * index + repeat, machine="intel-xeon-2-cores", backend=backend, device="cpu",
                        parameters=parameters, tokens_per_s=rate, step_s_median=64 / rate, load_s=0.4, suite="smoke",
                        framework_peak_bytes=None if backend == "hf" else 11 * parameters + 3_000_000,
                        host_peak_bytes=900_000_000 if backend == "hf" else 310_000_000,
                    )  # fmt: skip
                    yield as_schema_1(row)


def many_rows(count: int) -> list[dict[str, Any]]:
    """`count` rows of the lesson's grid swept over batch sizes."""
    rows = list(lesson_rows(3, tuple(range(1, 2 + count // (3 * 54)))))
    return rows[:count]


def steps_of(runs: pd.DataFrame, steps: int = 20) -> pd.DataFrame:
    """The steps of the ok runs: three of warm-up, the rest measured, one of them slow."""
    rows = []
    for run in runs[runs["outcome"] == "ok"].itertuples():
        for step in range(1, steps + 1):
            duration = run.step_s_median * (1.25 if step == 7 else 1.0)
            phase = "warmup" if step <= 3 else "measured"
            rows.append((run.run_id, step, phase, step * run.step_s_median, duration, 2048, 2047, 11.9 - step / 50, None))
    names = ["run_id", "step", "phase", "start_s", "duration_s", "tokens", "loss_tokens", "loss", "framework_peak_bytes"]
    return pd.DataFrame(rows, columns=names)


@pytest.fixture(scope="session")
def run_row() -> Callable[..., dict[str, Any]]:
    return make_run


@pytest.fixture(scope="session")
def failed_row() -> Callable[..., dict[str, Any]]:
    return lambda outcome, reason, **fields: fail(make_run(**fields), outcome, reason)


@pytest.fixture(scope="session")
def lesson_runs() -> pd.DataFrame:
    return pd.DataFrame(list(lesson_rows()))


@pytest.fixture(scope="session")
def toy_runs() -> pd.DataFrame:
    return pd.DataFrame(list(toy_rows()))


@pytest.fixture(scope="session")
def many_runs() -> pd.DataFrame:
    return pd.DataFrame(many_rows(1000))


@pytest.fixture(scope="session")
def lesson_steps(lesson_runs: pd.DataFrame) -> pd.DataFrame:
    return steps_of(lesson_runs)


@pytest.fixture(scope="session")
def make_steps() -> Callable[..., pd.DataFrame]:
    return steps_of


@pytest.fixture(scope="session")
def capacities() -> dict[str, int]:
    return dict(CAPACITIES)


@pytest.fixture(scope="session")
def powered_row() -> Callable[..., dict[str, Any]]:
    return lambda power_w=100.0, idle_w=10.0, **fields: {**powered(make_run(**fields), power_w, idle_w), **fields}


@pytest.fixture(scope="session")
def old_row() -> Callable[..., dict[str, Any]]:
    return lambda **fields: as_schema_1(make_run(**fields))
