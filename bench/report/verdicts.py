"""The verdicts: at a glance, on what they rest, and each claim in a table.

In: judged claims. Out: sections. Verdicts are told by a word and a mark, and colour only repeats them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from bench.claims.claim import TIERS, VERDICTS, Claim, Judged, Verdict
from bench.claims.told import is_astride
from bench.report import wording
from bench.report.amounts import amount, number_in, with_unit
from bench.report.document import Cell, Column, Group, Record, Section, Tone, tabulate
from bench.report.language import current, say, to_say
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
PROBED, NOTHING = "probed", "nothing"
KINDS = ("measured", "stand-in", PROBED, "published", "predicted", NOTHING)
"""What a verdict can rest on, from the strongest."""
ANCHOR, EVERY = "verdicts", "every-claim"
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
    """Every claim as a mark with its id, by verdict, and on what the verdicts rest."""
    if not judged:
        return None
    groups = [_group(verdict, mine) for verdict in VERDICTS if (mine := [each for each in judged if each.verdict == verdict])]
    text = say("Each of {n} claims leads to its ruling. The verdicts rest on: {counts}.", n=len(judged), counts=rests_on(judged))
    return Section(ANCHOR, say("Verdicts"), (text,), tuple(groups), warnings=_unmeasured(judged))


def every_claim(judged: Sequence[Judged]) -> Section | None:
    """Every claim in a table, with what was found."""
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
    title = say("Every claim")
    return Section(EVERY, title, (text,), tables=(tabulate(title, [_glance(each) for each in judged], _GLANCE),))


def rests_on(judged: Sequence[Judged]) -> str:
    """How many verdicts rest on which evidence, the strongest of each counted: "3 probed, 4 published, 42 predicted"."""
    strongest = Counter(kind_of(each) for each in judged)
    counts = [say("{n} {verdict}", n=strongest[kind], verdict=kind_name(kind)) for kind in KINDS if strongest[kind]]
    return ", ".join(counts)


def kind_of(each: Judged) -> str:
    """The strongest evidence that a verdict rests on, of `KINDS`."""
    if not each.tiers:
        return NOTHING
    strongest = min(each.tiers, key=TIERS.index)
    return PROBED if strongest == "measured" and each.claim.kind == "support" else strongest


def kind_name(kind: str) -> str:
    """One of `KINDS`, for people."""
    if kind == NOTHING:
        return say("nothing")
    return say("probed") if kind == PROBED else wording.tier(kind)


def evidence_name(claim: Claim, tier: str) -> str:
    """A tier for people: what packages have was not measured on a machine, it was probed in the packages."""
    return kind_name(PROBED) if claim.kind == "support" and tier == "measured" else wording.tier(tier)


def _unmeasured(judged: Sequence[Judged]) -> tuple[str, ...]:
    """That nothing was measured on the machines that the claims are about, where it is so."""
    named = {name for each in judged for side in each.claim.sides for name in side.machines}
    seen = [each for one in judged if one.claim.kind != "support" for each in one.estimates if each.tier == "measured"]
    ran = any(name in each.who for each in seen for name in named)
    if ran or not named:
        return ()
    machines = ", ".join(sorted(named))
    probed = any(kind_of(each) == PROBED for each in judged)
    text = to_say(
        "Nothing was measured on {machines} yet: what is said of them was published by others, predicted, or probed in packages"
        " on another computer."
    )
    short = to_say(
        "Nothing was measured on {machines} yet: what is said of them rests on what others published and on predictions."
    )
    return (say(text if probed else short, machines=machines),)


def _group(verdict: Verdict, judged: Sequence[Judged]) -> Group:
    """All claims of one verdict, by their ids, each with its mark."""
    links = tuple((f"{MARKS[verdict]}\u00a0{each.claim.id}", anchor(each.claim)) for each in judged)
    title = say("{n} {verdict}", n=len(judged), verdict=verdict_name(verdict))
    return Group(title, links, TONES[verdict])


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
    tiers = ", ".join(evidence_name(each.claim, tier) for tier in each.tiers)
    if each.tiers == ("predicted",):
        return tiers
    return say("{tiers}, n = {n}", tiers=tiers, n=each.n)


def found(each: Judged) -> str:
    """What the evidence gives, in the claim's unit; of how many answers it speaks, where some say otherwise."""
    said = _number(each) if each.claim.unit is not None else ""
    if not said:
        return ""
    if each.speaking is not None and each.speaking < len(each.estimates):
        said = say("{found}, in {n} of {all} answers", found=said, n=each.speaking, all=len(each.estimates))
    return say("{found}, on either side of what is claimed", found=said) if is_astride(each) else said


def _number(each: Judged) -> str:
    """The middle with what the intervals span; both ends where the answers have no middle."""
    claim = each.claim
    if each.value is None:
        return "" if each.least is None or each.most is None else _between(claim, each.least, each.most)
    if not math.isfinite(each.value):
        return ""
    if each.low is None or each.high is None or each.low == each.high:
        return amount(claim, each.value)
    value, low, high = (number_in(claim, number) for number in (each.value, each.low, each.high))
    return with_unit(claim, say("{value} ({low} to {high})", value=value, low=low, high=high))


def _between(claim: Claim, least: float, most: float) -> str:
    return with_unit(claim, say("{low} to {high}", low=number_in(claim, least), high=number_in(claim, most)))
