"""What runs have taught a search.

In: answers of runs, of this search and of those stored before. Out: the answer to a cell that need not be tried any more. A cell
that did not fit teaches that none fits which needs at least as much; a cell that ran teaches the same of those below it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bench.frontier.question import needs_no_less
from bench.frontier.search import Answer
from bench.spec import Cell


@dataclass
class Known:
    """Answers that say whether something fits; where several settle a cell, its own run comes first."""

    answers: list[Answer] = field(default_factory=list)

    def add(self, answer: Answer) -> None:
        if answer.fits is not None:
            self.answers.append(answer)

    def answer(self, cell: Cell, *, long: bool = False) -> Answer | None:
        """What is known of the cell; None where it has to be tried. `long` asks for a confirmation, which only its own run is."""
        own: list[Answer] = []
        others: list[Answer] = []
        for each in self.answers:
            (own if each.cell.key == cell.key else others).append(each)
        settled = [each for each in own if not each.fits] + [each for each in others if self._too_large(cell, each)]
        settled += [each for each in own if each.long or not long]
        settled += [] if long else [each for each in others if each.fits and needs_no_less(each.cell, cell)]
        return replace(settled[0], cell=cell) if settled else None

    @staticmethod
    def _too_large(cell: Cell, other: Answer) -> bool:
        return other.fits is False and needs_no_less(cell, other.cell)
