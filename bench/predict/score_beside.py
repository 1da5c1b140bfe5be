"""What stands beside peaks and rates on the score card: watts, decoding, our own runs.

In: what was scored. Out: Markdown, a table each with the sentences that it needs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

from bench.predict.decoding import Decoded
from bench.predict.fit_power import Metered, fit_load
from bench.predict.fractions import Load
from bench.predict.own_runs import Own
from bench.predict.speed import Z80

Unused = Mapping[str, str]


def table(headings: Sequence[str], lines: Sequence[str]) -> str:
    """A Markdown table; a heading may name several columns."""
    names = " | ".join(headings)
    rule = "|".join("---" for _ in names.split("|"))
    return "\n".join([f"| {names} |", f"|{rule}|", *lines])


def counted(reasons: Unused) -> list[str]:
    """A line for each reason, the commonest first."""
    ranked = sorted(Counter(reasons.values()).items(), key=lambda each: (-each[1], each[0]))
    return [f"| {reason} | {count} |" for reason, count in ranked]


def watts_text(found: Sequence[Metered], unused: Unused) -> str:
    """Each source's watts, predicted by the share of their limits that the others' machines drew."""
    if not found:
        return "No watts of a machine of known limit."
    lines, errors, inside = [], [], []
    for source in sorted({each.source for each in found}):
        own = [each for each in found if each.source == source]
        load = fit_load([each for each in found if each.source != source])
        wrong = [load.share * each.limit_w / each.watts - 1 for each in own]
        within = [abs(each.log_share - math.log(load.share)) <= Z80 * load.spread for each in own]
        errors += wrong
        inside += within
        machines, doing = (", ".join(sorted(names)) for names in ({e.machine.name for e in own}, {e.doing for e in own}))
        figures = f"{fmean(map(abs, wrong)):.1%} | {fmean(wrong):+.1%} | {fmean(within):.0%}"
        lines.append(f"| {source} | {machines} | {doing} | {len(own)} | {load.share:.2f} | {figures} |")
    head = f"""Load as a share of the machine's limit, of {len(found)} rows: MAPE {fmean(map(abs, errors)):.1%}, within the 80%
interval {fmean(inside):.0%}. A source is predicted by the others, so where a kind of meter has one source (a board's own, a whole
Mac at the wall), a board is predicted from Macs and the other way round; and none by the reading that its profile cites. The
boards' watts are the highest that their source saw, no means. Watts between idle and load are not scored: none were published."""
    headings = ("source", "machine", "doing", "rows", "share, of the others", "MAPE", "bias", "within 80%")
    return "\n\n".join([head, table(headings, lines), table(("watts not used", "rows"), counted(unused))])


def decoding_text(found: Sequence[Decoded], unused: Unused) -> str:
    """llama.cpp's rates against the roofline."""
    if not found:
        return "No rate of decoding on a machine of known rates."
    lines = [
        f"| {each.id} | {each.machine} | {each.model} | {each.observed:,.1f} | {each.predicted:,.1f} | {each.error:+.0%} |"
        for each in found
    ]
    errors = [each.error for each in found]
    head = f"""By llama.cpp, which is no stack of ours: its 4-bit weights take 4.5 to 4.9 bits each; MLX's stand for them with
4.5 and an embedding in 16. Nothing was fitted on these rows. MAPE {fmean(map(abs, errors)):.1%}, bias {fmean(errors):+.1%}.
No rate of prefill stands in a column of the published rows, so none is scored."""
    headings = ("row", "machine", "model", "observed tok/s", "predicted", "error")
    return "\n\n".join([head, table(headings, lines), table(("rates not used", "rows"), counted(unused))])


def own_text(own: Own) -> str:
    """How many of our own runs count, by figure, and why the rest does not."""
    peaks = sum(each.peak_bytes is not None for each in own.observations)
    rates = sum(each.tokens_per_s is not None for each in own.observations)
    outcomes = sum(each.capacity_bytes is not None for each in own.observations)
    head = f"{own.runs} found: {peaks} peaks, {rates} rates and {outcomes} outcomes on a known capacity count."
    lines = [
        f"| {figure} | {reason} | {count} |"
        for (figure, reason), count in sorted(Counter(own.unused).items(), key=lambda each: (-each[1], each[0]))
    ]
    return "\n\n".join([head, *([table(("not used", "reason", "runs"), lines)] if lines else [])])


def load_text(load: Load) -> str:
    """What was learnt of watts."""
    line = f"| any | {load.share:.2f} | {load.spread:.2f} | {load.rows} | {load.sources} |"
    return table(("machines", "load, share of the limit", "spread (log)", "rows", "sources"), [line])
