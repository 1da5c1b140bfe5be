"""Values in a claim's own unit, as a reader wants them.

In: a claim and a value in SI units. Out: three digits with the unit as the language writes it; "" for what is no finite number.
"""

from __future__ import annotations

import math

from bench.claims.claim import Claim, Quantity
from bench.claims.consistency import UNITS
from bench.claims.told import SCALES
from bench.report import wording
from bench.report.language import percent, say


def amount(claim: Claim, value: float) -> str:
    """A value in the claim's unit, three digits."""
    return with_unit(claim, number_in(claim, value)) if math.isfinite(value) else ""


def amount_of(quantity: Quantity, value: float) -> str:
    """A value of that quantity in its usual unit, three digits."""
    unit = UNITS[quantity]
    return say("{n} {unit}", n=wording.number(value / SCALES.get(unit, 1.0)), unit=unit_name(unit))


def room(share: float) -> str:
    """What is left free of a capacity, as a share of it; below zero what is lacking."""
    return say("{share} free", share=percent(share)) if share >= 0 else say("lacks {share}", share=percent(-share))


def number_in(claim: Claim, value: float) -> str:
    """The number alone; a ratio has its sign, which is part of it."""
    number = wording.number(value / SCALES.get(claim.unit or "", 1.0))
    return f"{number}×" if claim.unit == "×" else number


def with_unit(claim: Claim, number: str) -> str:
    """The number, or several that share the unit, with it."""
    return number if claim.unit in ("×", None) else say("{n} {unit}", n=number, unit=unit_name(claim.unit))


def unit_name(unit: str) -> str:
    """The unit as the language writes it."""
    return {
        "GB": say("GB"),
        "GB per 1B": say("GB per 1B"),
        "GB/s": say("GB/s"),
        "tokens/s": say("tokens/s"),
        "cores": say("cores"),
    }.get(unit, unit)
