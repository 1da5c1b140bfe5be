"""Finding an edge, beginning where it is predicted.

In: a `Question`, the chance that a cell fits, and a way to try one; nothing is started here. Out: an `Edge`: the largest value
that ran, and the smallest that did not.

Memory only grows along a question's values, so bisection finds the edge. The first cell tried is the one that is as likely to fit
as not; the second stands at that end of the prediction's interval which the first answer leaves open; then come strides that
double, until one ran and one did not, and halves between them. What is found is tried once more by a longer run, since a short
one shows no fit; where that one does not fit, short runs count for nothing any more, and the search goes on below by longer ones.
Without a prediction the strides begin at the smallest value.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from bench.frontier.question import MODEL, Question, Value
from bench.predict.prediction import EVEN, NO_UP_TO, YES_FROM
from bench.spec import Cell

Chance = Callable[[Cell], float | None]
"""The probability that a cell fits; None where it cannot be predicted."""
Status = Literal["confirmed", "unconfirmed", "all fit", "none fits", "inconclusive", "left", "predicted", "unpredicted"]
"""`confirmed`: the longer run at the edge ended ok. `all fit`: so it did at the largest value asked for. `inconclusive`: a run
failed twice, and not for memory. `left`: time was up, or somebody interrupted. `predicted`, `unpredicted`: nothing was tried."""
FIRST_STRIDE = 8
"""The first stride away from a predicted edge is this part of it: about as wide as predictions err."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A predicted edge, as places among a question's values (-1: below the smallest).

    The last value that surely fits, the last that fits more likely than not, the last that may fit at all.
    """

    low: int
    likely: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a run says of a cell. `fits` None: nothing, for `why`. `long`: the run was long enough to confirm an edge.

    `growing`: memory still grew when it ended, so it shows no fit of longer ones.
    """

    cell: Cell
    fits: bool | None
    run_id: str | None = None
    long: bool = False
    growing: bool = False
    why: str | None = None


Ask = Callable[[Cell, bool], Answer]
"""Try a cell; True asks for the longer run that confirms an edge."""


