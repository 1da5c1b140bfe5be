"""Runs as evidence: which of them may judge a claim, and what they say."""

from __future__ import annotations

import math

import pytest
from claim_rows import MAC, PC, claim, rows, runs

from bench.claims import measured
from bench.claims.claim import Side

FAST, SLOW = [290.0, 300.0, 310.0], [99.0, 100.0, 101.0]
SPEED = claim("ratio", quantity="tokens_per_s", expected=(2, 4), unit="×", sides=(PC, MAC))
PEAK = claim("value", quantity="peak_bytes", expected=(18e9, 18e9), unit="GB")


def test_a_ratio_of_equal_work_has_its_interval_and_its_runs():
    (found,) = measured.estimates(SPEED, runs(rows("pc-rtx-4090", FAST), rows("mac-studio-m3-ultra", SLOW)))
    assert (found.refused, found.n, len(found.evidence)) == (None, 3, 6)
    assert found.low < 3 < found.high
    assert found.value == pytest.approx(3, rel=0.01)
    assert found.sides == pytest.approx((300, 100), rel=0.01)
    assert found.value == pytest.approx(found.sides[0] / found.sides[1])


def test_the_best_stack_of_each_machine_counts():
    unsloth = rows("pc-rtx-4090", [600.0, 610.0, 590.0], backend="unsloth")
    (found,) = measured.estimates(SPEED, runs(rows("pc-rtx-4090", FAST), unsloth, rows("mac-studio-m3-ultra", SLOW)))
    assert found.value == pytest.approx(6, rel=0.01)
    assert found.who.startswith("unsloth@cuda")


def test_unequal_work_is_refused_with_the_reason():
    (found,) = measured.estimates(
        SPEED, runs(rows("pc-rtx-4090", FAST), rows("mac-studio-m3-ultra", SLOW, work={"sequence_length": 1024}))
    )
    assert (found.value, found.refused) == (None, "the work differs: sequence_length 2048 against 1024")


def test_work_under_other_conditions_is_shown_and_judges_nothing():
    short = {"sequence_length": 512}
    (found,) = measured.estimates(
        SPEED, runs(rows("pc-rtx-4090", FAST, work=short), rows("mac-studio-m3-ultra", SLOW, work=short))
    )
    assert found.refused == "under other conditions: sequence_length 512"
    assert found.value == pytest.approx(3, rel=0.01)


@pytest.mark.parametrize("flag", ["throttled", "unsteady"])
def test_flagged_runs_are_left_out(flag):
    flagged = rows("pc-rtx-4090", FAST, flags=[flag])
    assert measured.estimates(SPEED, runs(flagged, rows("mac-studio-m3-ultra", SLOW))) == []


def test_invalid_runs_are_left_out():
    invalid = rows("pc-rtx-4090", FAST, outcome="invalid")
    assert measured.estimates(SPEED, runs(invalid, rows("mac-studio-m3-ultra", SLOW))) == []


def test_a_stand_in_says_nothing_of_speed():
    held = rows("pc-rtx-4090", FAST, tier="stand-in", flags=["limited"], capacity_bytes=25e9)
    assert measured.estimates(SPEED, runs(held, rows("mac-studio-m3-ultra", SLOW))) == []


def test_a_peak_is_the_frameworks_own():
    """What the system saw of a process beside no counter is another quantity: it judges no arithmetic of tensors."""
    both = rows("pc-rtx-4090", [1.0, 1.0], framework_peak_bytes=17e9, host_peak_bytes=3e9)
    host = rows("computer", [1.0, 1.0], host_peak_bytes=20e9)
    found = measured.estimates(PEAK, runs(both, host))
    assert [(each.value, each.conditions) for each in found] == [(17e9, "framework_peak_bytes, clean runs")]


def test_a_peak_by_parameters():
    rule = claim("range", quantity="peak_bytes_per_parameter", expected=(2, 2.5), unit="GB per 1B")
    (found,) = measured.estimates(rule, runs(rows("pc-rtx-4090", [1.0], framework_peak_bytes=8_030_261_248 * 2.25)))
    assert found.value == pytest.approx(2.25)
    assert found.low is None


