"""Which measured steps stand apart from the others of their run.

In: values, or the steps of one run. Out: the same steps, marked. Nothing is dropped: an outlier counts in every median like any
other step, and is counted for the reader.

The modified z-score of B. Iglewicz and D. C. Hoaglin, How to Detect and Handle Outliers (1993): 0.6745 |x − median| / MAD, an
outlier above 3.5. Where half of the values are equal, MAD is zero, and the mean absolute deviation from the median takes its
place, as |x − median| / (1.2533 MeanAD); both factors make the score a z-score for a normal distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bench.record import Step

CUT = 3.5
MAD_FACTOR = 0.6745
MEAN_AD_FACTOR = 1.253314


def outlying(values: Sequence[float]) -> list[bool]:
    """For each of the values, on either side, whether it is an outlier among them. Equal values have none."""
    if not values:
        return []
    deviations = np.abs(np.asarray(values, dtype=np.float64) - np.median(values))
    scale = float(np.median(deviations)) / MAD_FACTOR or float(deviations.mean()) * MEAN_AD_FACTOR
    return [bool(deviation > CUT * scale) for deviation in deviations]


def marked(steps: Sequence[Step]) -> list[Step]:
    """The steps in their order, `outlier` set by duration on those measured, taken among themselves; the others as they are.

    Prefills stand among prefills and decodes among decodes.
    """
    phases = {step.phase for step in steps} - {"warmup"}
    flags = {phase: iter(outlying([step.duration_s for step in steps if step.phase == phase])) for phase in phases}
    return [replace(step, outlier=next(flags[step.phase])) if step.phase in flags else step for step in steps]
