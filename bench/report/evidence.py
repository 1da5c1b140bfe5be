"""The claims one by one: the ruling, the evidence that it rests on, and what else is known and judges nothing.

In: judged claims. Out: a section with the figure of all, and each claim folded away until somebody asks for it. What a claim's
evidence is, how many runs or rows, and what it leaves open stands beside it; what was refused stands there too, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from bench.claims.claim import Claim, Estimate, Judged
from bench.claims.consistency import UNITS
from bench.report import wording
from bench.report.amounts import amount, amount_of, number_in, room, with_unit
from bench.report.document import Column, Detail, Record, Section, Sketch, Table, filled, tabulate
from bench.report.language import current, digits, say
from bench.report.rulings import condition, left_open, party, refusal, reruled
from bench.report.supported import support_answer, support_refusal
from bench.report.verdicts import MARKS, anchor, evidence_name, found, verdict_name
from bench.spec import Scalar

EVIDENCE_ROWS = 40
"""Of one claim, so many answers are shown; the rest are in `claims --json`."""
LEAST_CHANCE = 0.001
"""Nearer to never, or to always, than that a probability is told by this bound."""
_COLUMNS = (
    Column("evidence", "tier"),
    Column("work", "what"),
    Column("by", "who"),
    Column("value", "value", "number"),
    Column("first ÷ second", "sides", "number"),
    Column("interval", "interval", "number"),
    Column("n", "n", "number", as_is=True),
    Column("conditions", "conditions"),
    Column("not stated", "unstated"),
    Column("not used because", "refused"),
    Column("source", "source"),
    Column("runs, rows or command", "ids", "code"),
)


def one_by_one(judged: Sequence[Judged]) -> Section | None:
    """Each claim with its evidence, folded away until somebody asks for it."""
    if not judged:
        return None
    text = say(
        "Each claim in the order of the lesson: the rule that decided, the evidence that it rests on, and what else is known and"
        " judges nothing, with the reason."
    )
    details = tuple(_detail(each) for each in judged)
    return Section("claims", say("The claims one by one"), (text,), figure=_sketch(judged), details=details)


def _sketch(judged: Sequence[Judged]) -> Sketch:
    """The claims without their evidence, which may be thousands of runs and is not drawn."""
    return Sketch("claims", ([replace(each, estimates=(), others=()) for each in judged],))


def _detail(each: Judged) -> Detail:
    claim = each.claim
    texts = [say("Ruling: {reason}.", reason=wording.visible(reruled(each.reason)))]
    if found(each):
        texts.insert(0, say("Found: {found}.", found=found(each)))
    if each.more_runs:
        texts.append(say("About {n} more run would settle it.|About {n} more runs would settle it.", n=each.more_runs))
    if claim.conditions:
        texts.append(
            say(
                "Conditions: {conditions}.",
                conditions=", ".join(f"{key} {plainly(value)}" for key, value in claim.conditions.items()),
            )
        )
    if claim.remark:
        texts.append(wording.visible(claim.remark[current()]))
    said = say("{label}: {text}", label=claim.id, text=wording.visible(claim.statement[current()]))
    title = f"{MARKS[each.verdict]} {verdict_name(each.verdict)} · {said}"
    return Detail(anchor(claim), title, tuple(texts), tuple(_tables(each)))


def plainly(value: Scalar) -> str:
    """A value as a suite writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _tables(each: Judged) -> Iterable[Table]:
    for title, estimates in ((say("Evidence"), each.estimates), (say("Judging nothing"), each.others)):
        if estimates:
            rows = [_evidence(each.claim, estimate) for estimate in estimates[:EVIDENCE_ROWS]]
            more = len(estimates) - len(rows)
            notes = [say("{n} more stand in “wingspan claims --json”.", n=more)] if more else []
            yield tabulate(title, rows, filled(_COLUMNS, rows), notes)


def _evidence(claim: Claim, estimate: Estimate) -> Record:
    support = claim.kind == "support"
    ids = [support_answer(each) if support else each for each in estimate.evidence[:6]]
    refused = estimate.refused or ""
    between = "; " if estimate.tier == "predicted" else ", "
    return {
        "tier": evidence_name(claim, estimate.tier),
        "what": wording.plain(estimate.what),
        "who": wording.plain(party(estimate.who)),
        "value": _value(claim, estimate),
        "sides": _sides(claim, estimate),
        "interval": _interval(claim, estimate),
        "n": str(estimate.n),
        "conditions": wording.visible(condition(estimate.conditions)),
        "unstated": wording.plain(", ".join(map(left_open, estimate.unstated))),
        "refused": wording.visible(support_refusal(refused) if support else refusal(refused)),
        "source": wording.of_source(estimate.source),
        "ids": wording.plain(between.join(ids) + (" …" if len(estimate.evidence) > 6 else "")),
    }


def _value(claim: Claim, estimate: Estimate) -> str:
    value = estimate.value
    if value is None:
        return ""
    if estimate.quantity is not None:
        claim = replace(claim, kind="value", quantity=estimate.quantity, unit=UNITS[estimate.quantity])
    if claim.kind == "fit":
        return _fit(estimate, value)
    if claim.kind == "winner":
        return _winner(value, estimate.low)
    return wording.number(value) if claim.unit is None else amount(claim, value)


def _fit(estimate: Estimate, chance: float) -> str:
    """Of runs whether they ran, of a prediction how likely it is: it saw nothing run."""
    if estimate.tier == "predicted":
        said = _probability(chance)
    else:
        ran, failed = chance >= 1, chance <= 0
        said = say("it runs") if ran else say("does not run") if failed else _probability(chance)
    return said if estimate.headroom is None else say("{fits}, {room}", fits=said, room=room(estimate.headroom))


def _probability(chance: float) -> str:
    """Of what is all but sure only the bound: no prediction knows its far tail."""
    if chance < LEAST_CHANCE:
        return say("probability under {p}", p=digits(str(LEAST_CHANCE)))
    if chance > 1 - LEAST_CHANCE:
        return say("probability over {p}", p=digits(str(1 - LEAST_CHANCE)))
    return say("probability {p}", p=wording.number(chance, 2))


def _sides(claim: Claim, estimate: Estimate) -> str:
    """What either side reached, of a ratio, in the unit of the quantity."""
    if estimate.sides is None:
        return ""
    quantity = claim.quantity or "tokens_per_s"
    return " ÷ ".join(amount_of(quantity, side) for side in estimate.sides)


def _winner(value: float, low: float | None) -> str:
    if math.isnan(value):
        return say("neither can")
    if math.isinf(value):
        return say("only the first can")
    if not value:
        return say("only the second can")
    return f"{wording.number(value)}×" if low is not None else say("undecided")


def _interval(claim: Claim, estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None or estimate.low == estimate.high:
        return ""
    if claim.unit is None:
        return wording.between(estimate.low, estimate.high)
    return with_unit(claim, say("{low} to {high}", low=number_in(claim, estimate.low), high=number_in(claim, estimate.high)))
