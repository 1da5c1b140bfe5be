"""The score card as Markdown, for reports/prediction.md.

In: a scored `Card` and what was fitted. Out: text, the same for the same evidence: targets met or not, errors and coverage by
method, stack and meter, wrong verdicts, the worst rows with the reason, what was left out and why.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from bench.predict.evidence import Observation
from bench.predict.fit import Evidence, Fitted
from bench.predict.score import Card, Fit, Scored, brier, grouped, summarise
from bench.predict.score_beside import counted, decoding_text, load_text, own_text, table, watts_text

WORST = 15
SMALL_CARD_BYTES = 26e9
"""Cards of 24 GB: 25.8 × 10⁹ bytes as the driver counts."""
INTRODUCTION = """# How well predictions held

Written by `wingspan calibrate` from `results/published/` and this project's own runs. Every source was predicted by the others:
what it says itself had no part in the factors, shares and intervals used on it. Memory is by the closed form. `stated` rows are
those of a stack of ours whose source states every condition that matters; the others are predicted over all that their source
leaves open. Errors are shares of what was observed; intervals are 80%."""

APART = """Which rows count as stated was settled after errors had been seen, in two cases: ms-swift's rows do not say which
attention kernel they ran, and fms-acceleration's baseline prepares the 4-bit model in a way that no cell can declare. With both
counted as stated the first target reads:"""


def card_text(card: Card, learnt: Fitted, evidence: Evidence) -> str:
    """The whole document. Targets are set for published rows alone: what we ran ourselves is counted beside them."""
    stated, rates = (
        [each for each in values if _published(each.seen) and each.seen.stated] for values in (card.peaks, card.rates)
    )
    parts = [
        INTRODUCTION,
        "## Targets\n\n" + _targets(stated, rates, card.fits),
        _rest(stated, rates),
        APART + "\n\n" + _errors([*stated, *(each for each in card.peaks if _set_apart(each.seen))], _all),
        "## Peaks\n\n" + _errors(card.peaks, _by_conditions),
        _errors(card.peaks, _by_meter),
        _errors(card.peaks, lambda each: each.seen.family, "source"),
        "## Tokens a second\n\n" + _errors(card.rates, _by_conditions),
        _errors(card.rates, _by_machine),
        "## Fits\n\n" + _fits(card.fits),
        "## Watts\n\n" + watts_text(*evidence.powers),
        "## Decoding\n\n" + decoding_text(*evidence.decoded),
        "## Our own runs\n\n" + own_text(evidence.own),
        "## The worst peaks\n\n" + _worst(card.peaks, 1e9, "GB"),
        "## The worst rates\n\n" + _worst(card.rates, 1.0, "tok/s"),
        "## What was learnt\n\n" + _learnt(learnt),
        "## Published rows left out\n\n" + table(("reason", "rows"), counted(card.left_out)),
    ]
    return "\n\n".join(parts) + "\n"


def _targets(peaks: Sequence[Scored], rates: Sequence[Scored], fits: Sequence[Fit]) -> str:
    peak, rate = summarise(peaks), summarise(rates)
    small = [each for each in fits if (each.seen.capacity_bytes or 0) < SMALL_CARD_BYTES and not each.ran]
    small = [each for each in small if (each.seen.capacity_bytes or 0) > 0.9 * 24e9 and not each.seen.missing]
    false = [each for each in small if each.wrong]
    lines = [
        _target(
            "peak, stated: MAPE",
            "≤ 10%",
            f"{peak.mape:.1%}" if peak else None,
            peak is not None and peak.mape <= 0.10,
            len(peaks),
        ),
        _target(
            "peak, stated: within the interval",
            "75–85%",
            f"{peak.coverage:.0%}" if peak else None,
            peak is not None and 0.75 <= peak.coverage <= 0.85,
            len(peaks),
        ),
        _target(
            "tokens/s, stated: MAPE",
            "≤ 30%",
            f"{rate.mape:.1%}" if rate else None,
            rate is not None and rate.mape <= 0.30,
            len(rates),
        ),
        _target("24 GB, ran out of memory: said to fit", "0", str(len(false)), not false, len(small)),
    ]
    return table(("target", "wanted", "found", "met", "rows"), lines)


def _target(name: str, wanted: str, found: str | None, met: bool, rows: int) -> str:
    return f"| {name} | {wanted} | {found or '-'} | {('yes' if met else 'no') if rows else 'no rows'} | {rows} |"


def _rest(peaks: Sequence[Scored], rates: Sequence[Scored]) -> str:
    """How much the counts above can tell at all."""
    return "\n".join(_certainty(what, values) for what, values in (("peaks", peaks), ("rates", rates)) if values)


def _certainty(what: str, values: Sequence[Scored]) -> str:
    count, sources = len(values), sorted({each.seen.family for each in values})
    chance = 1.28 * math.sqrt(0.8 * 0.2 / count)
    named = f"{len(sources)} {'source' if len(sources) == 1 else 'sources'} ({', '.join(sources)})"
    return f"""- Stated {what}: {count} rows of {named}. Were the rows independent, exact 80% intervals would cover \
{0.8 - chance:.0%} to {min(1.0, 0.8 + chance):.0%}
  of so many in four cases of five; rows of one source share its errors, and say less than that."""


def _published(seen: Observation) -> bool:
    return seen.tier == "published"


def _set_apart(seen: Observation) -> bool:
    """Rows that were taken out of the stated ones after their errors had been seen."""
    return seen.missing == ("attention kernel",) or "baseline-peft-bnb" in seen.framework


def _all(each: Scored) -> str:
    return "stated, and what was set apart"


def _by_conditions(each: Scored) -> str:
    seen = each.seen
    return f"{seen.stack} | {seen.cells[0].workload.method} | {seen.conditions}"


def _by_meter(each: Scored) -> str:
    return f"{each.seen.stack} | {each.seen.meter} | {each.seen.conditions}"


def _by_machine(each: Scored) -> str:
    return f"{each.seen.stack} | {each.seen.machine.name if each.seen.machine else '-'} | {each.seen.family}"


HEADINGS: dict[Callable[[Scored], str], str] = {
    _all: "rows of",
    _by_conditions: "stack | method | conditions",
    _by_meter: "stack | meter | conditions",
    _by_machine: "stack | machine | source",
}


def _errors(values: Iterable[Scored], by: Callable[[Scored], str], heading: str | None = None) -> str:
    lines = [
        f"| {name} | {found.count} | {found.mape:.1%} | {found.bias:+.1%} | {found.coverage:.0%} |"
        for name, rows in grouped(values, by).items()
        if (found := summarise(rows))
    ]
    return table((heading or HEADINGS[by], "rows", "MAPE", "bias", "within 80%"), lines)


def _fits(fits: Sequence[Fit]) -> str:
    wrong = [each for each in fits if each.wrong]
    kinds = Counter(each.wrong for each in wrong)
    known = [each for each in fits if each.seen.stated or not each.seen.missing]
    said, sure = brier(fits), brier(known)
    lines = [
        f"{len(fits)} outcomes on devices of known capacity, {sum(not each.ran for each in fits)} of them out of memory. "
        f"False “fits”: {kinds['false fit']}. False “does not fit”: {kinds['false no']}. "
        f"Brier score {_figure(said)}; {_figure(sure)} on the {len(known)} whose conditions are all given.",
    ]
    rows = [
        f"| {each.seen.id} | {each.wrong} | {each.probability:.2f} | {(each.seen.capacity_bytes or 0) / 1e9:.1f} GB "
        f"| {_reason(each.seen)} |"
        for each in wrong
    ]
    return "\n\n".join([*lines, *([table(("row", "wrong", "probability", "capacity", "reason"), rows)] if rows else [])])


def _worst(values: Iterable[Scored], unit: float, name: str) -> str:
    ranked = sorted(values, key=lambda each: (-abs(each.error), each.seen.id))[:WORST]
    lines = [
        f"| {each.seen.id} | {each.seen.cells[0].workload.model.name} | {each.seen.cells[0].workload.method} "
        f"| {each.observed / unit:,.1f} | {each.predicted / unit:,.1f} | {each.error:+.0%} | {_reason(each.seen)} |"
        for each in ranked
    ]
    return table(("row", "model", "method", f"observed {name}", "predicted", "error", "reason"), lines)


def _reason(seen: Observation) -> str:
    """Why a prediction may be off, as far as the row itself tells."""
    reasons = [f"open: {', '.join(seen.missing)}"] if seen.missing else []
    reasons += [] if seen.own else [f"{seen.framework}: its own trainer, by the rules of {seen.stack}"]
    reasons += ["meter unstated"] if seen.meter == "unstated" else []
    reasons += ["reserved memory fragments over texts of several lengths"] if seen.meter == "reserved" and seen.varied else []
    return "; ".join(reasons) or "none known: every condition is stated"


def _learnt(learnt: Fitted) -> str:
    memory = [
        f"| {stack} | {quantity} | {each.factor:.3f} | {each.spread:.3f} | {each.rows} | {each.sources} |"
        for (stack, quantity), each in sorted(learnt.memory.items())
    ]
    speed = [
        f"| {stack} | {family} | {each.matrix:.2f} | {each.bandwidth:.2f} | {each.spread:.2f} | {each.rows} | {each.sources} |"
        for (stack, family), each in sorted(learnt.speed.items())
    ]
    return "\n\n".join(
        [
            "From all rows together, for the predictions that are made from now on. A peak by rule is multiplied by its factor.",
            table(("stack", "quantity", "factor", "spread (log)", "rows", "sources"), memory),
            table(("stack", "machines", "share of products", "of bandwidth (assumed)", "spread (log)", "rows", "sources"), speed),
            load_text(learnt.load),
        ]
    )


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
