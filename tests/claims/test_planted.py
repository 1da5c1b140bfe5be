"""A thousand sweeps of known truth for every kind of claim that chance plays a part in, close to where errors are made.

Winners and ties are in `test_contest`; what packages have (`support`) is a census, in which nothing is left to chance.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from planted_sweeps import FITS, ORDER, RANGE, RATIO, SWEEPS, VALUE, Tally, around, effort, ratios, seen, values

from bench.claims.claim import Claim, Estimate, Expected
from bench.claims.found import band
from bench.claims.rules import ORDER_OF_MAGNITUDE, ROOM, rule

NUMBERS = {
    "ratio": RATIO,
    "ratio below one": replace(RATIO, expected=Expected(0.5, 0.5)),
    "ratio near one": replace(RATIO, expected=Expected(1.1, 1.1)),
    "value": VALUE,
    "range": RANGE,
    "open range": replace(RANGE, expected=Expected(7, None), tolerance=0),
    "order": ORDER,
}


def refuting(claim: Claim) -> tuple[float, float]:
    """Beyond which truth the claim is refuted: another order of magnitude, or the other side of 1."""
    low, high = band(claim.expected, claim.tolerance)
    if claim.kind == "order":
        return low, high
    if claim.kind == "ratio":
        return (min(low, 1.0), math.inf) if claim.expected.direction > 0 else (0.0, max(high, 1.0))
    return low / ORDER_OF_MAGNITUDE, high * ORDER_OF_MAGNITUDE


@pytest.mark.parametrize("claim", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("where", ["band", "refuted"])
def test_numbers_of_known_truth_are_seldom_judged_falsely(claim, where):
    """Of either edge, as many sweeps: of what counts as claimed, and of what refutes."""
    random = np.random.default_rng(7)
    within, beyond = band(claim.expected, claim.tolerance), refuting(claim)
    centres = [edge for edge in (within if where == "band" else beyond) if 0 < edge < math.inf]
    sweep = ratios if claim.kind == "ratio" else values
    tally = Tally()
    for _ in range(SWEEPS):
        truths = around(random, centres)
        verdict = rule(claim, sweep(random, truths, *effort(random))).verdict
        holds, stands = (all(low <= truth <= high for truth in truths) for low, high in (within, beyond))
        tally.add(verdict, holds, not stands)
    assert tally.is_sound(), tally


@pytest.mark.parametrize("claim", NUMBERS.values(), ids=NUMBERS)
def test_of_many_cells_on_the_very_edge_one_seldom_refutes_the_claim(claim):
    """The worst case: twelve cells, each with its own chance to look as if it were beyond."""
    random = np.random.default_rng(17)
    edge = next(edge for edge in refuting(claim) if 0 < edge < math.inf)
    sweep = ratios if claim.kind == "ratio" else values
    verdicts = [rule(claim, sweep(random, [edge] * 12, *effort(random))).verdict for _ in range(SWEEPS)]
    assert verdicts.count("refuted") < 0.05 * SWEEPS


@pytest.mark.parametrize("claim", NUMBERS.values(), ids=NUMBERS)
def test_one_cell_on_the_very_edge_seldom_verifies_the_claim(claim):
    random = np.random.default_rng(19)
    edge = next(edge for edge in band(claim.expected, claim.tolerance) if 0 < edge < math.inf)
    sweep = ratios if claim.kind == "ratio" else values
    verdicts = [rule(claim, sweep(random, [edge], *effort(random))).verdict for _ in range(SWEEPS)]
    assert 0 < verdicts.count("verified") < 0.05 * SWEEPS


SPREAD = 0.003
"""Of the peaks of equal runs, as a share: they hardly spread."""
MAY_FIT = math.exp(1.2816 * SPREAD)
"""What fits now and then, in one run of ten (the normal distribution's 90%): tight still, and never sure to fail."""


def attempts(random: np.random.Generator, what: str, need: float, runs: int) -> Estimate:
    """What runs of one stack find that need this share of the memory."""
    needs = need * np.exp(random.normal(0, SPREAD, runs))
    ran = needs[needs <= 1]
    return seen(len(ran) / runs, n=runs, what=what, headroom=float(1 - ran.max()) if len(ran) else None)


FIT_CLAIMS = {
    "yes": (FITS, (1.0,)),
    "with headroom": (replace(FITS, headroom=0.2), (0.8, 1.0)),
    "tight": (replace(FITS, fits="tight"), (1 - ROOM, 1.0)),
    "no": (replace(FITS, fits="no"), (1.0,)),
}


def truth_of_fit(claim: Claim, needs: list[float]) -> tuple[bool, bool]:
    """(whether the claim is true, whether it is false) of works whose least stack needs these shares."""
    if claim.fits == "no":
        return all(need > 1 for need in needs), any(need <= 1 for need in needs)
    low, high = (1 - ROOM, MAY_FIT) if claim.fits == "tight" else (0.0, 1 - claim.headroom)
    return all(low <= need <= high for need in needs), any(need > 1 for need in needs)


@pytest.mark.parametrize(("claim", "centres"), FIT_CLAIMS.values(), ids=FIT_CLAIMS)
def test_fits_of_known_truth_are_seldom_judged_falsely(claim, centres):
    """Works of one to three stacks that need about as much as there is."""
    random = np.random.default_rng(13)
    tally = Tally()
    for _ in range(SWEEPS):
        works = [around(random, centres)[:3] for _ in range(int(random.integers(1, 3)))]
        runs = int(random.integers(3, 6))
        found = [attempts(random, str(place), need, runs) for place, needs in enumerate(works) for need in needs]
        verdict = rule(claim, found).verdict
        tally.add(verdict, *truth_of_fit(claim, [min(needs) for needs in works]))
    assert tally.is_sound(), tally
