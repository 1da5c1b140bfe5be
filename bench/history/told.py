"""The gate's verdict in words.

In: a `Verdict`. Out: the sentences that a terminal and a page have in common, and the text for a terminal. Sizes are told as a
change of the metric in percent, whichever direction is the better one; what is worse is in the regressions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bench.history.acknowledged import Acknowledgement, snippet
from bench.history.cause import Cause, Step
from bench.history.findings import Finding
from bench.history.gate import Told, Verdict
from bench.history.notes import Failing, Gap, Rescoped, Silent
from bench.history.series import Track
from bench.metrics import METRICS
from bench.reading.strict import printable

SHOWN_DIFFERENCES = 12
SHOWN_LINES = 12
"""Of one kind, so many are told; the document has all."""
_WHY = {
    "not run": "was not run",
    "flagged": "not measured: every run is flagged",
    "no figure": "not measured: no figure, or figures of different scope",
    "other scope": "not measured in the scope of the last night",
    "failed": "failed",
}


def describe(verdict: Verdict, acknowledged: str) -> str:
    """The verdict for a terminal; `acknowledged` names the file to acknowledge shifts in."""
    worst = foremost(verdict.regressions)
    lines = [*_block("REGRESSION", worst), *_block("suspected", foremost(verdict.suspected))]
    if verdict.red:
        lines += [f"To accept a regression, put its table into {acknowledged}, with the reason:", ""]
        lines += [line for told in worst[:SHOWN_LINES] for line in (*pasted(told.finding).split("\n"), "")]
        lines += _more(worst)
    lines += _some([f"{'slightly':<12} {headline(each.finding)}" for each in slight(verdict)])
    for word, these in (("improved", verdict.improvements), ("recovered", verdict.recovered)):
        lines += _some([f"{word:<12} {headline(each.finding)}" for each in these if each.recent])
    lines += _some([f"{'accepted':<12} {accepted(each)}" for each in verdict.acknowledged if each.recent])
    lines += _some(remarks(verdict))
    return "\n".join(map(printable, [*lines, summary(verdict)]))


def _block(word: str, these: Sequence[Told]) -> Iterator[str]:
    for each in these[:SHOWN_LINES]:
        yield f"{word:<12} {headline(each.finding)}"
        yield from (f"{'':<12} {line}" for line in details(each))
        yield ""
    yield from _more(these)


def foremost(these: Sequence[Told]) -> list[Told]:
    """Shifts by weight: cells that no longer run, then by size."""

    def weight(told: Told) -> float:
        return float("inf") if told.finding.ratio is None else abs(math.log(told.finding.ratio))

    return sorted(these, key=weight, reverse=True)


def slight(verdict: Verdict) -> list[Told]:
    """The small changes that a reader is told: those for the worse, of late."""
    return foremost([each for each in verdict.small if each.recent and each.finding.kind == "worse"])


def accepted(told: Told) -> str:
    """An acknowledged shift, with the reason that somebody gave."""
    return f"{headline(told.finding)}: {told.acknowledged.reason}" if told.acknowledged else headline(told.finding)


def _some(lines: Iterable[str]) -> list[str]:
    every = list(lines)
    return [*every[:SHOWN_LINES], *_more(every)]


def _more(these: Sequence[Any]) -> list[str]:
    more = len(these) - SHOWN_LINES
    return [f"… and {more} more, in --json"] if more > 0 else []


def summary(verdict: Verdict) -> str:
    """One line: how many of what."""
    if not verdict.series and verdict.failing:
        return f"no night has measured anything yet: {_many(len(verdict.failing), 'cell')} failed on each night"
    if not verdict.series:
        return "no night has measured anything yet: `wingspan nightly` measures one, `wingspan run SUITE --night DATE` too"
    states = [each.state for each in verdict.series]
    counts = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
    cells, machines = len({id(each.track) for each in verdict.series}), len({each.track.machine_id for each in verdict.series})
    where = f"{_many(len(states), 'series', 'series')} of {_many(cells, 'cell')} on {_many(machines, 'machine')}"
    said = f"{_many(len(verdict.regressions), 'confirmed regression')}; {where}: {', '.join(counts)}"
    short = [each.missing for each in verdict.series if each.state == "too short"]
    return said + (f"; {_many(max(short), 'more night')} at most until all can be judged" if short else "")


def headline(found: Finding) -> str:
    """Which cell where, which metric, by how much, since when."""
    where = cell_on(found.track)
    if found.ratio is None or found.low is None or found.high is None:
        return f"{where}: {_fails(found)}"
    size = f"{found.metric} {percent(found.ratio)} ({percent(found.low)} to {percent(found.high)})"
    when = f"drifting, about since the night of {found.night}" if found.gradual else f"since the night of {found.night}"
    return f"{where}: {size}, {when}"


def _fails(found: Finding) -> str:
    """Since when, and whether on every night since."""
    if found.tried == found.nights:
        return f"no longer runs; last ran on {found.before}, failed on {_many(found.nights, 'night')} from {found.night} on"
    return f"fails on some nights: on {found.nights} of {_many(found.tried or 0, 'night')} that tried it, from {found.night} on"


def cell_on(track: Track) -> str:
    """The cell, its machine and suite; and what it was held to, if to anything."""
    held = "" if track.tier == "measured" else f", {track.tier}"
    return f"{track.cell} on {track.machine} ({track.suite}{held})"


def details(told: Told) -> Iterator[str]:
    """What else is known of a finding: levels, how it failed, what changed around it."""
    found = told.finding
    if found.level_before is not None and found.level_after is not None:
        levels = f"{amount(found.metric, found.level_before)} before, {amount(found.metric, found.level_after)} since"
        yield f"{levels}; {_many(found.nights, 'night')} measured since"
    if found.reason:
        yield found.reason
    if not found.confirmed:
        yield "not confirmed yet: the next night that is measured confirms or clears it"
    if told.cause is not None:
        yield from causes(told.cause)
    elif found.gradual:
        yield "a drift has no night on which something changed"


def causes(cause: Cause) -> Iterator[str]:
    """What changed around a shift, or that nothing did."""
    yield f"attributed to the {cause.attributed_to}" if cause.attributed_to != "nothing recorded" else _nothing(cause)
    yield from (f"changed within the night of {night}, between its runs" for night in cause.mixed)
    yield from (_step(step) for step in cause.steps)
    yield from (f"a night away, {_step(step)}" for step in cause.nearby)


def _nothing(cause: Cause) -> str:
    return f"nothing that is recorded changed between {cause.before} and {cause.night}"


def _step(step: Step) -> str:
    more = len(step.differences) - SHOWN_DIFFERENCES
    told = [*map(str, step.differences[:SHOWN_DIFFERENCES]), *([f"{more} more, in --json"] if more > 0 else []), *step.notes]
    return f"changed between {step.before} and {step.night}: {'; '.join(told)}"


def remarks(verdict: Verdict) -> Iterator[str]:
    """What is neither a shift nor a number: gaps, runs that fail, silence, acknowledgements that speak of nothing.

    What hides a regression comes first, what has been as it is for long comes last.
    """
    yield from map(_to_come, verdict.to_come)
    yield from map(_silent, verdict.silent)
    yield from map(_rescoped, sorted(verdict.rescoped, key=lambda each: not each.open))
    yield from map(_gap, (each for each in verdict.gaps if each.open))
    yield from map(_failing, (each for each in verdict.failing if each.ever_ran))
    yield from map(_gap, (each for each in verdict.gaps if not each.ended))
    yield from map(_unmatched, verdict.unmatched)
    yield from map(_failing, (each for each in verdict.failing if not each.ever_ran))
    yield from map(_gap, (each for each in verdict.gaps if each.ended and not each.open))


def _to_come(night: str) -> str:
    return f"the night of {night} is left out: it is yet to come (a wrong clock, or a slip in --night)"


def _silent(silent: Silent) -> str:
    return f"{silent.machine}: no night for {_many(silent.days, 'day')}, the last is {silent.last}"


def _gap(gap: Gap) -> str:
    subject = cell_on(gap.track) + (f": {', '.join(gap.metrics)}" if gap.metrics else "")
    last = f"last measured {gap.last}" if gap.last else "never measured yet"
    if not gap.ended:
        flags = f" ({', '.join(gap.track.flags)})" if gap.why == "flagged" else ""
        return f"{subject} {_WHY[gap.why]}{flags} on the last {_many(gap.nights, 'night')}, {last}"
    stood = _stood(gap.open)
    return f"{subject} is no longer measured, {last}" + (f"; it ended with a regression that stood: {stood}" if stood else "")


def _stood(these: Sequence[Finding]) -> str:
    return ", ".join(f"{each.metric} since {each.night}" for each in these)


def _failing(failing: Failing) -> str:
    where = cell_on(failing.track)
    if not failing.ever_ran:
        return f"{where} never ran, on {_many(failing.nights, 'night')}: {failing.reason}"
    return (
        f"{where}: {failing.failed} of {failing.runs} runs failed on the last {_many(failing.nights, 'night')}: {failing.reason}"
    )


def _rescoped(each: Rescoped) -> str:
    subject, stood = f"{cell_on(each.track)}: {each.metric}", _stood(each.open)
    said = f"{subject} covers {each.after or 'what is not told'} since {each.night}, {each.before or 'what is not told'} before"
    return f"{said}: older nights are not compared" + (f"; a regression stood: {stood}" if stood else "")


def _unmatched(said: Acknowledgement) -> str:
    where = f"{said.cell} on {said.machine}, {said.metric}, night {said.night}"
    return f"acknowledged, but no such shift is found (remove it, or see its size): {where}"


def pasted(found: Finding) -> str:
    """The table that acknowledges it."""
    track = found.track
    return snippet(track.machine, track.suite, track.cell, found.metric, found.night, found.ratio)


def percent(ratio: float) -> str:
    """A ratio as a change, with its sign."""
    return f"{100 * (ratio - 1):+.1f}%" if ratio < 10 else f"×{ratio:.3g}"


def amount(metric: str, value: float) -> str:
    """A level with its unit; bytes in GB of 10⁹, below one in MB."""
    unit = METRICS[metric].unit
    if unit == "bytes":
        value, unit = (value / 1e9, "GB") if value >= 1e9 else (value / 1e6, "MB")
    return f"{float(f'{value:.4g}'):,.0f} {unit}" if value >= 1000 else f"{value:.4g} {unit}"


def _many(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
