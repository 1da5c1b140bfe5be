"""What a report is made of, whatever it is written in.

In: text that is already worded. Out: frozen values that the templates walk through. Nothing here is markup: each template
escapes every text by its own rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import pandas as pd

from bench.report.language import say

Kind = Literal["text", "number", "code"]
FigureName = Literal["winners", "reach", "claims", "memory", "speed", "ratios", "energy"]
FIGURES: tuple[FigureName, ...] = get_args(FigureName)
Tone = Literal["", "good", "bad", "quiet"]
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """One entry of a table, "" where nothing was measured. The tone repeats for the eye what the text says already.

    `links` are (text, anchor) of what it leads to on the same page; they then stand for the text, which is all of theirs.
    """

    text: str
    tone: Tone = ""
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, and how an entry is made of a record: by a function, or as what stands under a key ("" where it is absent).

    The heading is English, and is said in the reader's language when the table is made; unless `as_is`: a name from the data.
    """

    heading: str
    value: str | Callable[[Record], Cell | str]
    kind: Kind = "text"
    as_is: bool = False

    def cell(self, record: Record) -> Cell:
        """The entry of one record."""
        entry = record.get(self.value, "") if isinstance(self.value, str) else self.value(record)
        return entry if isinstance(entry, Cell) else Cell(str(entry))


@dataclass(frozen=True, slots=True)
class Table:
    """`columns` are (heading, kind); every row has as many cells."""

    title: str
    columns: tuple[tuple[str, Kind], ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def kinds_and_cells(self, row: tuple[Cell, ...]) -> Iterator[tuple[Kind, Cell]]:
        """The entries of a row, each with its column's kind."""
        return zip((kind for _, kind in self.columns), row, strict=True)


@dataclass(frozen=True, slots=True)
class Detail:
    """What is folded away under its title until somebody asks for it (`anchor` is its id): texts and tables."""

    anchor: str
    title: str
    texts: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Things that lead to their own places on the page, a word each, under one title: `links` are (text, anchor)."""

    title: str
    links: tuple[tuple[str, str], ...]
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Sketch:
    """What a figure is to show: its name, and what its maker in `bench.report.figures` takes. It can be sent to a process."""

    figure: FigureName
    data: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """One figure: `name` is its file's stem and the prefix of its ids; `caption` names evidence, meter and omissions."""

    name: str
    title: str
    caption: str
    svg: str


@dataclass(frozen=True, slots=True)
class Section:
    """A heading (`anchor` is its id), and under it warnings, text, groups, commands to type, a figure, tables and details.

    The figure is a sketch where the section is made, and drawn (or None, where there is nothing to draw) in a `Document`; then
    `instead` is what the section says in its place.
    """

    anchor: str
    title: str
    texts: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()
    commands: tuple[str, ...] = ()
    figure: Sketch | Drawn | None = None
    instead: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    warnings: tuple[str, ...] = ()
    details: tuple[Detail, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report: its questions, facts as (label, text) pairs, sections, and the code of the language they are in."""

    title: str
    questions: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    language: str = "en"

    @property
    def figures(self) -> tuple[Drawn, ...]:
        return tuple(section.figure for section in self.sections if isinstance(section.figure, Drawn))


def tabulate(title: str, records: Iterable[Record], columns: Iterable[Column], notes: Iterable[str] = ()) -> Table:
    """A table with a row for each record."""
    columns = tuple(columns)
    rows = tuple(tuple(column.cell(record) for column in columns) for record in records)
    headings = tuple((column.heading if column.as_is else say(column.heading), column.kind) for column in columns)
    return Table(title, headings, rows, tuple(notes))


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame, by column name."""
    columns = {str(name): values.tolist() for name, values in frame.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def filled(columns: Iterable[Column], records: Iterable[Record]) -> list[Column]:
    """The columns in which some record has an entry."""
    records = list(records)
    return [column for column in columns if any(column.cell(record).text for record in records)]