class Stopped(Exception):  # no error: time is up, or somebody interrupted
    """No further cell may be tried; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """What came of a question. `last` is the largest value that ran, `first` the smallest that did not; None: none such was seen.

    `predicted` are the values of the guess (None: below the smallest), `run_ids` the runs that the edge rests on, in the order in
    which they were asked.
    """

    question: Question
    status: Status
    last: Value | None = None
    first: Value | None = None
    predicted: Mapping[str, Value | None] | None = None
    run_ids: tuple[str, ...] = ()
    why: str | None = None

    def to_json(self) -> dict[str, Any]:
        """One entry of `frontier --json`; `model` is null where the largest model is asked for."""
        base, axis = self.question.bases[0], self.question.axis
        return {
            "question": self.question.id,
            "model": None if axis == MODEL else base.workload.model.name,
            "method": base.workload.method,
            "backend": base.backend,
            "device": base.device,
            "axis": axis,
            "held": self.question.held,
            "predicted": None if self.predicted is None else dict(self.predicted),
            "last": self.last,
            "first": self.first,
            "status": self.status,
            "why": self.why,
            "run_ids": list(self.run_ids),
        }

    def __str__(self) -> str:
        parts = [] if self.predicted is None else [f"predicted {self._foretold(self.predicted)}"]
        if self.status not in ("predicted", "unpredicted"):
            beyond = "" if self.first is None else f", {self.first} does not"
            parts.append(f"{_named(self.last)} runs{beyond} ({self.status})")
        held = ", ".join(f"{name}={size}" for name, size in self.question.held.items())
        return f"{self.question.id} at {held}: " + "; ".join([*parts, *([self.why] if self.why else [])])

    def _foretold(self, predicted: Mapping[str, Value | None]) -> str:
        low, likely, high = (predicted[name] for name in ("low", "likely", "high"))
        if high is None:
            return "that none fits"
        if low == self.question.values[-1]:
            return f"that all fit, up to {low}"
        return str(likely) if low == high else f"{_named(likely)} ({_named(low)} to {high})"


def _named(value: Value | None) -> str:
    return "none" if value is None else str(value)


def guess(question: Question, chance: Chance) -> Guess | None:
    """The predicted edge; None where a cell that has to be looked at cannot be predicted."""
    seen: dict[int, float] = {}

    def probability(index: int) -> float:
        if index not in seen:
            found = chance(question.cell(index))
            if found is None:
                raise LookupError
            seen[index] = found
        return seen[index]

    def last(fits: Callable[[float], bool]) -> int:
        return bisect_left(range(len(question.values)), True, key=lambda index: not fits(probability(index))) - 1

    try:
        low, likely = last(lambda found: found >= YES_FROM), last(lambda found: found >= EVEN)
        return Guess(low, likely, last(lambda found: found > NO_UP_TO))
    except LookupError:
        return None


def predicted(question: Question, chance: Chance) -> Edge:
    """The edge as it is predicted; nothing is tried."""
    found = guess(question, chance)
    if found is None:
        return Edge(question=question, status="unpredicted", why="these cells cannot be predicted for this machine")
    return Edge(question=question, status="predicted", predicted=_values(question, found))


def search(question: Question, chance: Chance, ask: Ask) -> Edge:
    """The edge as trying finds it. `ask` may raise Stopped, which leaves the question where it stands."""
    found = guess(question, chance)
    values = None if found is None else _values(question, found)
    return replace(_Search(question, found, ask).run(), predicted=values)


def _values(question: Question, found: Guess) -> dict[str, Value | None]:
    places = {"low": found.low, "likely": found.likely, "high": found.high}
    return {name: question.values[place] if place >= 0 else None for name, place in places.items()}


@dataclass
class _Search:
    """One question under way: `ran` are the places that ran, with their answers, `high` is the lowest that did not.

    `refuted` is where a longer run did not fit, first of all.
    """

    question: Question
    guess: Guess | None
    ask: Ask
    ran: dict[int, Answer] = field(default_factory=dict)
    high: int = 0
    refuted: int | None = None
    run_ids: dict[str, None] = field(default_factory=dict)

    def run(self) -> Edge:
        self.high = len(self.question.values)
        try:
            return self._edge(*self._found())
        except Stopped as stopped:
            return self._edge("left", str(stopped))

    @property
    def low(self) -> int:
        return max(self.ran, default=-1)

    def _found(self) -> tuple[Status, str | None]:
        """Narrow the edge down and confirm it; below a value whose longer run did not fit, by longer runs alone."""
        while True:
            while self.high - self.low > 1:
                answer = self._try(self._next(), confirm=self.refuted is not None)
                if answer.fits is None:
                    return "inconclusive", answer.why
            if self.low < 0:
                return "none fits", None
            answer = self.ran[self.low] if self.refuted is not None else self._try(self.low, confirm=True)
            if answer.fits is None or answer.growing:
                return "unconfirmed", answer.why or "memory still grew at the end of the longer run"
            if answer.fits:
                return ("all fit" if self.high == len(self.question.values) else "confirmed"), None

    def _try(self, index: int, *, confirm: bool) -> Answer:
        answer = self.ask(self.question.cell(index), confirm)
        if answer.run_id is not None:
            self.run_ids[answer.run_id] = None
        if answer.fits:
            self.ran[index] = answer
        elif answer.fits is False:
            self.high = min(self.high, index)
            self.ran = {place: each for place, each in self.ran.items() if place < index}
            if confirm and self.refuted is None:
                self.refuted, self.ran = index, {}
        return answer

    def _next(self) -> int:
        """The next place to try, always between the highest that ran and the lowest that did not."""
        low, high, size = self.low, self.high, len(self.question.values)
        likely = min(max(self.guess.likely, 0), size - 1) if self.guess else 0
        if low < 0 and high == size:
            return likely
        if high == size:
            return self._upwards(low, likely)
        return self._downwards(high, likely) if low < 0 else (low + high) // 2

    def _upwards(self, low: int, likely: int) -> int:
        """Everything tried so far ran."""
        if self.guess and self.guess.high + 1 > low:
            return min(self.guess.high + 1, self.high - 1)
        return min(low + max(1, likely // FIRST_STRIDE, low - likely), self.high - 1)

    def _downwards(self, high: int, likely: int) -> int:
        """Nothing tried so far ran."""
        if self.refuted is not None:
            return max(high - max(1, self.refuted - high), 0)
        if self.guess and 0 <= self.guess.low < high:
            return self.guess.low
        return max(high - max(1, likely // FIRST_STRIDE, likely - high), 0)

    def _edge(self, status: Status, why: str | None) -> Edge:
        values = self.question.values
        last = values[self.low] if self.low >= 0 else None
        first = values[self.high] if self.high < len(values) else None
        return Edge(question=self.question, status=status, last=last, first=first, run_ids=tuple(self.run_ids), why=why)
