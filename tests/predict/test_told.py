"""A prediction in words."""

from dataclasses import replace

import pytest

from bench.catalog import catalogue, machine_profiles
from bench.predict.answer import predict
from bench.predict.told import amount, describe, foretold, rate, shortage
from bench.spec import Cell, workload

PC = next(profile for profile in machine_profiles() if profile.name == "pc-rtx-4090")


def found_of(method="qlora", **declared):
    cell = Cell(workload(model=catalogue().models["llama-3.1-8b"], method=method, **declared), "hf", "cuda")
    return cell, predict(cell, PC)


def test_a_reader_sees_parts_total_interval_fit_rate_and_how():
    text = describe(*found_of(), "pc-rtx-4090")
    assert text.splitlines()[0].startswith(
        "llama-3.1-8b/qlora/hf@cuda on pc-rtx-4090: 1 × 2048 tokens, with gradient checkpointing"
    )
    for part in ("weights  ", "adapters ", "optimizer ", "activations ", "peak ", "held ", "speed ", "power ", "by rules"):
        assert part in text
    assert "pc-rtx-4090 gives a process 25.4 GB: fits (probability" in text


def test_watts_have_their_interval_scope_and_joules():
    cell, found = found_of()
    speed = replace(found.speed, power_w=400.0, power_low_w=360.0, power_high_w=440.0, power_scope="gpu-board", j_per_token=0.5)
    text = describe(cell, replace(found, speed=speed), "pc-rtx-4090")
    assert "power             400 W (360 to 440), gpu-board; 0.5 J a token" in text


def test_what_does_not_fit_is_said_to_and_its_rate_is_hypothetical():
    text = describe(*found_of("full"), "pc-rtx-4090")
    assert "does not fit" in text
    assert "were it to fit" in text


def test_serving_names_its_own_parts():
    text = describe(*found_of("serve"), "pc-rtx-4090")
    assert "512 tokens of prompt, 128 generated" in text
    assert "keys and values" in text
    assert "tokens/s generated" in text


def test_an_unknown_capacity_is_said_to_be():
    cell, found = found_of()
    text = describe(cell, replace(found, capacity_bytes=None, fit_probability=None), "somewhere")
    assert "how much somewhere can give is not known" in text


def test_the_reason_for_skipping_names_need_interval_and_capacity():
    _, found = found_of("full")
    memory = replace(found.memory, held_bytes=141 * 10**9, held_low_bytes=125 * 10**9, held_high_bytes=160 * 10**9)
    reason = shortage(replace(found, memory=memory))
    assert reason.startswith("needs about 141 GB (125 to 160) by prediction, and this machine gives a process 25.4 GB")
    assert "--try-anyway" in reason


def test_a_plans_line_says_it_in_a_few_words():
    _, found = found_of("full")
    assert foretold(found).startswith(
        f"peak {found.memory.peak_bytes / 1e9:.2f} GB, held {found.memory.held_bytes / 1e9:.2f} GB, fits: no (0.00), "
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(7.5568e9, "7.56 GB"), (17_039_360, "17 MB"), (361_000, "361 kB"), (16, "16 bytes"), (1, "1 byte"), (0, "0 bytes")],
)
def test_amounts_have_their_fitting_unit(value, text):
    assert amount(value) == text


@pytest.mark.parametrize(("value", "text"), [(1399.6, "1,400"), (53.94, "53.9"), (12_345_678, "1.23e+07")])
def test_rates_have_three_digits(value, text):
    assert rate(value) == text
