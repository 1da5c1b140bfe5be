"""How far the rules' peaks are off, fitted on observed peaks.

In: observations with peaks, and the rules that predict each. Out: for every stack and quantity a factor, and the spread that
remains. Quantities are never mixed: what torch allocated, what it reserved, what MLX's peak was, what the driver saw. Rows of a
source are averaged first; the factor of few sources is drawn towards one, since the rules were derived and not fitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from bench.predict.cited_stacks import FULL_LOGITS_BYTES
from bench.predict.evidence import Observation
from bench.predict.prediction import Memory
from bench.predict.spread import MOST_FACTOR, MOST_SPREAD
from bench.spec import Cell

Rules = Callable[[Cell, bool], Memory]
"""A cell's memory; the flag says whether the loss stands on full logits."""
Quantity = str
QUANTITY: Mapping[str, Quantity] = {
    "allocated": "peak",
    "active": "peak",
    "mlx_peak": "peak",
    "reserved": "reserved",
    "device_used": "held",
    "unstated": "unstated",
}
"""By meter, what of a `Memory` it compares with. An unstated meter may be of any, so it is compared with the middle of all."""
Z80 = 1.2816
LEAST_SPREAD = 0.02
Key = tuple[str, Quantity]


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What the rules' value is multiplied by, and the standard deviation of the logarithm of what remains."""

    factor: float
    spread: float
    rows: int
    sources: int


@dataclass(frozen=True, slots=True)
class Residual:
    """Logarithm of observed over predicted, of one observation, and the spread that the rules themselves expect of it."""

    key: Key
    source: str
    log_ratio: float
    rules_spread: float


@dataclass(frozen=True, slots=True)
class Guess:
    """A value in bytes by its logarithm: the middle, the standard deviation that open conditions make, and that of the rules' own
    interval.
    """

    log_bytes: float
    open_spread: float
    rules_spread: float


def guess(seen: Observation, quantity: Quantity, rules: Rules) -> Guess:
    """Over the cells that the observation may be of."""
    logs = [math.log(_value(cell, seen.logit_bytes, quantity, rules)) for cell in seen.cells]
    middle = fmean(logs)
    own = fmean(_spread(rules(cell, False), quantity) for cell in seen.cells)
    return Guess(middle, math.sqrt(fmean((log - middle) ** 2 for log in logs)), own)


def _value(cell: Cell, logit_bytes: int, quantity: Quantity, rules: Rules) -> float:
    """The rules' value. With a loss that makes all logits it is the larger of two moments: the fused step's peak, and the loss's,
    which the rules know at `FULL_LOGITS_BYTES` a logit and which grows with them.
    """
    fused = _of(rules(cell, False), quantity)
    if not logit_bytes:
        return fused
    logits = cell.workload.batch_size * cell.workload.sequence_length * int(cell.workload.model.config["vocab_size"])
    return max(fused, _of(rules(cell, True), quantity) - (FULL_LOGITS_BYTES - logit_bytes) * logits)


def _of(memory: Memory, quantity: Quantity) -> float:
    reserved = memory.reserved_bytes or memory.peak_bytes
    if quantity == "unstated":
        return math.sqrt(memory.peak_bytes * memory.held_bytes)
    return {"peak": memory.peak_bytes, "reserved": reserved, "held": memory.held_bytes}[quantity]


def _spread(memory: Memory, quantity: Quantity) -> float:
    """Standard deviation of the logarithm, from the 80% interval that the rules give."""
    peak = math.log(memory.peak_high_bytes / memory.peak_low_bytes)
    held = math.log(memory.held_high_bytes / memory.held_low_bytes)
    return max(LEAST_SPREAD, (peak if quantity == "peak" else max(peak, held)) / (2 * Z80))


def residuals(observations: Iterable[Observation], rules: Rules) -> list[Residual]:
    """Of every observation with a peak that compares with something."""
    return [residual for seen in observations for residual in _residual(seen, rules)]


def _residual(seen: Observation, rules: Rules) -> Iterator[Residual]:
    quantity = QUANTITY.get(seen.meter or "")
    if seen.peak_bytes is None or quantity is None:
        return
    guessed = guess(seen, quantity, rules)
    ratio = math.log(seen.peak_bytes) - guessed.log_bytes
    yield Residual(key_of(seen, quantity), seen.family, ratio, guessed.rules_spread)


def key_of(seen: Observation, quantity: Quantity) -> Key:
    """Rows that leave conditions open, or are of another stack, correct one another alone: they say little of a cell that is
    known.
    """
    return (seen.stack, quantity if seen.stated else f"{quantity}, {seen.conditions}")


def corrections(found: Iterable[Residual]) -> dict[Key, Correction]:
    """By stack and quantity. Factor and spread are means over sources, among which the rules themselves (a factor of one, and the
    spread that they expect) count as one. A source of n rows weighs n / (n + 1) of one that never ends: rows spread about their
    source's mean as much as sources spread about theirs, as far as is known, and a random effect's weight is then that.
    """
    rows = list(found)
    return {key: _correction([each for each in rows if each.key == key]) for key in sorted({each.key for each in rows})}


def _correction(rows: Sequence[Residual]) -> Correction:
    sources = [[each for each in rows if each.source == source] for source in sorted({each.source for each in rows})]
    weights = [len(source) / (len(source) + 1) for source in sources]
    total = sum(weights) + 1
    middles = [median(each.log_ratio for each in source) for source in sources]
    factor = sum(weight * middle for weight, middle in zip(weights, middles, strict=True)) / total
    expected = fmean(each.rules_spread**2 for each in rows)
    squares = [fmean((each.log_ratio - factor) ** 2 for each in source) for source in sources]
    seen = sum(weight * square for weight, square in zip(weights, squares, strict=True))
    spread = min(MOST_SPREAD, max(LEAST_SPREAD, math.sqrt((expected + seen) / total)))
    factor = max(-math.log(MOST_FACTOR), min(math.log(MOST_FACTOR), factor))
    return Correction(factor=round(math.exp(factor), 4), spread=round(spread, 4), rows=len(rows), sources=len(sources))
