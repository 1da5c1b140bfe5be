"""The trials count right, and the page of the detector says what they find."""

import math
from pathlib import Path

import pytest

from bench.history.rivals import Levels
from bench.history.scenarios import FIRST_SLOW, SCENARIOS, Scenario
from bench.history.trials import (
    BEGIN,
    BOTH_WAYS,
    DETECTORS,
    END,
    MACHINE_HISTORIES,
    TRIALS,
    Kept,
    first_alarms,
    kept,
    ours,
    ours_faster,
    row_drift,
    row_quiet,
    row_slower,
    table,
    whole_machine,
    written,
)

PAGE = Path(__file__).parents[2] / "docs/detector.md"
STEADY = [
    1.0,
    1.01,
    0.995,
    1.005,
    0.99,
    1.002,
    1.012,
    0.991,
    1.0,
    1.008,
    0.994,
    1.001,
    1.0,
    0.999,
    1.003,
    1.002,
    0.997,
    1.0,
    1.0,
    1.0,
]


def documented() -> dict[tuple[int, str], dict[str, str]]:
    """(which table, history) -> detector -> what the page says."""
    text = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    rows: dict[tuple[int, str], dict[str, str]] = {}
    for number, block in enumerate(part for part in text.split("\n\n") if part.strip().startswith("|")):
        head, _, *body = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in block.strip().splitlines()]
        rows |= {(number, name): dict(zip(head[1:], cells, strict=True)) for name, *cells in body}
    return rows


def numbers(cell: str) -> list[float]:
    return [float(each) for each in cell.partition(",")[0].split(" / ")]


def could_be(few: float, of: int, many: float) -> bool:
    """Whether `few` % of `of` trials are of the same kind as `many` % of five hundred: within four standard errors."""
    share = (few * of + many * TRIALS) / (of + TRIALS) / 100
    return abs(few - many) / 100 <= 4 * math.sqrt(max(share * (1 - share), 0.002) * (1 / of + 1 / TRIALS))


def test_ours_tells_slower_and_faster_apart() -> None:
    slower = [*STEADY, 1.1, 1.11, 1.1]
    faster = [1 / level for level in slower]
    assert ours(slower) == ours_faster(faster) == (20,)
    assert ours_faster(slower) == ours(faster) == ()


def test_a_detector_is_asked_on_every_measured_night_about_what_was_there_until_then() -> None:
    asked: list[int] = []

    def detector(levels: Levels) -> tuple[int, ...]:
        asked.append(len(levels))
        return (0,) if len(levels) == 4 else ()

    assert first_alarms([1.0, None, 1.0, 1.0, 1.0, 1.0], {"a": detector, "b": lambda levels: ()}) == {"a": 3, "b": math.inf}
    assert asked == [1, 3, 4], "not on the night without a number, nor after the alarm"


def test_a_slowdown_is_found_where_it_is_and_nowhere_else() -> None:
    series = [1.0] * (FIRST_SLOW + 5)
    at_night = {"near": lambda levels: (FIRST_SLOW + 2,), "far": lambda levels: (FIRST_SLOW - 3, FIRST_SLOW + 3)}
    late = {"late": lambda levels: (FIRST_SLOW,) if len(levels) > FIRST_SLOW + 2 else ()}
    assert first_alarms(series, at_night | late, FIRST_SLOW) == {"near": 1, "far": math.inf, "late": 3}


def test_what_was_found_is_followed() -> None:
    assert kept([*STEADY, 1.1, 1.11, 1.1, 1.09, 1.1]) == Kept(right=True, stayed=3, later=3)
    assert kept(STEADY * 2) is None


def test_the_page_has_every_history_and_every_detector() -> None:
    rows = documented()
    for number, kind in ((0, "slower"), (1, "slower"), (2, "quiet"), (3, "drift")):
        assert [name for at, name in rows if at == number] == [each.name for each in SCENARIOS[kind]]
    assert list(rows[0, "+5%, noise 1%"]) == list(rows[3, "+0.1% a night, noise 1%"]) == list(DETECTORS)
    assert list(rows[2, "noise 1%"]) == list(BOTH_WAYS)


def test_the_page_says_what_was_asked_of_the_detector() -> None:
    """+5% at 1% noise within three nights in 95 of 100; a false alarm in fewer than 2 of 100 series of 90 nights."""
    rows = documented()
    for (number, name), cells in rows.items():
        if number == 0 and name.startswith("+5%"):
            assert numbers(cells["ours"])[0] >= 95, name
    for name in ("noise 1%", "noise 3%", "noise 1%, one night in seven missing", "noise 1%, one night of +20%"):
        assert numbers(rows[2, name]["ours"])[0] < 2, name


def test_a_few_trials_again_agree_with_the_page() -> None:
    """By the same seeds, the first trials of five hundred."""
    rows = documented()
    slower, quiet, drift = SCENARIOS["slower"][1], SCENARIOS["quiet"][1], SCENARIOS["drift"][0]
    for few, again in zip(row_slower(slower, 40), rows[0, slower.name].values(), strict=True):
        assert all(could_be(one, 40, other) for one, other in zip(numbers(few), numbers(again), strict=True))
    for name, few in zip(BOTH_WAYS, row_quiet(quiet, 4), strict=True):
        assert could_be(numbers(few)[0], 4, numbers(rows[2, quiet.name][name])[0]), name
    for name, few in zip(DETECTORS, row_drift(drift, 4), strict=True):
        assert all(could_be(a, 4, b) for a, b in zip(numbers(few), numbers(rows[3, drift.name][name]), strict=True)), name


def test_a_whole_machine_is_forty_series() -> None:
    """A rate of 1% in each: 1 - 0.99^40 of machines; no alarm in 500 proves no more than 0.6%, of forty 21%."""
    rows = whole_machine([["noise 1%", "0.0", "9"], ["noise 2%", "1.0", "9"], ["noise of another kind", "5.0", "9"]], 500)
    assert rows == [["noise 1%", "0", "21"], ["noise 2%", "33", "57"]]
    assert [name for number, name in documented() if number == 4] == list(MACHINE_HISTORIES)


@pytest.mark.slow
def test_all_trials_again_give_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert written(page, table()) == page


def test_quiet_and_drifting_histories_are_counted() -> None:
    assert row_quiet(Scenario("", 1, nights=12, noise=0.0), 2) == ["0.0"] * len(BOTH_WAYS)
    cells = row_drift(Scenario("", 1, nights=40, noise=1e-4, drift=0.01), 2)
    assert cells[list(DETECTORS).index("ours")].startswith("100.0 / 100.0, night ")
    assert row_drift(Scenario("", 1, nights=12, noise=0.0), 1)[0] == "0.0 / 0.0, never"


def test_the_table_goes_between_the_markers() -> None:
    assert written(f"a {BEGIN} old {END} z", "new") == f"a {BEGIN}\nnew\n{END} z"
    with pytest.raises(ValueError, match="<!-- detector -->"):
        written("no place", "new")
