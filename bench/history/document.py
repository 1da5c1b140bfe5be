"""The gate's verdict as JSON.

In: a `Verdict`. Out: the document of `regress --json`, whose keys stay:

`as_of` (the day), `red` (true: exit code 1), `regressions`, `suspected`, `acknowledged`, `recovered`, `improvements`, `small`
(shifts); `series` (every metric of every cell, with its `state`), `gaps` (what the last nights did not tell), `failing` (cells of
whose runs some failed, or that never ran), `rescoped` (metrics that cover something else of late), `silent_machines`,
`nights_to_come` (left out), `unmatched_acknowledgements`, `damaged` (result files that could not be read).

A shift: `machine`, `machine_id`, `suite`, `tier`, `cell`, `cell_key`, `metric` (`outcome`: the cell fails), `unit`, `scope`,
`confirmed`, `gradual`, `night` (first of the new level), `night_before` (last measured of the old), `nights` (measured
since, of a cell that fails failed, of `nights_tried`),
`ratio`, `low`, `high` (new ÷ old, 95% interval), `level_before`, `level_after`, `reason`, `recovered` (night), `acknowledged`
{`night`, `reason`}, `acknowledge` (the table to paste), `cause` {`attributed_to` (`environment`, `harness`, `nothing recorded`),
`between`, `steps` [{`between`, `differences` [{`kind`, `name`, `before`, `after`}], `notes`}], `nearby` (as `steps`), `mixed`
(nights)}. None where something is not measured or does not apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from bench.history.cause import Cause, Step
from bench.history.findings import Finding
from bench.history.gate import Judged, Told, Verdict
from bench.history.notes import Failing, Gap, Rescoped
from bench.history.series import Track
from bench.history.told import pasted
from bench.metrics import METRICS


def document(verdict: Verdict, damaged: Iterable[object] = ()) -> dict[str, Any]:
    """The document of `regress --json`."""
    return {
        "as_of": verdict.as_of,
        "red": verdict.red,
        "regressions": _shifts(verdict.regressions),
        "suspected": _shifts(verdict.suspected),
        "acknowledged": _shifts(verdict.acknowledged),
        "recovered": _shifts(verdict.recovered),
        "improvements": _shifts(verdict.improvements),
        "small": _shifts(verdict.small),
        "series": [_series(each) for each in verdict.series],
        "gaps": [_gap(each) for each in verdict.gaps],
        "failing": [_failing(each) for each in verdict.failing],
        "rescoped": [_rescoped(each) for each in verdict.rescoped],
        "silent_machines": [asdict(each) for each in verdict.silent],
        "nights_to_come": list(verdict.to_come),
        "unmatched_acknowledgements": [asdict(each) for each in verdict.unmatched],
        "damaged": [str(each) for each in damaged],
    }


def _cell(track: Track) -> dict[str, Any]:
    return {name: getattr(track, name) for name in ("machine", "machine_id", "suite", "tier", "cell", "cell_key")}


def _unit(metric: str) -> str | None:
    return METRICS[metric].unit if metric in METRICS else None


def _shifts(these: Sequence[Told]) -> list[dict[str, Any]]:
    return [_shift(each) for each in these]


def _shift(told: Told) -> dict[str, Any]:
    found, said = told.finding, told.acknowledged
    names = ("confirmed", "gradual", "night", "nights", "ratio", "low", "high", "level_before", "level_after", "recovered")
    return {
        **_cell(found.track),
        "metric": found.metric,
        "unit": _unit(found.metric),
        "scope": found.scope or None,
        **{name: getattr(found, name) for name in names},
        "nights_tried": found.tried,
        "night_before": found.before,
        "reason": found.reason or None,
        "cause": None if told.cause is None else _cause(told.cause),
        "acknowledged": None if said is None else {"night": said.night, "reason": said.reason},
        "acknowledge": pasted(found) if found.kind == "worse" and found.confirmed and said is None else None,
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "attributed_to": cause.attributed_to,
        "between": [cause.before, cause.night],
        "steps": [_step(each) for each in cause.steps],
        "nearby": [_step(each) for each in cause.nearby],
        "mixed": list(cause.mixed),
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "between": [step.before, step.night],
        "differences": [asdict(each) for each in step.differences],
        "notes": list(step.notes),
    }


def _series(each: Judged) -> dict[str, Any]:
    levels, measured = each.series.levels, each.series.measured
    return {
        **_cell(each.track),
        "metric": each.series.metric,
        "unit": _unit(each.series.metric),
        "scope": each.series.scope or None,
        "state": each.state,
        "nights": len(each.track.nights),
        "measured": len(measured),
        "missing": each.missing,
        "last_night": each.last,
        "level": levels[measured[-1]] if measured else None,
    }


def _gap(gap: Gap) -> dict[str, Any]:
    return {
        **_cell(gap.track),
        "metrics": list(gap.metrics),
        "why": gap.why,
        "flags": list(gap.track.flags) if gap.why == "flagged" else [],
        "nights": gap.nights,
        "last_night": gap.last,
        "ended": gap.ended,
        "standing": _standing(gap.open),
    }


def _standing(these: Sequence[Finding]) -> list[dict[str, str]]:
    return [{"metric": each.metric, "night": each.night} for each in these]


def _failing(failing: Failing) -> dict[str, Any]:
    names = ("failed", "runs", "nights", "ever_ran", "reason")
    return {**_cell(failing.track), **{name: getattr(failing, name) for name in names}}


def _rescoped(each: Rescoped) -> dict[str, Any]:
    names = ("metric", "before", "after", "last", "night")
    return {**_cell(each.track), **{name: getattr(each, name) for name in names}, "standing": _standing(each.open)}
