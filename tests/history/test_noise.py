"""The noise about a night: pooled, local where it has grown, and what it excludes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import t

from bench.history.noise import NIGHTS_AFTER, NIGHTS_BEFORE, Nights, Noise
from bench.history.stretches import NOISE_FLOOR, Stretch


def nights(logs: np.ndarray, *borders: int) -> Nights:
    edges = [0, *borders, len(logs)]
    return Nights(logs, [Stretch(a, b, float(logs[a:b].mean())) for a, b in pairwise(edges)])


def made(*parts: tuple[int, float], seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.concatenate([random.normal(0, noise, count) for count, noise in parts])


def test_the_noise_is_that_within_the_stretches() -> None:
    logs = made((20, 0.01), (10, 0.01))
    logs[20:] += 0.1
    squares = 20 * logs[:20].var() + 10 * logs[20:].var()
    assert nights(logs, 20).noise(20) == Noise(pytest.approx(np.sqrt(squares / 28)), 28)


def test_equal_nights_prove_no_noise_of_zero() -> None:
    assert nights(np.zeros(20), 10).noise(10) == Noise(NOISE_FLOOR, 18)


def test_later_nights_change_nothing_about_an_old_change() -> None:
    logs = made((100, 0.01), (200, 0.05))
    noise = nights(logs[: 50 + NIGHTS_AFTER], 50).noise(50)
    assert nights(logs, 50, 100).noise(50).degrees == noise.degrees
    assert nights(logs, 200).noise(200).degrees == NIGHTS_BEFORE + NIGHTS_AFTER - 2


def test_noise_that_has_grown_counts_and_a_quiet_night_does_not_shrink_it() -> None:
    assert nights(made((60, 0.005), (12, 0.03)), 60).noise(60).deviation > 0.02
    assert nights(made((60, 0.03), (12, 0.005)), 60).noise(60).deviation > 0.025


def test_the_t_test_is_students_to_one_side() -> None:
    noise = Noise(0.01, 20)
    edge = 0.01 * 0.5 * t.isf(1e-4, 20)
    assert noise.excludes(edge * 1.001, 0.5, 1e-4)
    assert noise.excludes(-edge * 1.001, 0.5, 1e-4)
    assert not noise.excludes(edge * 0.999, 0.5, 1e-4)
    assert noise.reach(0.5) == pytest.approx(0.01 * 0.5 * t.isf(0.025, 20))


def test_two_nights_three_quarters_of_the_way_show_a_level() -> None:
    logs = nights(np.array([0.0] * 6 + [0.074, 0.1, 0.076]), 6)
    assert logs.show(6, 9, 0.0, 0.1)
    assert not logs.show(6, 8, 0.0, 0.1)
    assert not logs.show(6, 9, 0.0, -0.1)
