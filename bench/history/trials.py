"""How well slowdowns are found, by simulation: our detector and its rivals on the same made-up histories.

In: scenarios with fixed seeds. Out: a table in Markdown, printed, and written between the markers of docs/detector.md.
`python -m bench.history.trials [--trials N] [--out docs/detector.md]`; `nox -s detector` calls it.

Each detector is asked every night anew, on the history until then, as the gate is. A slowdown is *found* on the first measured
night on which it is told at the right place, two nights more or less. An alarm on a quiet history is false on whichever night.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from bench.history.changes import Change
from bench.history.past import changes
from bench.history.rivals import RIVALS, Levels
from bench.history.scenarios import FIRST_SLOW, SCENARIOS, Kind, Scenario

TRIALS = 500
ASV_TRIALS = 50
"""Of 90 nights asv is asked about so many histories only, the first: it takes ten times as long as all others."""
NEAR_NIGHTS = 2
MACHINE_SERIES = 40
"""Ten cells with four metrics."""
MACHINE_HISTORIES = ("noise 1%", "noise 2%", "noise 3%")
BEGIN, END = "<!-- detector -->", "<!-- /detector -->"

Detector = Callable[[Levels], tuple[int, ...]]


def ours(levels: Levels) -> tuple[int, ...]:
    """The nights of confirmed slowdowns: the level is a time, up is worse."""
    return tuple(change.at for change in _changes(tuple(levels)) if change.confirmed and change.ratio > 1)


def ours_faster(levels: Levels) -> tuple[int, ...]:
    """The nights on which something got faster, confirmed: no alarm, but by chance it is as wrong."""
    return tuple(change.at for change in _changes(tuple(levels)) if change.confirmed and change.ratio < 1)


@lru_cache(maxsize=1)
def _changes(levels: tuple[float | None, ...]) -> tuple[Change, ...]:
    return changes(levels)


DETECTORS: dict[str, Detector] = {"ours": ours, **RIVALS}
BOTH_WAYS: dict[str, Detector] = {"ours": ours, "ours, faster": ours_faster, **RIVALS}


def first_alarms(series: Levels, detectors: Mapping[str, Detector], step: int | None = None) -> dict[str, float]:
    """Per detector the first measured night, counted from 1, on which it says anything; infinite: never.

    With `step` only what is near that night counts, and nights are counted from it.
    """
    first = dict.fromkeys(detectors, math.inf)
    nights = [night for night in range(step or 0, len(series)) if series[night] is not None]
    for count, night in enumerate(nights, start=1):
        for name in [name for name in detectors if first[name] == math.inf]:
            if any(step is None or _near(at) for at in detectors[name](series[: night + 1])):
                first[name] = count
    return first


def _near(at: int) -> bool:
    return abs(at - FIRST_SLOW) <= NEAR_NIGHTS


@dataclass(frozen=True)
class Kept:
    """Of a slowdown that was found: whether its night was right (±1), and on how many nights of the `later` ones it stayed."""

    right: bool
    stayed: int
    later: int


def kept(series: Levels) -> Kept | None:
    """What became of a slowdown on the nights after ours had found it; None where it was not found."""
    told = [[at for at in ours(series[: night + 1]) if _near(at)] for night in range(FIRST_SLOW, len(series))]
    found = next((place for place, each in enumerate(told) if each), None)
    if found is None:
        return None
    at, later = told[found][0], told[found + 1 :]
    return Kept(abs(at - FIRST_SLOW) <= 1, sum(at in each for each in later), len(later))


def row_slower(scenario: Scenario, trials: int) -> list[str]:
    """Per detector: the percentage found within 3, 5 and 10 nights."""
    found = [first_alarms(scenario.series(trial), DETECTORS, FIRST_SLOW) for trial in range(trials)]
    return [" / ".join(_percent([each[name] <= most for each in found]) for most in (3, 5, 10)) for name in DETECTORS]


def row_kept(scenario: Scenario, trials: int) -> list[str]:
    """Of those found: how many, the night right, and the share of later nights on which the very same night was told."""
    found = [each for trial in range(trials) if (each := kept(scenario.series(trial)))]
    stayed = [night < each.stayed for each in found for night in range(each.later)]
    return [str(len(found)), _percent([each.right for each in found]), _percent(stayed)]


def row_quiet(scenario: Scenario, trials: int) -> list[str]:
    """Per detector: the percentage of histories with an alarm on any night; ours also for getting faster."""
    nights = _alarms(scenario, BOTH_WAYS, trials)
    return [_percent([night < math.inf for night in nights[name]]) for name in BOTH_WAYS]


def row_drift(scenario: Scenario, trials: int) -> list[str]:
    """Per detector: the percentage of drifts told by night 60 and 90, and the median night of the first alarm."""
    cells = []
    for nights in _alarms(scenario, DETECTORS, trials).values():
        shares = " / ".join(_percent([night <= by for night in nights]) for by in (60, 90))
        median = float(np.median(nights))
        cells.append(f"{shares}, {'never' if median == math.inf else f'night {median:.0f}'}")
    return cells


def whole_machine(quiet: Sequence[Sequence[str]], trials: int) -> list[list[str]]:
    """Of the quiet rows: the percentage of machines with a false alarm, were its series independent, and the most it may be.

    The latter from the 95% upper limit of one series' rate (Clopper and Pearson, 1934): few alarms of some hundred prove little.
    """
    from scipy.special import betaincinv

    rows = []
    for name, ours_alarms, *_ in (row for row in quiet if row[0] in MACHINE_HISTORIES):
        alarms = round(float(ours_alarms) * trials / 100)
        most = float(betaincinv(alarms + 1, trials - alarms, 0.95)) if alarms < trials else 1.0
        rows.append([name, *(f"{100 * (1 - (1 - rate) ** MACHINE_SERIES):.0f}" for rate in (alarms / trials, most))])
    return rows


def _alarms(scenario: Scenario, detectors: Mapping[str, Detector], trials: int) -> dict[str, list[float]]:
    """Per detector the first alarm in each history; asv is asked about fewer."""
    without_asv = {name: each for name, each in detectors.items() if not name.startswith("asv")}
    nights: dict[str, list[float]] = {name: [] for name in detectors}
    for trial in range(trials):
        asked = detectors if trial < ASV_TRIALS else without_asv
        for name, night in first_alarms(scenario.series(trial), asked).items():
            nights[name].append(night)
    return nights


ROWS: dict[Kind, tuple[Callable[[Scenario, int], list[str]], ...]] = {
    "slower": (row_slower, row_kept),
    "quiet": (row_quiet,),
    "drift": (row_drift,),
}


def table(trials: int = TRIALS, workers: int | None = None) -> str:
    """All scenarios, as Markdown; `workers` processes at once (one for each processor, if not said)."""
    jobs = [(row, each) for kind, makers in ROWS.items() for row in makers for each in SCENARIOS[kind]]
    with ProcessPoolExecutor(workers or os.cpu_count()) as pool:
        rows = list(pool.map(_row, jobs, [trials] * len(jobs)))

    def made(maker: Callable[[Scenario, int], list[str]]) -> list[list[str]]:
        return [row for (each, _), row in zip(jobs, rows, strict=True) if each is maker]

    def part(title: str, mine: list[list[str]], head: Iterable[str]) -> str:
        return f"{title}\n\n{_markdown(['history', *head], mine)}"

    of = f"% of {trials} histories"
    few = f"{of} (asv: of {min(trials, ASV_TRIALS)})"
    steady = ("found", "its night right (±1), %", "later nights on which the very same night is told, %")
    return "\n\n".join(
        [
            part(f"**A slowdown after 20 nights of 30: found within 3 / 5 / 10 nights**, {of}.", made(row_slower), DETECTORS),
            part("**What becomes of those that ours found**, on the nights until the thirtieth.", made(row_kept), steady),
            part(f"**Nothing but noise: a false alarm on any of 90 nights**, {few}.", made(row_quiet), BOTH_WAYS),
            part(
                f"**A drift: told by night 60 / 90**, {few}, **and the median night of the first alarm.**",
                made(row_drift),
                DETECTORS,
            ),
            part(
                f"**A whole machine of {MACHINE_SERIES} independent series: a false alarm of ours in any, in 90 nights.**",
                whole_machine(made(row_quiet), trials),
                ("% of machines", "at most (95%)"),
            ),
        ]
    )


def _row(job: tuple[Callable[[Scenario, int], list[str]], Scenario], trials: int) -> list[str]:
    row, scenario = job
    return [scenario.name, *row(scenario, trials)]


def _percent(these: Sequence[bool]) -> str:
    return f"{100 * sum(these) / len(these):.1f}" if these else "–"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def written(page: str, made: str) -> str:
    """The page with the table between its markers. Raises ValueError where it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} … {END}: put both where the table belongs")
    return f"{before}{begin}\n{made}\n{end}{after}"


def main() -> None:
    """Print the table; with `--out` write it into that page too."""
    parser = argparse.ArgumentParser(description="How well slowdowns are found, by simulation.")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--workers", type=int, help="processes at once; one for each processor, if not said")
    parser.add_argument("--out", type=Path, help="a page with the markers, such as docs/detector.md")
    asked = parser.parse_args()
    made = table(asked.trials, asked.workers)
    print(made)
    if asked.out:
        asked.out.write_text(written(asked.out.read_text(encoding="utf-8"), made), encoding="utf-8")


if __name__ == "__main__":
    main()
