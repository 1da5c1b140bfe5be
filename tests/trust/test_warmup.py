"""The rule against planted warm-ups: found where they are, told where there is no end, and what it must not trip over."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from bench.events import Warm
from bench.spec import Measure
from bench.trust.warmup import Rule, describe, judge, rule_of

RULE = rule_of(Measure())
STEPS = RULE.most + RULE.window
INDEX = np.arange(STEPS)
MIB = 2**20
Random = np.random.Generator


def warmed(durations_s: Sequence[float], peaks_bytes: Sequence[int | None] | None = None, rule: Rule = RULE) -> Warm:
    """What a session would be told: the first answer, asked before the first step and after every one."""
    peaks = [None] * len(durations_s) if peaks_bytes is None else peaks_bytes
    answers = (judge(durations_s[:told], peaks[:told], rule) for told in range(len(durations_s) + 1))
    return next(answer for answer in answers if answer is not None)


def noise(random: Random, spread: float) -> np.ndarray:
    return np.exp(random.normal(0, spread, STEPS))


def abrupt(length: int, random: Random) -> np.ndarray:
    """Every step 1.3 to 4 times as slow as it will be, and then no more."""
    return np.exp(random.uniform(np.log(1.3), np.log(4), length))


def decaying(length: int, random: Random) -> np.ndarray:
    """From three times as slow down to 10% slower at the last step of warm-up."""
    return 1 + np.geomspace(2, 0.1, length)


def ends(plant: Callable[[int, Random], np.ndarray], length: int, spreads: tuple[float, float], runs: int) -> np.ndarray:
    """Where the rule finds the end of a planted warm-up, run by run; a run told as never steady counts as far off."""
    random = np.random.default_rng(20)

    def simulated() -> Iterator[float]:
        for _ in range(runs):
            base = np.ones(STEPS)
            base[:length] = plant(length, random)
            warm = warmed(base * noise(random, random.uniform(*spreads)))
            yield np.inf if warm.troubles else warm.warmup_steps

    return np.fromiter(simulated(), float)


def unsteady_share(make: Callable[[Random], np.ndarray], runs: int = 300) -> float:
    random = np.random.default_rng(21)
    answers = [warmed(make(random)) for _ in range(runs)]
    assert all(not answer.troubles or answer == Warm(warmup_steps=RULE.most, troubles=("unsteady",)) for answer in answers)
    return float(np.mean([bool(answer.troubles) for answer in answers]))


def in_two_modes(random: Random) -> np.ndarray:
    return np.where(random.random(STEPS) < 0.5, 1.0, 1.3) * noise(random, 0.01)


def with_rare_pauses(random: Random) -> np.ndarray:
    return np.where(random.random(STEPS) < 0.05, 2.0, 1.0) * noise(random, 0.02)


def logging_every_tenth(random: Random) -> np.ndarray:
    return np.where((INDEX + random.integers(10)) % 10 == 0, 1.5, 1.0) * noise(random, 0.02)


@pytest.mark.parametrize("plant", [abrupt, decaying])
@pytest.mark.parametrize("length", [0, 3, 20])
def test_a_planted_warmup_is_found_within_two_steps_in_95_of_100_runs(
    plant: Callable[[int, Random], np.ndarray], length: int
) -> None:
    found = ends(plant, length, (0.005, 0.04), runs=800)
    assert np.mean(np.abs(found - length) <= 2) >= 0.95
    noisiest = ends(plant, length, (0.04, 0.04), runs=400)
    assert np.mean(np.abs(noisiest - length) <= 2) >= 0.93


@pytest.mark.parametrize(
    ("make", "least"),
    [
        (lambda random: 1.01**INDEX * noise(random, 0.01), 0.97),
        (lambda random: 0.99**INDEX * noise(random, 0.01), 0.97),
        (lambda random: np.where(INDEX % 2, 1.0, 1.2) * noise(random, 0.01), 1.0),
        (in_two_modes, 0.8),
        (lambda random: noise(random, 0.2), 0.95),
    ],
    ids=["slowing down for ever", "speeding up for ever", "every other step slow", "two modes at random", "20% noise"],
)
def test_steps_that_never_settle_are_told_at_the_ceiling(make: Callable[[Random], np.ndarray], least: float) -> None:
    assert unsteady_share(make) >= least


@pytest.mark.parametrize("make", [with_rare_pauses, logging_every_tenth, lambda random: noise(random, 0.05)])
def test_single_slow_steps_and_a_spread_within_the_limit_do_not_stop_it_from_settling(
    make: Callable[[Random], np.ndarray],
) -> None:
    assert unsteady_share(make) <= 0.01


def test_it_is_told_a_window_later_and_the_window_counts_as_measured() -> None:
    durations_s = [3.0, 2.0, 1.5, *[1.0] * 20]
    told = [judge(durations_s[:n], [None] * n, RULE) for n in range(len(durations_s))]
    first = next(n for n, answer in enumerate(told) if answer)
    assert (first, told[first]) == (13, Warm(warmup_steps=3))


def test_a_steady_warmup_longer_than_the_window_is_past_what_the_rule_can_see() -> None:
    plateau = [2.0] * 12 + [1.0] * 28
    assert warmed(plateau) == Warm(warmup_steps=2)
    assert warmed(plateau, rule=rule_of(Measure(warmup_steps=11))) == Warm(warmup_steps=12)


def test_growing_memory_is_waited_for_and_told_at_the_ceiling() -> None:
    steady = [1.0] * STEPS
    until_eight = [(1000 + 100 * min(step, 8)) * MIB for step in range(1, STEPS + 1)]
    assert warmed(steady, until_eight) == Warm(warmup_steps=7)
    for_ever = [(1000 + 3 * step) * MIB for step in range(STEPS)]
    assert warmed(steady, for_ever) == Warm(warmup_steps=RULE.most, troubles=("memory-growing",))
    both = warmed([1.05**step for step in range(STEPS)], for_ever)
    assert both == Warm(warmup_steps=RULE.most, troubles=("unsteady", "memory-growing"))


@pytest.mark.parametrize(
    "peaks_bytes",
    [[(1000 + step) * MIB for step in range(STEPS)], [50 * MIB + step * MIB // 2 for step in range(STEPS)], [0] * STEPS],
    ids=["a percent", "a little", "nothing held"],
)
def test_memory_that_creeps_within_bounds_is_no_growth(peaks_bytes: list[int]) -> None:
    assert warmed([1.0] * STEPS, peaks_bytes) == Warm(warmup_steps=2)


def test_memory_that_is_not_measured_is_not_judged() -> None:
    partly = [None if step % 3 else step * 100 * MIB for step in range(STEPS)]
    assert warmed([1.0] * STEPS, [None] * STEPS) == warmed([1.0] * STEPS, partly) == Warm(warmup_steps=2)


@pytest.mark.parametrize("length", [0, 4])
def test_a_fixed_warmup_ends_after_its_last_step_whatever_the_times(length: int) -> None:
    rule = rule_of(Measure(warmup_steps=length, warmup_max_steps=length, steps=5))
    wild = [1.0, 9.0, 1.0, 9.0, 1.0, 9.0]
    told = [judge(wild[:n], [None] * n, rule) for n in range(len(wild))]
    assert told == [None] * length + [Warm(warmup_steps=length)] * (len(wild) - length)


def test_fewer_steps_than_anyone_can_judge_count_as_unsteady() -> None:
    rule = rule_of(Measure(warmup_steps=1, warmup_max_steps=1, steps=4))
    assert judge([1.0], [None], rule) == Warm(warmup_steps=1, troubles=("unsteady",))


def test_a_window_is_never_longer_than_what_is_measured() -> None:
    assert rule_of(Measure(steps=6)) == Rule(least=2, most=30, window=6, spread=0.05)
    assert rule_of(Measure(steps=100, warmup_steps=7, steady_spread=0.1)) == Rule(least=7, most=30, window=10, spread=0.1)


@pytest.mark.parametrize("bounds", [{"steps": 4}, {"warmup_steps": 31}], ids=str)
def test_what_cannot_be_judged_is_refused(bounds: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"no warm-up of .* can be judged"):
        rule_of(replace(Measure(), **bounds))


@pytest.mark.parametrize("steps", [5, 6, 8])
def test_short_windows_find_the_end_of_a_clear_warmup_and_a_clear_drift(steps: int) -> None:
    rule = rule_of(Measure(steps=steps))
    clear = np.array([5.0, 4.0, 3.0, 2.0, *[1.0] * 36]) * noise(np.random.default_rng(3), 0.01)
    assert abs(warmed(clear, rule=rule).warmup_steps - 4) <= 2
    assert warmed(1.03**INDEX, rule=rule).troubles == ("unsteady",)


def test_a_wider_spread_lets_noisier_steps_pass() -> None:
    noisy = noise(np.random.default_rng(4), 0.12)
    assert warmed(noisy).troubles == ("unsteady",)
    assert warmed(noisy, rule=rule_of(Measure(steady_spread=0.15))).troubles == ()


def test_the_rule_is_described_in_one_line_with_its_bounds() -> None:
    line = describe(RULE)
    assert "\n" not in line
    for said in ("2 to 30 steps", "followed by 10", "5.0%", "1% + 8 MiB"):
        assert said in line
    assert describe(Rule(3, 3, 2, 0.05)) == "fixed: 3 steps, nothing judged"
