"""Verdicts for a reader at a terminal, and as JSON.

In: judged claims. Out: a line each, with the number that stands in the claim's place; and the document of `claims --json`, whose
keys are a contract.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from bench.claims.claim import VERDICTS, Claim, Estimate, Judged, Language
from bench.claims.found import astride
from bench.claims.ruling import edges_of
from bench.reading.strict import printable

SCALES = {"GB": 1e9, "GB/s": 1e9, "%": 0.01}
"""By how much a value in SI units is divided to be in a claim's unit; bytes a parameter are GB per 10⁹ parameters."""
SPACES = {0xA0: " ", 0x202F: " "}
"""Spaces that do not break, for a terminal, where everything that is not plain is escaped."""


def document(judged: Sequence[Judged]) -> dict[str, Any]:
    """The document of `claims --json`."""
    return {"claims": [_json(each) for each in judged]}


def _json(each: Judged) -> dict[str, Any]:
    claim = each.claim
    return {
        "id": claim.id,
        "kind": claim.kind,
        "verdict": each.verdict,
        "tier": each.tiers[0] if each.tiers else None,
        "tiers": list(each.tiers),
        "value": _finite(each.value),
        "low": _finite(each.low),
        "high": _finite(each.high),
        "least": _finite(each.least),
        "most": _finite(each.most),
        "speaking": each.speaking,
        "answers": len(each.estimates),
        "unit": claim.unit,
        "n": each.n,
        "evidence": [name for estimate in each.estimates for name in estimate.evidence],
        "text": claim.statement["en"],
        "reason": each.reason,
        "more_runs": each.more_runs,
        "estimates": [_estimate(estimate) for estimate in each.estimates],
        "others": [_estimate(estimate) for estimate in each.others],
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {**asdict(estimate), **{name: _finite(getattr(estimate, name)) for name in ("value", "low", "high")}}


def _finite(value: float | None) -> float | None:
    """JSON has no infinity: who alone can do something has no rate over the other."""
    return value if value is not None and math.isfinite(value) else None


def describe(judged: Sequence[Judged], language: Language = "en") -> str:
    """A line a claim, and how many there are of each verdict."""
    lines = [_line(each, language) for each in judged]
    counts = [f"{count} {verdict}" for verdict in VERDICTS if (count := sum(each.verdict == verdict for each in judged))]
    return "\n".join([*(printable(line.translate(SPACES)) for line in lines), "", f"{len(judged)} claims: {', '.join(counts)}"])


def _line(each: Judged, language: Language) -> str:
    tier = f" ({' and '.join(each.tiers)})" if each.tiers and not each.verdict.startswith("predicted") else ""
    found = "; ".join(_said(each))
    return f"{each.verdict + tier:<24} {each.claim.id}: {each.claim.statement[language]} {found}".rstrip()


def _said(each: Judged) -> Iterator[str]:
    if found := _found(each):
        yield f"found {found}{_share(each)}{_beside(each)}"
    yield each.reason
    if each.more_runs:
        yield f"about {each.more_runs} more runs would settle it"


def _found(each: Judged) -> str:
    """The number, or both ends where the answers have no middle."""
    if each.claim.unit is None:
        return ""
    if each.value is not None and math.isfinite(each.value):
        return f"{amount(each.claim, each.value)}{_between(each)}"
    if each.least is None or each.most is None:
        return ""
    return f"{amount(each.claim, each.least)} to {amount(each.claim, each.most)}"


def _share(each: Judged) -> str:
    """Of how many answers the number speaks, where some say otherwise."""
    if each.speaking is None or each.speaking >= len(each.estimates):
        return ""
    return f", in {each.speaking} of {len(each.estimates)} answers"


def _beside(each: Judged) -> str:
    return ", on either side of what is claimed" if is_astride(each) else ""


def is_astride(each: Judged) -> bool:
    """Whether what contradicts the claim lies on either side of it, and so has no middle."""
    if each.value is not None or each.least is None or each.most is None:
        return False
    return astride(each.least, each.most, edges_of(each.claim))


def _between(each: Judged) -> str:
    if each.low is None or each.high is None or each.low == each.high:
        return ""
    return f" ({amount(each.claim, each.low)} to {amount(each.claim, each.high)})"


def amount(claim: Claim, value: float) -> str:
    """A value in the claim's own unit, three digits."""
    scaled = value / SCALES.get(claim.unit or "", 1.0)
    number = f"{float(f'{scaled:.3g}'):,g}"
    return f"{number}{claim.unit}" if claim.unit in ("×", "%") else f"{number} {claim.unit}"
