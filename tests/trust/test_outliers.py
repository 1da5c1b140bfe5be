"""Outliers by the modified z-score, on either side, marked and never dropped."""

import pytest

from bench.record import Step, StepPhase
from bench.trust.outliers import marked, outlying


def step(number: int, duration_s: float, phase: StepPhase = "measured") -> Step:
    return Step(step=number, phase=phase, start_s=0, duration_s=duration_s, tokens=1, loss_tokens=1, loss=1.0)


@pytest.mark.parametrize(
    ("values", "which"),
    [
        ([], []),
        ([1.0], []),
        ([1.0, 9.0], []),
        ([1.0] * 9, []),
        ([1.0, 1.1, 0.9, 1.05, 0.95, 3.0], [5]),
        ([1.0, 1.1, 0.9, 1.05, 0.95, 0.1], [5]),
        ([1.0, 1.1, 0.9, 1.05, 0.95, 1.2], []),
        ([1.0, 1.1, 0.9, 1.05, 0.95, 3.0, 4.0], [5, 6]),
    ],
    ids=["none", "one", "two", "equal", "slow", "fast", "near", "two slow"],
)
def test_what_stands_apart(values: list[float], which: list[int]) -> None:
    assert [index for index, found in enumerate(outlying(values)) if found] == which


def test_the_cut_is_at_three_and_a_half_modified_z() -> None:
    """Median 0, MAD 1: the score is 0.6745 times the value, so the cut lies at 5.189."""
    around = [-2.0, -1.0, -1.0, 0.0, 1.0, 1.0]
    assert outlying([*around, 5.18])[-1] is False
    assert outlying([*around, 5.20])[-1] is True


def test_where_most_values_are_equal_the_mean_deviation_takes_the_place_of_mad() -> None:
    """One of n at a distance d: the mean deviation is d/n, the score n/1.2533, over 3.5 from n = 5."""
    assert outlying([1.0, 1.0, 1.0, 2.0]) == [False] * 4
    assert outlying([1.0, 1.0, 1.0, 1.0, 2.0]) == [False] * 4 + [True]


def test_measured_steps_are_marked_among_themselves_and_none_is_lost() -> None:
    """A slow warm-up is neither marked nor makes the measured steps look fast."""
    warmup = [step(1, 50.0, "warmup"), step(2, 9.0, "warmup")]
    measured = [step(3 + index, duration_s) for index, duration_s in enumerate([1.0, 1.1, 0.9, 1.05, 0.95, 3.0])]
    found = marked([*warmup, *measured])
    assert [each.step for each in found] == list(range(1, 9))
    assert [each.step for each in found if each.outlier] == [8]
    assert found[:2] == warmup


def test_prefills_stand_among_prefills_and_decodes_among_decodes() -> None:
    """Decodes of a second each, prefills of a tenth; one of either is slow. Together, neither would stand apart."""
    found = marked(
        [
            each
            for number in range(1, 9)
            for each in (
                step(number, 0.3 if number == 4 else 0.1 + number / 1000, "prefill"),
                step(number, 3.0 if number == 6 else 1.0 + number / 100, "decode"),
            )
        ]
    )
    assert [(each.step, each.phase) for each in found if each.outlier] == [(4, "prefill"), (6, "decode")]
    assert [each.phase for each in found] == ["prefill", "decode"] * 8


def test_steps_without_measured_ones_stay_as_they_are() -> None:
    warmup = [step(1, 50.0, "warmup")]
    assert marked(warmup) == warmup
    assert marked([]) == []
