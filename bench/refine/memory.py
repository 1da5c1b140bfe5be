"""Memory as a line: so much for any model, so much a parameter, so much a token.

In: peaks of known size (`Row`). Out: for each method, stack, optimizer and checkpointing a `Rule`: memory = fixed + slope ×
parameters + slope × tokens, by least squares of relative errors (peaks spread by factors; a gigabyte amiss is much at 1B and
nothing at 70B). Intervals are 95%, by Student's t on what the line leaves over. Of predictions, what is left over is no noise but
what a line cannot say, as that a token costs more in a wider model: the interval then tells how well a line describes them. Where
the peaks do not grow with tokens the slope is nothing: its column is dropped, and the rest fitted again. Tiers are never pooled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from bench.claims.claim import Tier

CONFIDENCE = 0.95
ABOUT = 0.15
"""As the claims' own tolerance."""
LITTLE = 0.05
"""Of every peak: a slope that the intervals keep under this over all the lengths seen is none. A third of what is called "about",
so that what is left out alone never makes a line wrong."""
_Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True, order=True)
class Group:
    """What one line is about: rows of unlike groups say nothing of one another."""

    method: str
    backend: str
    device: str
    optimizer: str
    gradient_checkpointing: bool
    tier: Tier


@dataclass(frozen=True, slots=True)
class Row:
    """One peak, in bytes; `tokens` are the positions that are in memory at once; `evidence` names where it is from."""

    group: Group
    parameters: float
    tokens: float
    peak_bytes: float
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Coefficient:
    """Bytes, bytes a parameter, or bytes a token; the interval is None where as many rows as coefficients leave nothing over."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Residual:
    """How far a row is from the line, as a share of the row: above zero where the line says too little."""

    row: Row
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A fitted line. A coefficient is None where the rows do not vary so that it could be told, or where it was not asked for.

    `level`: the rows have several lengths, and their peaks do not grow with them; `per_token` is then None. `rms_share` is the
    root mean square of the residuals, `worst_share` the largest by size.
    """

    group: Group
    fixed: Coefficient | None
    per_parameter: Coefficient | None
    per_token: Coefficient | None
    residuals: tuple[Residual, ...]
    level: bool = False

    @property
    def n(self) -> int:
        return len(self.residuals)

    @property
    def rms_share(self) -> float:
        return float(np.sqrt(np.mean([each.share**2 for each in self.residuals])))

    @property
    def worst_share(self) -> float:
        return max((each.share for each in self.residuals), key=abs)

    @property
    def describes(self) -> bool:
        """Whether the line says it well: most rows within what is called "about"."""
        return self.rms_share <= ABOUT

    @property
    def told_apart(self) -> bool:
        """Whether the rows tell what each slope is: surely above zero. Nothing takes less memory for being larger."""
        slopes = [each for each in (self.per_parameter, self.per_token) if each is not None]
        return not any(each.low is not None and each.low <= 0 for each in slopes)

    def at(self, parameters: float, tokens: float) -> float:
        """Bytes by the line."""
        terms = ((self.fixed, 1.0), (self.per_parameter, parameters), (self.per_token, tokens))
        return sum(each.value * factor for each, factor in terms if each is not None)


def rules(rows: Iterable[Row]) -> tuple[Rule, ...]:
    """A line for each group that has rows enough, in the order of groups."""
    ordered = sorted(rows, key=lambda row: (row.group, row.parameters, row.tokens, row.evidence))
    found = (rule([*members]) for _, members in groupby(ordered, key=lambda row: row.group))
    return tuple(each for each in found if each is not None)


def rule(rows: Sequence[Row], *, fixed: bool = True) -> Rule | None:
    """The line through rows of one group; without a fixed part, through nothing at no parameters. None for too few rows.

    Raises ValueError for rows of several groups, and for a peak that is not above zero.
    """
    if len({row.group for row in rows}) > 1:
        raise ValueError("rows of several groups make no line")
    if any(row.peak_bytes <= 0 for row in rows):
        raise ValueError("a peak is above zero")
    columns = _columns(rows, fixed)
    if not rows or len(rows) < len(columns):
        return None
    found = _fitted(rows, columns)
    if not _is_level(found.per_token, rows):
        return found
    return replace(_fitted(rows, {name: column for name, column in columns.items() if name != "per_token"}), level=True)


def _fitted(rows: Sequence[Row], columns: dict[str, _Reals]) -> Rule:
    """The line with these columns."""
    values = np.array([row.peak_bytes for row in rows])
    weighted = np.column_stack([column / values for column in columns.values()])
    found, reach = _solve(weighted)
    fitted = {
        name: _coefficient(value, None if reach is None else reach[place])
        for place, (name, value) in enumerate(zip(columns, found, strict=True))
    }
    shares = 1 - weighted @ found
    return Rule(
        group=rows[0].group,
        fixed=fitted.get("fixed"),
        per_parameter=fitted.get("per_parameter"),
        per_token=fitted.get("per_token"),
        residuals=tuple(Residual(row, float(share)) for row, share in zip(rows, shares, strict=True)),
    )


def _is_level(slope: Coefficient | None, rows: Sequence[Row]) -> bool:
    """Whether tokens make no difference: their slope is not surely above zero, and not even its interval's ends make up much of a
    peak. A slope that is merely unknown, whose interval holds much too, is not taken for none.
    """
    if slope is None or slope.low is None or slope.high is None or slope.low > 0:
        return False
    lengths, least = [row.tokens for row in rows], min(row.peak_bytes for row in rows)
    return max(abs(slope.low), abs(slope.high)) * (max(lengths) - min(lengths)) <= LITTLE * least


def _columns(rows: Sequence[Row], fixed: bool) -> dict[str, _Reals]:
    """What the rows can tell apart: a quantity that is alike in all, or goes along with another, gets no coefficient."""
    offered = {"fixed": [1.0] * len(rows)} if fixed else {}
    offered |= {"per_parameter": [row.parameters for row in rows], "per_token": [row.tokens for row in rows]}
    taken: dict[str, _Reals] = {}
    for name, values in offered.items():
        column = np.asarray(values, float)
        scaled = (
            np.column_stack([each / (np.abs(each).max() or 1.0) for each in (*taken.values(), column)]) if len(rows) else column
        )
        if len(rows) and np.linalg.matrix_rank(scaled) > len(taken):
            taken[name] = column
    return taken


def _solve(weighted: _Reals) -> tuple[_Reals, _Reals | None]:
    """(coefficients, how far their intervals reach): relative errors, so every target is one. Columns are scaled to be alike."""
    from scipy.special import stdtrit

    scale = np.abs(weighted).max(axis=0)
    scaled = weighted / scale
    found = np.linalg.lstsq(scaled, np.ones(len(scaled)), rcond=None)[0]
    freedom = len(scaled) - scaled.shape[1]
    if freedom < 1:
        return found / scale, None
    left = float(np.sum((1 - scaled @ found) ** 2)) / freedom
    errors = np.sqrt(left * np.diag(np.linalg.inv(scaled.T @ scaled)))
    return found / scale, float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * errors / scale


def _coefficient(value: float, reach: float | None) -> Coefficient:
    if reach is None:
        return Coefficient(float(value), None, None)
    return Coefficient(float(value), float(value - reach), float(value + reach))
