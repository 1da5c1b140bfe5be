"""The first screen: every claim with its verdict at a glance.

In: judged claims. Out: a section. Verdicts are told by a word and a mark, and colour only repeats them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.claims.claim import VERDICTS, Claim, Judged, Verdict
from bench.report import wording
from bench.report.amounts import amount, number_in, with_unit
from bench.report.document import Cell, Column, Record, Section, Tone, tabulate
from bench.report.language import current, say
from bench.report.rulings import reruled

MARKS: dict[Verdict, str] = {
    "verified": "✓",
    "refined": "≈",
    "refuted": "✗",
    "inconclusive": "?",
    "predicted-to-hold": "▲",
    "predicted-to-fail": "▼",
    "untested": "–",
}
TONES: dict[Verdict, Tone] = {
    "verified": "good",
    "refined": "",
    "refuted": "bad",
    "inconclusive": "quiet",
    "predicted-to-hold": "good",
    "predicted-to-fail": "bad",
    "untested": "quiet",
}
ANCHOR = "verdicts"
_GROUP = (Column("verdict", "verdict"), Column("claims", "n", "number"), Column("which", "claims"))
_GLANCE = (
    Column("verdict", "verdict"),
    Column("claim", "statement"),
    Column("found", "found"),
    Column("evidence", "evidence"),
    Column("id", "id"),
)


def anchor(claim: Claim) -> str:
    """The id of a claim's own place on the page."""
    return f"claim-{claim.id}"


def verdict_name(verdict: Verdict) -> str:
    """The verdict's word, for people."""
    return {
        "verified": say("verified"),
        "refined": say("refined"),
        "refuted": say("refuted"),
        "inconclusive": say("inconclusive"),
        "predicted-to-hold": say("predicted to hold"),
        "predicted-to-fail": say("predicted to fail"),
        "untested": say("untested"),
    }[verdict]


def glance(judged: Sequence[Judged]) -> Section | None:
    """Every claim on one screen."""
    if not judged:
        return None
    counts = [
        say("{n} {verdict}", n=count, verdict=verdict_name(verdict))
        for verdict in VERDICTS
        if (count := sum(each.verdict == verdict for each in judged))
    ]
    text = say(
        "Each of the {n} claims, judged on the strongest evidence that settles it: {counts}. The mark repeats the word.",
        n=len(judged),
        counts=", ".join(counts),
    )
    groups = [_group(verdict, mine) for verdict in VERDICTS if (mine := [each for each in judged if each.verdict == verdict])]
    tables = (
        tabulate(say("Verdicts"), groups, _GROUP),
        tabulate(say("Every claim"), [_glance(each) for each in judged], _GLANCE),
    )
    return Section(ANCHOR, say("Verdicts"), (text,), tables=tables, warnings=_unmeasured(judged))


def _unmeasured(judged: Sequence[Judged]) -> tuple[str, ...]:
    """That nothing was measured on the machines that the claims are about, where it is so."""
    named = {name for each in judged for side in each.claim.sides for name in side.machines}
    seen = [each for one in judged if one.claim.kind != "support" for each in one.estimates if each.tier == "measured"]
    ran = any(name in each.who for each in seen for name in named)
    if ran or not named:
        return ()
    return (
        say(
            "Nothing was measured on {machines} yet: what is said of them rests on what others published and on predictions.",
            machines=", ".join(sorted(named)),
        ),
    )


def _group(verdict: Verdict, judged: Sequence[Judged]) -> Record:
    """All claims of one verdict, by their ids."""
    links = tuple((each.claim.id, anchor(each.claim)) for each in judged)
    return {"verdict": _verdict(verdict), "n": str(len(judged)), "claims": Cell(", ".join(name for name, _ in links), "", links)}


def _verdict(verdict: Verdict) -> Cell:
    return Cell(f"{MARKS[verdict]}\u00a0{verdict_name(verdict)}", TONES[verdict])


def _glance(each: Judged) -> Record:
    return {
        "verdict": _verdict(each.verdict),
        "id": Cell(each.claim.id, "", ((each.claim.id, anchor(each.claim)),)),
        "statement": wording.visible(each.claim.statement[current()]),
        "found": found(each) or wording.visible(reruled(each.reason)),
        "evidence": _rests_on(each),
    }


def _rests_on(each: Judged) -> str:
    if not each.tiers:
        return ""
    tiers = ", ".join(wording.tier(tier) for tier in each.tiers)
    if each.tiers == ("predicted",):
        return tiers
    return say("{tiers}, n = {n}", tiers=tiers, n=each.n)


def found(each: Judged) -> str:
    """The number that the evidence gives, in the claim's unit, with what its intervals span."""
    if each.value is None or each.claim.unit is None or not math.isfinite(each.value):
        return ""
    claim, lowest, highest = each.claim, each.low, each.high
    if lowest is None or highest is None or lowest == highest:
        return amount(claim, each.value)
    value, low, high = (number_in(claim, number) for number in (each.value, lowest, highest))
    return with_unit(claim, say("{value} ({low} to {high})", value=value, low=low, high=high))
