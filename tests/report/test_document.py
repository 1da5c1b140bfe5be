"""Tables out of records."""

from __future__ import annotations

import pandas as pd

from bench.report.document import Cell, Column, Document, Drawn, Section, records, tabulate


def test_entries_come_from_keys_functions_and_cells() -> None:
    columns = [Column("a", "a"), Column("twice", lambda row: str(2 * row["n"]), "number"), Column("look", "look")]
    table = tabulate("T", [{"a": "x", "n": 3, "look": Cell("y", "bad")}, {"a": 1, "n": 0}], columns, ["note"])
    assert table.columns == (("a", "text"), ("twice", "number"), ("look", "text"))
    assert table.rows == ((Cell("x"), Cell("6"), Cell("y", "bad")), (Cell("1"), Cell("0"), Cell("")))
    assert table.notes == ("note",)


def test_a_document_knows_its_figures() -> None:
    drawn = Drawn("memory", "title", "caption", "<svg></svg>")
    sections = (Section("a", "A"), Section("b", "B", figure=drawn))
    assert Document("T", (), (), sections).figures == (drawn,)


def test_rows_of_a_frame_become_records() -> None:
    assert records(pd.DataFrame({"a": [1, 2]})) == [{"a": 1}, {"a": 2}]
