"""Why a published row judges nothing, and the rows that a claim cites all the same.

In: a claim and `Cited` rows. Out: every reason against a row, `; ` between them; and the rows of `cites` as refused estimates,
for a remark's figure stands on the page with the row that it is of. A row judges nothing by being cited: what may judge comes of
`bench.claims.published`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from bench.cited import Cited
from bench.claims.claim import Claim, Estimate, Quantity
from bench.claims.stated import SERVED, apart, left_open, method_said
from bench.predict.cited_machines import machine_of
from bench.predict.cited_models import model_named
from bench.predict.cited_stacks import stack_of
from bench.predict.spelling import machine_parts

PEAK_METERS = ("allocated", "mlx_peak", "active")
"""Meters of the framework's own peak, which the claims mean; others are shown and judge nothing."""
PEAKS = ("peak_bytes", "peak_bytes_per_parameter")
SCOPES = ((re.compile(r"per card|GPU alone", re.IGNORECASE), "gpu-board"), (re.compile(r"wall", re.IGNORECASE), "wall"))
"""What a source says that its watts cover."""
HIGHEST = re.compile(r"(watts|power)[^;]*\b(peak|max)|\b(peak|max)\w* (watts|power)", re.IGNORECASE)
"""Notes that say of watts that they are the highest, not the mean."""


def against(claim: Claim, row: Cited) -> str | None:
    """Every reason why the row cannot judge the claim, `; ` between them; None where there is none."""
    return "; ".join(_reasons(claim, row)) or None


def cited_beside(claim: Claim, rows: Mapping[str, Cited], shown: Collection[str]) -> Iterator[Estimate]:
    """The rows that the claim cites, but for those that stand beside it anyway."""
    for row_id in claim.cites:
        if row_id in rows and row_id not in shown:
            yield _cited(claim, rows[row_id])


def of_row(claim: Claim, row: Cited, machine: str | None = None) -> Estimate:
    """A row in its source's own words, without a figure."""
    return Estimate(
        tier="published",
        what=f"{row.model or 'unknown model'} {row.method or ''}".strip(),
        who=f"{row.framework or 'unknown'} on {machine or row.hardware or 'an unknown machine'}",
        value=None,
        n=1,
        evidence=(row.id,),
        conditions=row.notes or "",
        unstated=left_open(claim, row),
        source=row.source,
    )


def _cited(claim: Claim, row: Cited) -> Estimate:
    value, quantity = _figure(claim, row)
    reasons = [*_reasons(claim, row), *(["it states no figure of what is claimed"] if value is None else [])]
    refused = "; ".join(reasons) or "cited beside the claim, and no more"
    return replace(of_row(claim, row), value=value, quantity=quantity, refused=refused)


def _figure(claim: Claim, row: Cited) -> tuple[float | None, Quantity | None]:
    """What the row has of what is claimed, and what it is of where that is not the claim's own: a row is one side of a ratio."""
    if claim.kind == "fit":
        return {"ok": 1.0, "oom": 0.0}.get(row.outcome or ""), None
    peak = None if row.peak_mem_bytes is None else float(row.peak_mem_bytes)
    if len(claim.sides) > 1:
        return (peak, "peak_bytes") if claim.quantity in PEAKS else (row.tokens_per_s, "tokens_per_s")
    model = model_named(row.model or "")
    per = peak / model.parameters if peak and model and model.parameters else None
    figures = {"peak_bytes": peak, "peak_bytes_per_parameter": per, "tokens_per_s": row.tokens_per_s, "power_w": row.watts}
    return figures.get(claim.quantity or ""), None


def _reasons(claim: Claim, row: Cited) -> Iterator[str]:
    generated = row.method == SERVED and "serve" not in claim.methods
    stack, cards = stack_of(row), machine_parts(row.hardware or "").count
    others = apart(claim, row)
    obstacles = {
        row.unusable or "": row.unusable is not None,
        f"another machine ({row.hardware or 'not stated'})": not _is_there(claim, row),
        f"several cards ({row.hardware})": cards > 1,
        "read while it generated, not while it trained": generated,
        f"another method ({row.method or 'not stated'})": not generated and _differs(claim.methods, method_said(row)),
        f"another model ({row.model or 'not stated'})": _differs(claim.models, _model(row)),
        f"another {'program' if row.method == SERVED else 'trainer'} ({row.framework or 'not stated'})": (
            not stack.own or stack.refused is not None
        ),
        "under other conditions: " + ", ".join(others): bool(others),
        **(_of_peaks(row) if claim.quantity in PEAKS else {}),
        **(_of_watts(claim, row) if claim.quantity == "power_w" else {}),
    }
    return (reason for reason, stands in obstacles.items() if stands)


def _of_peaks(row: Cited) -> dict[str, bool]:
    other = row.peak_mem_bytes is not None and row.meter not in PEAK_METERS and row.unusable is None
    return {f"meter {row.meter}: not the framework's own peak": other}


def _of_watts(claim: Claim, row: Cited) -> dict[str, bool]:
    text = f"{row.notes} {row.source}"
    scope = next((name for pattern, name in SCOPES if pattern.search(text)), None)
    return {
        "the highest watts, not the mean while training": bool(HIGHEST.search(row.notes or "")),
        f"covers {scope or 'what is not stated'}, the claim's {claim.scope}": claim.scope is not None and scope != claim.scope,
    }


def _is_there(claim: Claim, row: Cited) -> bool:
    """Whether the row is of a machine that the claim names, or it names none."""
    named = {name for side in claim.sides for name in side.machines}
    found = machine_of(row.hardware or "", row.memory_gb) if row.hardware else None
    return not named or (found is not None and found.name in named)


def _model(row: Cited) -> str | None:
    found = model_named(row.model or "")
    return None if found is None else found.name


def _differs(asked: Collection[str], found: str | None) -> bool:
    return bool(asked) and found not in asked
