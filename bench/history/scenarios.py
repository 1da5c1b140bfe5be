"""Made-up histories whose truth is known, to try detectors on: noise, steps, drifts, gaps, outliers.

In: a scenario and the number of a trial. Out: one number a night, near 1, up is slower, None where nothing was measured. Equal
numbers give equal series, on any machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

SEED = 7
FIRST_SLOW = 20
"""The index of the first slow night: twenty nights of history lie before it."""
LOUD_FROM = 45
"""The index of the first night of another noise: half of ninety."""


@dataclass(frozen=True)
class Scenario:
    """How the nights of a history come about; `noise` is the standard deviation of a night, of logs.

    `slower` is by which factor less one the nights from `FIRST_SLOW` on are slower; `drift` by how much each night is slower
    than the one before. `missing` is the chance that a night was not measured (the first slow one always is). `outlier` makes
    one night that much slower. `wobble` is the amplitude of a wave of 30 nights. `lingers` is the correlation of a night's noise
    with that of the night before. `noise_later` is the noise from night `LOUD_FROM` on, where it is another.
    """

    name: str
    number: int
    nights: int = 90
    noise: float = 0.01
    heavy_tails: bool = False
    lingers: float = 0.0
    wobble: float = 0.0
    slower: float = 0.0
    drift: float = 0.0
    missing: float = 0.0
    outlier: float = 0.0
    outlier_between: tuple[int, int] = (10, 80)
    noise_later: float | None = None

    def series(self, trial: int) -> list[float | None]:
        """The history of this trial."""
        random = np.random.default_rng([SEED, self.number, trial])
        logs = self._noise(random) + np.arange(self.nights) * math.log1p(self.drift)
        logs[FIRST_SLOW:] += math.log1p(self.slower)
        if self.wobble:
            logs += self.wobble * np.sin(2 * np.pi * (np.arange(self.nights) / 30 + random.random()))
        if self.outlier:
            logs[random.integers(*self.outlier_between)] += math.log1p(self.outlier)
        there = random.random(self.nights) >= self.missing
        there[FIRST_SLOW : FIRST_SLOW + 1] = True
        return [math.exp(log) if here else None for log, here in zip(logs, there, strict=True)]

    def _noise(self, random: np.random.Generator) -> NDArray[np.float64]:
        """Normal, or Student's with three degrees of freedom (of the same standard deviation: √3 undone)."""
        drawn = random.standard_t(3, self.nights) / math.sqrt(3) if self.heavy_tails else random.standard_normal(self.nights)
        for night in range(1, self.nights):
            drawn[night] = self.lingers * drawn[night - 1] + math.sqrt(1 - self.lingers**2) * drawn[night]
        later = self.noise if self.noise_later is None else self.noise_later
        return np.asarray(drawn * np.where(np.arange(self.nights) < LOUD_FROM, self.noise, later), float)


Kind = Literal["slower", "quiet", "drift"]
SCENARIOS: dict[Kind, tuple[Scenario, ...]] = {
    "slower": (
        Scenario("+5%, noise 1%", 1, nights=30, slower=0.05),
        Scenario("+10%, noise 3%", 2, nights=30, slower=0.10, noise=0.03),
        Scenario("+5%, noise 1%, one night in seven missing", 3, nights=30, slower=0.05, missing=1 / 7),
        Scenario("+5%, noise 1%, one night of +20% before", 4, nights=30, slower=0.05, outlier=0.2, outlier_between=(5, 19)),
        Scenario("+5%, noise 1% with heavy tails", 5, nights=30, slower=0.05, heavy_tails=True),
    ),
    "quiet": (
        Scenario("noise 1%", 11),
        Scenario("noise 2%", 18, noise=0.02),
        Scenario("noise 3%", 12, noise=0.03),
        Scenario("noise 1%, one night in seven missing", 13, missing=1 / 7),
        Scenario("noise 1%, one night of +20%", 14, outlier=0.2),
        Scenario("noise 1% with heavy tails", 15, heavy_tails=True),
        Scenario("noise 1%, and a wave of ±1% in 30 nights", 16, wobble=0.01),
        Scenario("noise 1% that lingers (correlation 0.5)", 17, lingers=0.5),
        Scenario("noise 1%, from the 46th night on 2%", 19, noise_later=0.02),
        Scenario("noise 0.5%, from the 46th night on 3%", 20, noise=0.005, noise_later=0.03),
    ),
    "drift": (Scenario("+0.1% a night, noise 1%", 21, drift=0.001),),
}
