"""Lines of memory: planted coefficients are found within their intervals, as often as these say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.refine.memory import Group, Row, rule, rules

GROUP = Group("lora", "hf", "cuda", "adamw", True, "measured")
SIZES, TOKENS = (1.2e9, 4e9, 8e9, 14.8e9, 32.8e9, 70.6e9), (512.0, 2048.0, 8192.0)
FIXED, SLOPE, TOKEN = 0.9e9, 2.1, 3e5


def planted(noise: float, seed: int = 0, tokens=TOKENS, group: Group = GROUP) -> list[Row]:
    random = np.random.default_rng(seed)
    return [
        Row(group, size, count, (FIXED + SLOPE * size + TOKEN * count) * float(np.exp(noise * random.standard_normal())))
        for size in SIZES
        for count in tokens
    ]


def test_without_noise_the_planted_line_is_found() -> None:
    found = rule(planted(0.0))
    assert (found.fixed.value, found.per_parameter.value, found.per_token.value) == pytest.approx((FIXED, SLOPE, TOKEN))
    assert found.rms_share < 1e-9
    assert found.at(8e9, 2048) == pytest.approx(FIXED + SLOPE * 8e9 + TOKEN * 2048)


def test_the_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Of 400 sweeps with 3% of noise, 95% of each interval: 92 to 98% is what 400 draws of it give."""
    held = np.zeros(3)
    for seed in range(400):
        found = rule(planted(0.03, seed))
        pairs = zip((found.fixed, found.per_parameter, found.per_token), (FIXED, SLOPE, TOKEN), strict=True)
        held += [each.low <= truth <= each.high for each, truth in pairs]
    assert held / 400 == pytest.approx(0.95, abs=0.035)


def test_residuals_are_shares_of_the_rows_and_add_up_to_the_root_mean_square() -> None:
    rows = planted(0.03)
    found = rule(rows)
    assert [each.row for each in found.residuals] == rows
    for each in found.residuals:
        assert each.share == pytest.approx(1 - found.at(each.row.parameters, each.row.tokens) / each.row.peak_bytes)
    assert found.rms_share == pytest.approx(np.sqrt(np.mean([each.share**2 for each in found.residuals])))
    assert abs(found.worst_share) == max(abs(each.share) for each in found.residuals)
    assert found.describes
    assert found.told_apart
    assert not found.level


def test_small_models_count_as_much_as_large_ones() -> None:
    """A tenth amiss at 1B moves the fixed part; by bytes it would drown in the largest."""
    rows = planted(0.0)
    moved = [replace(row, peak_bytes=row.peak_bytes * 1.1) if row.parameters == SIZES[0] else row for row in rows]
    assert rule(moved).fixed.value > 1.2 * FIXED


def test_tokens_that_do_not_vary_have_no_slope() -> None:
    found = rule(planted(0.0, tokens=(2048.0,)))
    assert found.per_token is None
    assert found.fixed.value == pytest.approx(FIXED + TOKEN * 2048)


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_peaks_that_no_length_changes_have_no_slope_and_are_described(noise: float) -> None:
    """As a full fine-tune's, fullest in the optimizer's step: the interval of a slope then holds zero, and little else."""
    found = rule(without_tokens(noise))
    assert (found.level, found.per_token) == (True, None)
    assert found.describes
    assert found.told_apart
    assert (found.fixed.value, found.per_parameter.value) == pytest.approx((FIXED, SLOPE), rel=0.05)


def test_without_its_slope_the_line_is_that_of_the_other_columns() -> None:
    rows = without_tokens(0.01)
    bare = rule([replace(row, tokens=2048.0) for row in rows])
    found = rule(rows)
    assert (found.fixed, found.per_parameter) == (bare.fixed, bare.per_parameter)
    assert found.at(8e9, 512) == found.at(8e9, 8192)


def test_a_slope_that_is_merely_unknown_is_not_taken_for_none() -> None:
    """So much noise that a token may cost nothing or much: the rows leave it open."""
    found = rule(without_tokens(0.1))
    assert not found.level
    assert found.per_token.low < 0 < found.per_token.high
    assert (found.describes, found.told_apart) == (True, False)


def test_memory_that_shrinks_with_tokens_is_no_rule() -> None:
    rows = [replace(row, peak_bytes=row.peak_bytes - 6e4 * row.tokens) for row in without_tokens(0.0)]
    found = rule(rows)
    assert found.per_token.value == pytest.approx(-6e4)
    assert (found.level, found.told_apart) == (False, False)


def test_what_no_line_says_stays_undescribed_without_a_slope_too() -> None:
    """Peaks that have nothing to do with tokens, and little with size."""
    found = rule([replace(row, peak_bytes=row.peak_bytes * 2 ** (-1) ** place) for place, row in enumerate(without_tokens(0.0))])
    assert not found.describes


def without_tokens(noise: float) -> list[Row]:
    return [replace(row, tokens=length) for row, length in zip(planted(noise, tokens=(0.0,) * 3), TOKENS * 6, strict=True)]


def test_what_goes_along_with_another_is_not_told_apart() -> None:
    rows = [Row(GROUP, size, size / 1e6, 2.0 * size + 1e9) for size in SIZES]
    found = rule(rows)
    assert (found.per_token, found.per_parameter.value) == (None, pytest.approx(2.0))


def test_a_slope_alone() -> None:
    rows = [Row(GROUP, size, 0.0, 2.0 * size) for size in SIZES]
    found = rule(rows, fixed=False)
    assert (found.fixed, found.per_token, found.per_parameter.value) == (None, None, pytest.approx(2.0))


def test_rows_without_one_to_spare_have_no_interval() -> None:
    found = rule(planted(0.0, tokens=(2048.0,))[:2])
    assert (found.per_parameter.low, found.per_parameter.high) == (None, None)
    assert found.per_parameter.value == pytest.approx(SLOPE)


def test_no_rows_make_no_line_and_one_makes_a_fixed_part() -> None:
    assert rule([]) is None
    assert rule(planted(0.0)[:1]).per_parameter is None


def test_groups_and_tiers_are_never_pooled() -> None:
    other = replace(GROUP, tier="published")
    found = rules([*planted(0.0), *planted(0.05, group=other)])
    assert [each.group.tier for each in found] == ["measured", "published"]
    assert found[0].rms_share < 1e-9
    with pytest.raises(ValueError, match="several groups"):
        rule([*planted(0.0), *planted(0.0, group=other)])


def test_a_peak_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="above zero"):
        rule([Row(GROUP, 1e9, 1.0, 0.0)])


def test_units_scale_coefficients_and_nothing_else() -> None:
    rows = planted(0.03)
    small = rule([replace(row, peak_bytes=row.peak_bytes / 1e9) for row in rows])
    large = rule(rows)
    assert small.per_parameter.high == pytest.approx(large.per_parameter.high / 1e9)
    assert small.rms_share == pytest.approx(large.rms_share)


def test_the_order_of_rows_does_not_matter() -> None:
    rows = planted(0.03)
    assert rules(rows)[0].per_token == rules(rows[::-1])[0].per_token
