"""What a machine is rated at, or was found to reach, as evidence for a claim about the machine itself.

In: the catalogue's profiles and the rates that `doctor --calibrate` measured. Out: estimates of bandwidth. A rating has its
source beside it and counts as published; a measured copy as measured. The catalogue's share of the Mac's memory is an assumption,
and the very claim: it is evidence of nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bench.claims.asked import profiles
from bench.claims.claim import Claim, Estimate
from bench.own_rates import rates_of
from bench.reading.strict import BadFile

SUPPORT = ".support.json"


def estimates(claim: Claim, results: Path) -> list[Estimate]:
    """Of claims about `memory_bytes_per_s`; nothing of others."""
    if claim.quantity != "memory_bytes_per_s" or len(claim.sides) > 1:
        return []
    return [*_copied(claim, results), *_rated(claim)]


def _rated(claim: Claim) -> Iterator[Estimate]:
    for profile in profiles(claim.sides[0]):
        if profile.memory_bytes_per_s is not None:
            yield _published(profile.name, "rated bandwidth", profile.memory_bytes_per_s, profile.memory_rate_source or "")


def _published(name: str, what: str, value: float, source: str) -> Estimate:
    """A rating is one number, without spread."""
    return Estimate(
        tier="published", what=what, who=name, value=value, low=value, high=value, n=1, evidence=("machines.toml",), source=source
    )


def _copied(claim: Claim, results: Path) -> Iterator[Estimate]:
    """What a copy reached on the machine itself, once: no interval. A file that cannot be understood says nothing."""
    for path in sorted((results / "machines").glob("*.json")):
        if path.name.endswith(SUPPORT):
            continue
        with suppress(BadFile):
            name, rates = rates_of(path)
            for each in rates if name in claim.sides[0].machines else ():
                if each.memory_bytes_per_s and each.device != "cpu":
                    yield Estimate(
                        tier="measured",
                        what=f"a large copy on {each.device}",
                        who=name,
                        value=each.memory_bytes_per_s,
                        n=1,
                        evidence=(path.name,),
                        conditions="bytes read and written a second; a rating is not reached",
                    )
