"""Rates and watts from a profile."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from bench.catalog import MachineProfile, catalogue
from bench.limits import profile_of
from bench.predict.fractions import Fractions, Load
from bench.predict.speed import Z80, Drawn, phase_seconds, power, speed, stack_of, tokens_per_s
from bench.predict.work import work
from bench.spec import Cell, workload

FRACTIONS = Fractions(matrix=0.5, bandwidth=0.8, spread=0.2, rows=3, sources=2)
CALIBRATION = {("hf", "ada"): FRACTIONS, ("any", "any"): replace(FRACTIONS, matrix=0.25)}


def cell(model: str = "llama-3.1-8b", backend: Any = "hf", device: Any = "cuda", **declared: Any) -> Cell:
    return Cell(workload(model=catalogue().models[model], **{"method": "lora", **declared}), backend, device)


def machine(name: str) -> MachineProfile:
    found = profile_of(name)
    assert found is not None
    return found


def test_a_large_step_takes_its_products_at_the_reached_rate() -> None:
    card, asked = machine("pc-rtx-4090"), cell()
    found = speed(asked, card, CALIBRATION)
    flops = sum(phase.matrix_flops for phase in work(asked).values())
    moved = sum(phase.moved_bytes for phase in work(asked).values())
    expected = flops / (0.5 * 165.2e12) + moved / (0.8 * 1008e9)
    assert found.seconds is not None
    assert found.tokens_per_s == pytest.approx(2048 / expected)
    assert found.tokens_per_s == pytest.approx(2048 / sum(found.seconds.values()))


def test_the_interval_is_eighty_per_cent_in_the_logarithm() -> None:
    found = speed(cell(), machine("pc-rtx-4090"), CALIBRATION)
    assert found.tokens_per_s
    assert found.tokens_per_s_low
    assert found.tokens_per_s_high
    assert math.log(found.tokens_per_s_high / found.tokens_per_s) == pytest.approx(Z80 * 0.2)
    assert found.tokens_per_s_low * found.tokens_per_s_high == pytest.approx(found.tokens_per_s**2)


def test_small_models_wait_for_their_kernels_to_be_started() -> None:
    card = machine("h200")
    slow = speed(cell("tiny-llama-xs"), card, CALIBRATION).tokens_per_s
    fast = speed(cell("tiny-llama-xs"), replace(card, launch_s=1e-9), CALIBRATION).tokens_per_s
    assert slow is not None
    assert fast is not None
    assert fast > 10 * slow


def test_decoding_is_bound_by_bandwidth() -> None:
    card, asked = machine("pc-rtx-4090"), cell(method="serve", prompt_tokens=512, generated_tokens=2)
    found = speed(asked, card, CALIBRATION)
    assert found.seconds is not None
    assert found.seconds["decode"] == pytest.approx(work(asked)["decode"].operand_bytes / (0.8 * 1008e9))
    assert found.prefill_tokens_per_s
    assert found.tokens_per_s
    assert found.prefill_tokens_per_s > 10 * found.tokens_per_s


def test_sixty_cores_are_slower_than_eighty() -> None:
    rates = [
        speed(cell(backend="mlx", device="metal"), machine(name), CALIBRATION).tokens_per_s or 0
        for name in ("mac-studio-m3-ultra", "mac-studio-m3-ultra-80-core")
    ]
    assert rates[0] == pytest.approx(0.75 * rates[1], rel=0.1)


def test_watts_go_from_idle_to_load_and_have_a_scope() -> None:
    card, load = machine("pc-rtx-4090"), Load(share=0.8, spread=0.1, rows=2, sources=2)
    busy = power(card, 1.0, load)
    assert (busy.middle_w, busy.scope, busy.notes) == (400, "gpu-board", ())
    assert power(card, 0.0, load).middle_w == 20
    unread = power(machine("h200"), 1.0, load)
    assert (unread.middle_w, unread.scope) == (pytest.approx(560), "gpu-board")
    assert "no reading of this one" in unread.notes[0]
    assert power(machine("mac-m3-pro-18gb"), 1.0, load) == Drawn()


def test_the_interval_of_watts_ends_at_the_limit_and_closes_at_rest() -> None:
    card, load = machine("pc-rtx-4090"), Load(share=0.8, spread=0.1, rows=2, sources=2)
    busy = power(card, 1.0, load)
    assert busy.low_w == pytest.approx(400 / math.exp(0.1 * Z80))
    assert busy.high_w == 450
    rest = power(card, 0.0, load)
    assert rest.low_w == rest.middle_w == rest.high_w == 20
    found = speed(cell(), card, CALIBRATION, load)
    assert found.power_low_w
    assert found.power_w
    assert found.power_high_w
    assert found.power_low_w < found.power_w < found.power_high_w <= 450


def test_the_rate_alone_is_the_middle_of_the_whole() -> None:
    card, asked = machine("pc-rtx-4090"), cell()
    assert tokens_per_s(asked, card, FRACTIONS) == speed(asked, card, CALIBRATION).tokens_per_s
    assert tokens_per_s(asked, replace(card, memory_bytes_per_s=None), FRACTIONS) is None


def test_joules_are_watts_over_the_rate() -> None:
    found = speed(cell(), machine("pc-rtx-4090"), CALIBRATION)
    assert found.j_per_token
    assert found.power_w
    assert found.tokens_per_s
    assert found.j_per_token == pytest.approx(found.power_w / found.tokens_per_s)
    served = speed(cell(method="serve", generated_tokens=10), machine("pc-rtx-4090"), CALIBRATION)
    assert served.j_per_token
    assert served.power_w
    assert served.seconds
    assert served.j_per_token == pytest.approx(served.power_w * sum(served.seconds.values()) / 10)


def test_what_is_not_known_is_not_said() -> None:
    card = machine("pc-rtx-4090")
    assert speed(cell(), None, CALIBRATION).tokens_per_s is None
    assert speed(cell(device="cpu"), card, CALIBRATION).tokens_per_s is None
    assert "no speed" in speed(cell(), replace(card, memory_bytes_per_s=None), CALIBRATION).notes[0]
    assert "assumed" in speed(cell(), card, {}).notes[0]


def test_float32_products_run_at_their_own_rate() -> None:
    card = machine("a100-80gb")
    narrow, wide = (phase_seconds(asked, card, FRACTIONS, work(asked)) or {} for asked in (cell(), cell(weights_dtype="float32")))
    assert wide["forward"] > 8 * narrow["forward"]


def test_unsloth_on_apple_silicon_is_mlx() -> None:
    assert stack_of(cell(backend="unsloth", device="metal")) == "mlx"
    assert stack_of(cell(backend="unsloth")) == "unsloth"
