"""What takes the place of the lesson's rules of memory, and where those contradict one another.

In: fitted lines (`bench.refine.memory`), the lesson's table fitted likewise, and contradictions (`bench.refine.contradictions`).
Out: a section for each, None where there is nothing to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.claims.claim import Claim
from bench.refine.contradictions import Contradiction, TableFit
from bench.refine.memory import Coefficient, Rule
from bench.report import wording
from bench.report.document import Cell, Column, Record, Section, filled, tabulate
from bench.report.language import both, digits, percent, say, to_say

LEAST_ROWS = 4
"""A line through fewer peaks than that says nothing."""
_TEXT = to_say(
    "Memory = fixed part + so much for each parameter + so much for each token in memory at once, fitted by least squares of"
    " relative errors for every method, stack, optimizer and checkpointing; in brackets 95% intervals. Of predictions, what is"
    " left over is no noise but what a line cannot say, as that a token costs more in a wider model. Where most rows lie further"
    " than 15% from the line, it describes them badly, and no coefficient is shown; nor is any where rows that are few or much"
    " alike leave a slope open. Where the whole span of lengths changes no peak by 5%, memory does not grow with tokens, and the"
    " line has no slope for them."
)
_OWN_TEXT = to_say(
    "The lesson’s own table by its own kind of rule, a slope alone, and by a fixed part with a slope: how far the cells lie from"
    " either."
)
_RULE = (
    Column("method", "method"),
    Column("stack", "stack"),
    Column("optimizer", "optimizer"),
    Column("checkpointing", "checkpointing"),
    Column("fixed part", "fixed", "number"),
    Column("GB per 1B parameters", "per_parameter", "number"),
    Column("MB per token", "per_token", "number"),
    Column("the lesson", "lesson", "number"),
    Column("residuals, typical", "rms", "number"),
    Column("largest", "worst", "number"),
    Column("rows", "n", "number"),
    Column("evidence", "evidence"),
)
_OWN = (
    Column("method", "method"),
    Column("slope alone, GB per 1B", "slope", "number"),
    Column("residuals, typical", "rms", "number"),
    Column("fixed part with a slope", "line", "number"),
    Column("residuals with it", "rms_line", "number"),
    Column("times smaller", "better", "number"),
    Column("claims", "claims", "code"),
)
_CLASH = (
    Column("what clashes", "clash"),
    Column("work", "work"),
    Column("found", "found", "number"),
    Column("against", "against", "number"),
    Column("outside by", "factor", "number"),
    Column("within the tolerances", "tolerated"),
    Column("machine", "machine"),
    Column("claims", "claims", "code"),
)
_CLASH_TEXT = to_say(
    "Computed from the claims’ own numbers, without any evidence: a cell of the table against the rule of its method, a cell"
    " against what is said to fit, a winner against its own memory, a winner against what else is said of both machines. Sizes"
    " are the nominal ones; a share is that of the memory that a process can have on the machine."
)
CLASHES: Mapping[str, str] = {
    "a cell and its rule": to_say("a cell of the table and the rule of its method"),
    "a cell and a fit": to_say("a cell of the table and what is said to fit"),
    "a cell and a winner": to_say("the winner lacks the memory by the table"),
    "a winner and what both can do": to_say("the other machine fits too, and is said to be faster"),
}


def refined(rules: Sequence[Rule], own: Sequence[TableFit], claims: Sequence[Claim]) -> Section | None:
    """The fitted lines beside the lesson's rules; None where there are none."""
    rows = [_rule(each, claims) for each in rules if each.n >= LEAST_ROWS]
    if not rows:
        return None
    tables = [tabulate(say("Fitted rules of memory"), rows, filled(_RULE, rows))]
    if own:
        tables.append(tabulate(say("The lesson’s table, fitted"), [_own(each) for each in own], _OWN, [say(_OWN_TEXT)]))
    return Section("rules", say("Rules of memory, refined"), (say(_TEXT),), tables=tuple(tables))


def contradicted(found: Sequence[Contradiction]) -> Section | None:
    """Where the lesson disagrees with itself; None where it does not."""
    if not found:
        return None
    title = say("Where the lesson contradicts itself")
    rows = [_clash(each) for each in found]
    return Section("contradictions", title, (say(_CLASH_TEXT),), tables=(tabulate(title, rows, filled(_CLASH, rows)),))