def test_parts_come_from_the_readings():
    made = rows("pc-rtx-4090", [1.0, 1.0], method="full")
    parts = {
        row["run_id"]: {"weights": 6e9, "gradients": 2e9, "optimizer": 1e9, "activations": 1e9, "logits": 5e9} for row in made
    }
    share = claim("order", quantity="parts_over_rest", expected=(1, None), methods=("full",))
    weights = claim("value", quantity="weights_bytes_per_parameter", expected=(2, 2), unit="GB per 1B", methods=("full",))
    (found,) = measured.estimates(share, runs(made, parts=parts))
    assert (found.value, found.n) == (pytest.approx(2), 2)
    (found,) = measured.estimates(weights, runs(made, parts=parts))
    assert found.value == pytest.approx(6e9 / 8_030_261_248)


def test_watts_of_another_scope_judge_nothing():
    power = claim("value", quantity="power_w", expected=(160, 160), unit="W", sides=(MAC,), scope="wall")
    inner = rows("mac-studio-m3-ultra", SLOW, power_w=90.0, power_scope="soc")
    (found,) = measured.estimates(power, runs(inner))
    assert found.refused == "its watts cover soc, the claim's wall"


def test_the_share_of_memory_is_the_machines_own_word():
    share = claim("value", quantity="capacity_share", expected=(0.75, 0.75), unit="%", sides=(MAC,), models=(), methods=())
    (found,) = measured.estimates(share, runs(rows("mac-studio-m3-ultra", SLOW, capacity_bytes=80.0, memory_bytes=100.0)))
    assert (found.value, found.n) == (0.8, 3)


FIT = claim("fit", fits="yes", sides=(PC,))


@pytest.mark.parametrize(
    ("fields", "value", "tier"),
    [
        ({}, 1.0, "measured"),
        ({"outcome": "oom_device"}, 0.0, "measured"),
        ({"flags": ["swapping"]}, 0.0, "measured"),
        (
            {"tier": "stand-in", "flags": ["limited"], "device_settings": [("memory_like", "pc-rtx-4090")], "machine": "h200"},
            1.0,
            "stand-in",
        ),
    ],
)
def test_whether_it_fits(fields, value, tier):
    (found,) = measured.estimates(FIT, runs(rows("pc-rtx-4090", [1.0, 1.0], capacity_bytes=25e9, **fields)))
    assert (found.value, found.tier, found.refused) == (value, tier, None)


@pytest.mark.parametrize("fields", [{"outcome": "crashed"}, {"flags": ["growing"]}, {"machine": "another"}])
def test_what_says_nothing_of_fit(fields):
    assert measured.estimates(FIT, runs(rows("pc-rtx-4090", [1.0], **fields))) == []


def test_what_swapped_is_known_to_have_run_on():
    (found,) = measured.estimates(FIT, runs(rows("pc-rtx-4090", [1.0], flags=["swapping"])))
    assert (found.value, found.slow) == (0.0, True)


def test_room_is_what_the_largest_peak_left():
    (found,) = measured.estimates(
        FIT, runs(rows("pc-rtx-4090", [1.0], framework_peak_bytes=15e9, device_peak_bytes=20e9, capacity_bytes=25e9))
    )
    assert found.headroom == pytest.approx(0.2)


WINNER = claim("winner", winner="first", sides=(PC, MAC))


def test_the_faster_one_wins_where_both_can():
    (found,) = measured.estimates(WINNER, runs(rows("pc-rtx-4090", FAST), rows("mac-studio-m3-ultra", SLOW)))
    assert found.value == pytest.approx(3, rel=0.01)


