"""Where warm-up ends.

In: the durations and the peaks of memory of all steps so far, in order, and a `Rule`. Out: a `Warm`, as soon as it can be told;
None before that.

The rule. Warm-up ended after step k, `least` <= k <= `most`, for the first k after which a window of steps is steady. Its steps
have been seen by then, so the end is found looking back, and the window's steps count as measured. Let `spread` be the share
of a step's time by which steps may differ. A window is steady where, of the logarithms of its durations,

- **level**: the mean of the first third exceeds the mean of the rest, its extremes left out, by no more than 1.2 `spread`;
- **trend**: a drift either way is not shown (Kendall's S, |z| < 2.2, which 2% of windows without a drift exceed), or is of no
  account (Theil–Sen slope times the length of the window at most half of `spread`);
- **spread**: the standard deviation is no more than 1.2 `spread`, the slowest step of the last two thirds left out: one pause
  of the garbage collector in ten steps is an outlier, to be marked as such, and no reason to wait;

and where **memory**, if it was measured, grew from the window's first step to its last by no more than 1% and 8 MiB.

Why 1.2: ten steps tell their own spread to within a quarter. Held to the bare limit, steps that really spread by four fifths of
it would often be refused. The price: chance decides, window after window, about steps that spread by one to three times the
limit.

By simulation (`tests/trust/test_warmup.py`), at the defaults, warm-ups of 0, 3 and 20 steps, ending at once or decaying to 10%,
are found within two steps in 95% of runs and more where steps spread by up to 4%; of runs that spread by 20% all through, 2%
pass, of 10% seven in ten; of runs in two modes 30% apart that take turns at random, 11%, by ten steps in a row with at most one
slow one among them. What no such rule can see is a warm-up that is itself steady for longer than the window, such as a cache
that fills at step 500: set `warmup_steps` above it.

Sources: M. G. Kendall, Rank Correlation Methods (1975), for S and its variance; P. K. Sen, J. Am. Stat. Assoc. 63 (1968) 1379,
for the slope.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.events import Warm
from bench.spec import FEWEST_JUDGED_STEPS, Measure

WINDOW = 10
SLACK = 1.2
"""What ten steps may show beyond the spread allowed: see above."""
KENDALL_Z = 2.2
"""Ten steps reach it with |S| >= 27; five steps, the fewest that are judged, only where each is slower, or each faster, than the
one before."""
GROWTH_SHARE = 0.01
GROWTH_BYTES = 8 * 2**20

Logs = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rule:
    """Bounds of warm-up in steps, the window that has to be steady, and the spread that steady steps may have (a share)."""

    least: int
    most: int
    window: int
    spread: float

    @property
    def fixed(self) -> bool:
        """Whether warm-up has a given length, and nothing is judged."""
        return self.least == self.most


def rule_of(measure: Measure) -> Rule:
    """The rule that a suite asks for. The window is ten steps, or all measured ones where they are fewer.

    Raises ValueError where there are too few to judge by, or the bounds contradict each other; `bench.suite` refuses both.
    """
    rule = Rule(measure.warmup_steps, measure.warmup_max_steps, min(WINDOW, measure.steps), measure.steady_spread)
    if rule.most < rule.least or (not rule.fixed and rule.window < FEWEST_JUDGED_STEPS):
        raise ValueError(f"no warm-up of {rule.least} to {rule.most} steps can be judged by {rule.window}")
    return rule


def describe(rule: Rule) -> str:
    """The rule in one line, for the column `warmup_rule`."""
    if rule.fixed:
        return f"fixed: {rule.least} steps, nothing judged"
    return (
        f"first of {rule.least} to {rule.most} steps followed by {rule.window} without slower beginning, trend or spread "
        f"over {rule.spread:.1%}, nor growth of memory over {GROWTH_SHARE:.0%} + {GROWTH_BYTES // 2**20} MiB"
    )


def judge(durations_s: Sequence[float], peaks_bytes: Sequence[int | None], rule: Rule) -> Warm | None:
    """Where warm-up ended, if the last step shows it. To be asked after every step, and before the first.

    `durations_s` in seconds and `peaks_bytes`, peaks of memory since training began (None: not measured), are those of all
    steps so far. At the ceiling the answer names what the last window still lacked: `unsteady`, `memory-growing`. After a warm-up
    of fixed length nothing is judged; where too few steps are to be measured for anyone to judge them, they count as `unsteady`.
    """
    if rule.fixed:
        unknown = ("unsteady",) if rule.window < FEWEST_JUDGED_STEPS else ()
        return Warm(warmup_steps=rule.least, troubles=unknown) if len(durations_s) >= rule.least else None
    ended = len(durations_s) - rule.window
    if ended < rule.least:
        return None
    troubles = _troubles(durations_s[ended:], peaks_bytes[ended:], rule.spread)
    if troubles and ended < rule.most:
        return None
    return Warm(warmup_steps=ended, troubles=troubles)


def _troubles(durations_s: Sequence[float], peaks_bytes: Sequence[int | None], spread: float) -> tuple[str, ...]:
    """The flags that a window earns; none if it is steady."""
    logs = np.log(np.asarray(durations_s, dtype=np.float64))
    unsteady = _begins_slower(logs, spread) or _drifts(logs, spread) or _spreads(logs, spread)
    found = (("unsteady", unsteady), ("memory-growing", _grows(peaks_bytes)))
    return tuple(flag for flag, holds in found if holds)


def _begins_slower(logs: Logs, spread: float) -> bool:
    head = _head(logs)
    rest = np.sort(logs[head:])[1:-1]
    return float(logs[:head].mean() - rest.mean()) > SLACK * spread


def _drifts(logs: Logs, spread: float) -> bool:
    first, second = np.triu_indices(logs.size, k=1)
    rises = logs[second] - logs[first]
    score = abs(float(np.sign(rises).sum()))
    deviation = math.sqrt(logs.size * (logs.size - 1) * (2 * logs.size + 5) / 18)
    slope = float(np.median(rises / (second - first)))
    return (score - 1) / deviation >= KENDALL_Z and abs(slope) * logs.size > spread / 2


def _spreads(logs: Logs, spread: float) -> bool:
    head = _head(logs)
    kept = np.concatenate([logs[:head], np.sort(logs[head:])[:-1]])
    return float(kept.std(ddof=1)) > SLACK * spread


def _head(logs: Logs) -> int:
    """The steps of the first third, to the nearest."""
    return (logs.size + 1) // 3


def _grows(peaks_bytes: Sequence[int | None]) -> bool:
    first, last = peaks_bytes[0], peaks_bytes[-1]
    if first is None or last is None:
        return False
    return last - first > GROWTH_SHARE * first + GROWTH_BYTES
