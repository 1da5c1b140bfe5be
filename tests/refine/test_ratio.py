"""The ratio of two machines taken apart: planted silicon and software are found, and unequal work is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from advised import MAC, PC
from claim_rows import rows, runs

from bench.analysis import sides
from bench.refine.ratio import of_machines, of_stacks, splits

SILICON, SOFTWARE, UNSLOTH = 5.0, 1.2, 1.5
"""The card over the Mac by MLX; hf over mlx on the card; unsloth over hf there."""
BASE = 100.0


def rates(value: float, seed: int, noise: float = 0.01) -> list[float]:
    return list(value * np.exp(noise * np.random.default_rng(seed).standard_normal(5)))


def arms(**changes) -> list:
    """mlx on both, hf and unsloth on the card; `changes` give other columns to the Mac's runs."""
    return [
        rows(MAC, rates(BASE, 1), **changes),
        rows(PC, rates(BASE * SILICON, 2), backend="mlx", device="cuda"),
        rows(PC, rates(BASE * SILICON * SOFTWARE, 3)),
        rows(PC, rates(BASE * SILICON * SOFTWARE * UNSLOTH, 4), backend="unsloth", device="cuda"),
    ]


def found(*groups):
    return sides(runs(*groups).frame, "tokens_per_s")


def test_planted_silicon_and_software_are_found_within_their_intervals() -> None:
    (split,) = splits(found(*arms()), PC, MAC)
    assert (split.stack, split.software_second) == ("mlx", None)
    assert split.silicon.low < SILICON < split.silicon.high
    assert split.software_first.low < SOFTWARE * UNSLOTH < split.software_first.high
    assert split.total.low < SILICON * SOFTWARE * UNSLOTH < split.total.high
    assert (split.total.above, split.total.below) == (f"unsloth@cuda on {PC}", f"mlx@metal on {MAC}")
    assert (split.silicon.above, split.silicon.below) == (f"mlx@cuda on {PC}", f"mlx@metal on {MAC}")


def test_the_parts_multiply_to_the_whole() -> None:
    groups = [
        *arms(),
        rows(MAC, rates(BASE * 0.7, 5), backend="unsloth", device="metal"),
        rows(MAC, rates(40, 6), backend="hf", device="mps"),
    ]
    made = splits(found(*groups), PC, MAC)
    assert [each.stack for each in made] == ["hf", "mlx", "unsloth"]
    for each in made:
        assert each.silicon.value * each.software == pytest.approx(each.total.value)
    hf, _, unsloth = made
    assert hf.software_first is not None
    assert hf.software_second.above == f"hf@mps on {MAC}"
    assert unsloth.software_first is None  # it is the best on the card itself


def test_the_machines_change_places() -> None:
    (one,), (other,) = splits(found(*arms()), PC, MAC), splits(found(*arms()), MAC, PC)
    assert one.silicon.value == pytest.approx(1 / other.silicon.value)
    assert one.software == pytest.approx(1 / other.software)


def test_without_a_control_arm_there_is_a_ratio_and_no_split() -> None:
    known = found(rows(MAC, rates(BASE, 1)), rows(PC, rates(BASE * 6, 3)))
    assert splits(known, PC, MAC) == ()
    (ratio,) = of_machines(known, PC, MAC)
    assert ratio.low < 6 < ratio.high


def test_unequal_work_makes_neither() -> None:
    known = found(*arms(work={"sequence_length": 1024}))
    assert splits(known, PC, MAC) == ()
    assert of_machines(known, PC, MAC) == ()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"tokens_digest": "other"}, "different tokens"),
        ({"trainable_parameters": 999}, "trainable"),
        ({"steps": 23}, "measured steps"),
    ],
)
def test_what_differs_in_the_runs_is_refused_with_the_reason(changes, why) -> None:
    (split,) = splits(found(*arms(**changes)), PC, MAC)
    for ratio in (split.total, split.silicon):
        assert ratio.value is None
        assert why in ratio.refused
    assert split.software_first.value == pytest.approx(SOFTWARE * UNSLOTH, rel=0.05)  # the card's own arms are still equal


def test_a_refused_part_leaves_no_factor_of_software() -> None:
    groups = arms()
    groups[1] = rows(PC, rates(BASE * SILICON, 2), backend="mlx", device="cuda", tokens_digest="other")
    (split,) = splits(found(*groups), PC, MAC)
    assert (split.software, split.silicon.value) == (None, None)
    assert split.total.value is not None


def test_stand_ins_and_the_cpu_are_no_arms() -> None:
    held = rows(PC, rates(500, 2), flags=["limited"], device_settings=[("memory_like", PC)], tier="stand-in")
    on_cpu = rows(PC, rates(3, 2), backend="mlx", device="cpu")
    assert of_machines(found(rows(MAC, rates(BASE, 1)), held, on_cpu), PC, MAC) == ()


def test_stacks_on_one_machine_the_faster_above() -> None:
    found_ = of_stacks(found(*arms()), PC)
    assert [(each.above.partition("@")[0], each.below.partition("@")[0]) for each in found_] == [
        ("unsloth", "hf"), ("unsloth", "mlx"), ("hf", "mlx"),
    ]  # fmt: skip
    assert found_[0].low < UNSLOTH < found_[0].high


def test_one_run_a_side_has_no_interval() -> None:
    (ratio,) = of_machines(found(rows(MAC, [100.0]), rows(PC, [700.0])), PC, MAC)
    assert (ratio.value, ratio.low, ratio.high) == (pytest.approx(7.0), None, None)
    assert not math.isnan(ratio.value)
    assert len(ratio.evidence) == 2
