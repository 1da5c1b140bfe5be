"""Claims of every kind, answers to them, and sweeps whose truth is known, for the tests of the rules of judging."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.claims.claim import Claim, Estimate, Expected, Side, Verdict
from bench.intervals import interval, ratio_interval

SAID = {"en": "so", "fr": "ainsi", "ro": "așa"}
RATIO = Claim(id="r", kind="ratio", statement=SAID, quantity="tokens_per_s", unit="×", expected=Expected(2, 4))
VALUE = Claim(id="v", kind="value", statement=SAID, quantity="peak_bytes", unit="GB", expected=Expected(18e9, 18e9))
RANGE = Claim(id="g", kind="range", statement=SAID, quantity="peak_bytes", unit="GB", expected=Expected(16e9, 20e9))
ORDER = Claim(id="o", kind="order", statement=SAID, quantity="parts_over_rest", unit="×", expected=Expected(1, None), tolerance=0)
FITS = Claim(id="f", kind="fit", statement=SAID, fits="yes", models=("m",), methods=("lora",))
PC, MAC = Side(machines=("pc",)), Side(machines=("mac",))
WINNER = Claim(id="w", kind="winner", statement=SAID, winner="first", sides=(PC, MAC))
SUPPORT = Claim(id="s", kind="support", statement=SAID, techniques=("a",), sides=(PC, MAC))
RANK = {"verified": 0, "refined": 1, "refuted": 2}
SWEEPS = 1000


def seen(value: float | None, low: float | None = None, high: float | None = None, n: int = 5, **more: Any) -> Estimate:
    return Estimate(
        **{"tier": "measured", "what": "m lora", "who": "x", "value": value, "low": low, "high": high, "n": n, **more}
    )


def ratios(random: np.random.Generator, truths: Sequence[float], runs: int, noise: float) -> list[Estimate]:
    """What a sweep of so many runs on either machine would find, work by work."""
    found = []
    for place, truth in enumerate(truths):
        made = ratio_interval(random.lognormal(math.log(truth), noise, runs), random.lognormal(0.0, noise, runs))
        assert made is not None
        found.append(seen(*made, n=runs, what=f"m{place} lora"))
    return found


def values(random: np.random.Generator, truths: Sequence[float], runs: int, noise: float) -> list[Estimate]:
    """What a sweep of so many runs would find of a quantity, cell by cell."""
    return [seen(*interval(random.lognormal(math.log(truth), noise, runs).tolist()), n=runs) for truth in truths]


@dataclass
class Tally:
    """How many sweeps ended falsely, of those that could: a false claim verified, one that is not wholly false refuted."""

    untrue: int = 0
    verified: int = 0
    not_false: int = 0
    refuted: int = 0
    decided: int = 0

    def add(self, verdict: Verdict, holds: bool, fails: bool) -> None:
        self.untrue += not holds
        self.verified += verdict == "verified" and not holds
        self.not_false += not fails
        self.refuted += verdict == "refuted" and not fails
        self.decided += verdict in ("verified", "refuted")

    def is_sound(self) -> bool:
        """Under 5% of either kind, and not for want of verdicts."""
        return self.verified < 0.05 * self.untrue and self.refuted < 0.05 * self.not_false and self.decided > 0.04 * SWEEPS


def around(random: np.random.Generator, centres: Sequence[float]) -> list[float]:
    """The truths of one to four cells, close to where errors are made."""
    cells = int(random.integers(1, 5))
    return [float(random.choice(centres) * math.exp(random.normal(0, 0.03))) for _ in range(cells)]


def effort(random: np.random.Generator) -> tuple[int, float]:
    """(runs, noise) of a sweep: three to eight, spreading by 1 to 5%."""
    return int(random.integers(3, 9)), float(random.uniform(0.01, 0.05))
