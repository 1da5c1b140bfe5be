"""Shares of a limit from metered watts."""

from __future__ import annotations

import math

import pytest

from bench.cited import Cited
from bench.predict.fit_power import Metered, fit_load, power_rows
from bench.predict.fractions import ASSUMED_LOAD

BOARD = {"source": "s", "hardware": "2x RTX 4090", "method": "QLoRA", "watts": 405.0, "notes": "watts per card"}
MAC = {"source": "s", "hardware": "Apple M3 Ultra 80-core (512GB)", "method": "inference", "watts": 243.0, "notes": "wall power"}


def rows(*values: dict[str, object]) -> tuple[tuple[Metered, ...], dict[str, str]]:
    return power_rows(Cited(id=f"{'abc'[n]}-1", **each) for n, each in enumerate(values))  # type: ignore[arg-type]


def test_a_board_is_compared_with_its_limit_and_a_mac_with_the_most_it_takes() -> None:
    (board, mac), refused = rows(BOARD, MAC)
    assert (board.limit_w, board.doing, math.exp(board.log_share)) == (450, "training", pytest.approx(0.9))
    assert (mac.limit_w, mac.doing, math.exp(mac.log_share)) == (270, "decoding", pytest.approx(0.9))
    assert refused == {}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"hardware": "Intel 265K PC + RTX 4090"}, "a whole PC at the wall"),
        ({"notes": "wall power (whole PC)"}, "a whole PC at the wall"),
        ({"method": "vendor max power"}, "vendor"),
        ({"method": "HPL (CPU)"}, "not the GPU's load"),
        ({"hardware": "Apple M3 Pro (18GB)"}, "no limit is known"),
    ],
)
def test_watts_of_something_else_say_nothing(change: dict[str, object], reason: str) -> None:
    found, refused = rows({**BOARD, **change})
    assert found == ()
    assert reason in refused["a-1"]


def test_rows_without_watts_are_not_spoken_of() -> None:
    assert rows({**BOARD, "watts": None}) == ((), {})


def test_the_assumption_counts_as_one_source() -> None:
    found, _ = rows(BOARD, MAC)
    load = fit_load(found)
    assert load.share == pytest.approx(math.exp((2 * math.log(0.9) + math.log(ASSUMED_LOAD.share)) / 3), abs=1e-3)
    assert ASSUMED_LOAD.spread / 2 < load.spread < ASSUMED_LOAD.spread
    assert (load.rows, load.sources) == (2, 2)
    assert fit_load([]) == ASSUMED_LOAD
