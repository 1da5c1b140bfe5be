"""A claim and all the evidence -> its verdict.

In: a claim, and the sources of evidence. Out: a `Judged`. The strongest tier of evidence that settles a claim decides; a tier
that leaves it open lets the next one speak, and is named. Tiers are never pooled, but for what packages have. On prediction alone
a claim is said to hold or to fail by prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace

from bench.claims.claim import TIERS, Claim, Estimate, Judged, Tier, Verdict
from bench.claims.rules import rule
from bench.claims.ruling import Ruling

Source = Callable[[Claim], Iterable[Estimate]]
FORETOLD: dict[Verdict, Verdict] = {
    "verified": "predicted-to-hold",
    "refined": "predicted-to-fail",
    "refuted": "predicted-to-fail",
}
"""What a verdict is called where nothing but predictions stands behind it."""


def judge(claim: Claim, sources: Sequence[Source]) -> Judged:
    """The verdict on all that the sources know."""
    found = [each for source in sources for each in source(claim)]
    if claim.kind == "support":
        return _supported(claim, found)
    usable = {
        tier: [each for each in found if each.tier == tier and each.refused is None and each.value is not None] for tier in TIERS
    }
    rulings = [(tier, _ruling(claim, tier, usable[tier])) for tier in TIERS if usable[tier]]
    if not rulings:
        return _untested(claim, found)
    tier, ruling = next(((tier, ruling) for tier, ruling in rulings if ruling.verdict != "inconclusive"), rulings[0])
    stronger = [before for before, _ in rulings[: [each for each, _ in rulings].index(tier)]]
    reason = ruling.reason + (f"; {' and '.join(stronger)} evidence alone settles nothing" if stronger else "")
    return Judged(
        claim=claim,
        verdict=ruling.verdict,
        reason=reason,
        tiers=(tier,),
        **(asdict(ruling.found) if ruling.found else {}),
        estimates=tuple(usable[tier]),
        others=tuple(_aside(each, tier) for each in found if each not in usable[tier]),
        more_runs=ruling.more_runs,
    )


def _supported(claim: Claim, found: Sequence[Estimate]) -> Judged:
    """What packages have: partly probed and partly cited, so both tiers count together, and are named."""
    usable = [each for each in found if each.refused is None and each.value is not None]
    if not usable:
        return _untested(claim, found)
    ruling = rule(claim, usable)
    tiers = tuple(tier for tier in TIERS if any(each.tier == tier for each in usable))
    others = tuple(each for each in found if each not in usable)
    return Judged(claim=claim, verdict=ruling.verdict, reason=ruling.reason, tiers=tiers, estimates=tuple(usable), others=others)


def _ruling(claim: Claim, tier: Tier, estimates: Sequence[Estimate]) -> Ruling:
    ruling = rule(claim, estimates)
    if tier != "predicted":
        return ruling
    return replace(ruling, verdict=FORETOLD.get(ruling.verdict, ruling.verdict), more_runs=None)


def _aside(estimate: Estimate, tier: Tier) -> Estimate:
    """With the reason why it does not count where evidence of that tier decides."""
    if estimate.refused is not None:
        return estimate
    above = TIERS.index(tier) < TIERS.index(estimate.tier)
    return replace(
        estimate, refused=f"{tier} evidence comes before it" if above else f"{estimate.tier} evidence alone settles nothing"
    )


def _untested(claim: Claim, found: Sequence[Estimate]) -> Judged:
    refused = [each for each in found if each.refused is not None and not set(each.evidence) & set(claim.cites)]
    return Judged(claim=claim, verdict="untested", reason=_no_use(refused) if refused else _no_answer(claim), others=tuple(found))


def _no_use(refused: Sequence[Estimate]) -> str:
    if len(refused) == 1:
        return f"one answer was found, and cannot be used: {refused[0].refused}"
    return f"{len(refused)} answers were found, and none can be used: {refused[0].refused}"


def _no_answer(claim: Claim) -> str:
    machines = sorted({name for side in claim.sides for name in side.machines})
    where = f" on {' or '.join(machines)}" if machines else ""
    return f"no run{where} has answered it yet, nobody published it under its conditions, and no prediction is about it"