def _rule(rule: Rule, claims: Sequence[Claim]) -> Record:
    group = rule.group
    why_none = _undescribed(rule)
    shown = (None, None, None) if why_none else (rule.fixed, rule.per_parameter, rule.per_token)
    return {
        "method": group.method,
        "stack": f"{group.backend}@{group.device}",
        "optimizer": group.optimizer,
        "checkpointing": say("switched on") if group.gradient_checkpointing else say("switched off"),
        "fixed": Cell(why_none, "quiet") if why_none else _gigabytes(shown[0]),
        "per_parameter": _scaled(shown[1], 1.0),
        "per_token": say("does not grow with tokens here") if rule.level and not why_none else _scaled(shown[2], 1e6),
        "lesson": lessons_rule(group.method, claims),
        "rms": percent(rule.rms_share),
        "worst": percent(rule.worst_share, signed=True),
        "n": wording.whole(rule.n),
        "evidence": wording.tier(group.tier),
    }


def _undescribed(rule: Rule) -> str:
    """Why the line is no rule of its rows; "" where it is one."""
    if not rule.describes:
        return say("no line describes it")
    return "" if rule.told_apart else say("the rows do not tell the slopes")


def lessons_rule(method: str, claims: Sequence[Claim]) -> str:
    """What the claims say of bytes a parameter by that method, in GB per 1B."""
    for claim in claims:
        expected = claim.expected
        if claim.quantity == "peak_bytes_per_parameter" and method in claim.methods and expected is not None:
            ends = [wording.number(end, 2) for end in (expected.low, expected.high) if end is not None]
            return "–".join(dict.fromkeys(ends))
    return ""


def _gigabytes(value: Coefficient | None) -> str:
    return "" if value is None else say("{n} GB", n=_scaled(value, 1e9))


def _scaled(value: Coefficient | None, scale: float) -> str:
    if value is None:
        return ""
    number = _number(value.value / scale)
    if value.low is None or value.high is None:
        return number
    low, high = _number(value.low / scale), _number(value.high / scale)
    return number if low == number == high else say("{value} ({low} to {high})", value=number, low=low, high=high)


def _number(value: float) -> str:
    """Two decimals: what a fit knows of the fixed part, in GB, of a slope, and of MB per token."""
    return digits(f"{value + 0.0:.2f}".replace("-0.00", "0.00"))


def _own(each: TableFit) -> Record:
    line = each.with_fixed
    return {
        "method": each.method,
        "slope": _scaled(each.slope_alone.per_parameter, 1.0),
        "rms": percent(each.slope_alone.rms_share),
        "line": both(part for part in (_gigabytes(line.fixed), _per_parameter(line.per_parameter)) if part),
        "rms_line": percent(line.rms_share),
        "better": wording.number(each.better, 2),
        "claims": ", ".join(each.claims),
    }


def _per_parameter(value: Coefficient | None) -> str:
    return "" if value is None else say("{n} GB per 1B", n=_scaled(value, 1.0))


def _clash(each: Contradiction) -> Record:
    shares = each.machine is not None
    return {
        "clash": say(CLASHES[each.clash]) if each.clash in CLASHES else each.clash,
        "work": each.work,
        "found": "" if each.found is None else _amount(each.found, shares),
        "against": _range(each.low, each.high, shares),
        "factor": "" if each.factor is None else f"{wording.number(each.factor)}×",
        "tolerated": say("yes") if each.tolerated else say("no"),
        "machine": each.machine or "",
        "claims": ", ".join(each.claims),
    }


def _amount(value: float, share: bool) -> str:
    return percent(value) if share else say("{n} GB per 1B", n=wording.number(value))


def _range(low: float | None, high: float | None, share: bool) -> str:
    if low is None and high is None:
        return ""
    if low is None or high is None:
        text = (
            say("at most {n}", n=_amount(high, share)) if high is not None else say("at least {n}", n=_amount(low or 0.0, share))
        )
        return text
    if share:
        return say("{low} to {high}", low=percent(low), high=percent(high))
    return say("{n} GB per 1B", n=say("{low} to {high}", low=wording.number(low), high=wording.number(high)))