def test_the_only_one_that_can_wins():
    (found,) = measured.estimates(
        WINNER, runs(rows("pc-rtx-4090", FAST, outcome="oom_device"), rows("mac-studio-m3-ultra", SLOW))
    )
    assert found.value == 0.0
    (found,) = measured.estimates(
        WINNER, runs(rows("pc-rtx-4090", FAST), rows("mac-studio-m3-ultra", SLOW, outcome="oom_device"))
    )
    assert math.isinf(found.value)


def test_what_neither_can_do_is_told():
    out = [rows(place, FAST, outcome="oom_device") for place in ("pc-rtx-4090", "mac-studio-m3-ultra")]
    (found,) = measured.estimates(WINNER, runs(*out))
    assert math.isnan(found.value)
    assert found.conditions == "neither can"


def test_a_side_may_name_a_backend():
    ladder = claim("ratio", quantity="tokens_per_s", expected=(2, 2), unit="×", sides=(
        Side(machines=("pc-rtx-4090",), backends=("unsloth",)), Side(machines=("pc-rtx-4090",), backends=("hf",))
    ))  # fmt: skip
    unsloth = rows("pc-rtx-4090", [600.0, 610.0, 590.0], backend="unsloth")
    (found,) = measured.estimates(ladder, runs(rows("pc-rtx-4090", FAST), unsloth))
    assert found.value == pytest.approx(2, rel=0.01)


def test_no_runs_say_nothing():
    assert measured.estimates(SPEED, measured.Runs(runs(rows("pc-rtx-4090", [])).frame, {})) == []


def test_runs_under_other_conditions_never_stand_in_the_way_of_the_claims_own():
    short = {"sequence_length": 512}
    groups = [rows("pc-rtx-4090", FAST), rows("mac-studio-m3-ultra", SLOW)]
    groups += [rows("pc-rtx-4090", [9000.0], work=short), rows("mac-studio-m3-ultra", [8000.0], work=short)]
    own, other = measured.estimates(SPEED, runs(*groups))
    assert (own.refused, other.refused) == (None, "under other conditions: sequence_length 512")
    assert own.value == pytest.approx(3, rel=0.01)


@pytest.mark.parametrize(("backend", "device"), [("mlx", "cuda"), ("hf", "cpu"), ("fake", "cpu")])
def test_a_machine_is_judged_by_its_owners_stacks_unless_a_side_names_another(backend, device):
    """A control arm, the processor beside the card and the fake backend are none of them."""
    other = rows("pc-rtx-4090", FAST, backend=backend, device=device)
    assert measured.estimates(SPEED, runs(other, rows("mac-studio-m3-ultra", SLOW))) == []
    assert measured.estimates(FIT, runs(other)) == []


def test_a_name_alone_is_no_model():
    """Somebody's tiny architecture called llama-3.1-8b."""
    tiny = rows("pc-rtx-4090", FAST, parameters=1000, framework_peak_bytes=1e6)
    assert measured.estimates(PEAK, runs(tiny)) == []
    assert measured.estimates(FIT, runs(tiny)) == []


@pytest.mark.parametrize("outcomes", [["ok", "oom_device"], ["oom_device"]])
def test_a_machine_some_of_whose_runs_did_it_has_not_lost(outcomes):
    hf = rows("pc-rtx-4090", [1.0] * len(outcomes))
    for row, outcome in zip(hf, outcomes, strict=True):
        row["outcome"] = outcome
    unsloth = rows("pc-rtx-4090", [1.0], backend="unsloth", outcome="oom_device")
    found = measured.estimates(WINNER, runs(hf, unsloth, rows("mac-studio-m3-ultra", SLOW)))
    assert [each.value for each in found] == ([] if "ok" in outcomes else [0.0])


def test_parts_that_cannot_be_are_left_out():
    made = rows("pc-rtx-4090", [1.0], method="full")
    for size in (-1.0, math.inf, 1e308):
        parts = {made[0]["run_id"]: {"weights": size, "gradients": 1.0, "optimizer": 1.0, "activations": 1.0, "logits": 1.0}}
        share = claim("order", quantity="parts_over_rest", expected=(1, None), methods=("full",))
        assert measured.estimates(share, runs(made, parts=parts)) == []
