"""The importer refuses what cannot be right, and the committed table is what it made."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bench import cited
from bench.cited import COLUMNS
from bench.predict.published import import_csv, read_csv
from bench.reading.strict import BadFile

ROOT = Path(__file__).resolve().parents[2]
GOOD = {"id": "a-1", "source": "s", "peak_mem_bytes": "16920000000.2", "meter": "allocated", "batch": "2.0", "outcome": "ok"}


def table(path: Path, *rows: dict[str, str], columns: tuple[str, ...] = COLUMNS) -> Path:
    lines = [",".join(columns), *(",".join(row.get(name, "") for name in columns) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_values_get_their_types_and_bytes_are_whole(tmp_path: Path) -> None:
    (row,) = read_csv(table(tmp_path / "t.csv", GOOD))
    assert (row.batch, row.peak_mem_bytes, row.seq_len) == (2, 16_920_000_000, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": ""}, "line 2.id: missing"),
        ({"id": "nonumber"}, "line 2.id: expected <source family>-<n>"),
        ({"source": ""}, "line 2.source: missing"),
        ({"meter": "gpu"}, "line 2.meter"),
        ({"meter": ""}, "line 2.meter: missing: a peak is nothing without what measured it"),
        ({"outcome": "fine"}, "line 2.outcome"),
        ({"grad_checkpointing": "maybe"}, "line 2.grad_checkpointing"),
        ({"batch": "1.5"}, "line 2.batch: expected a whole number"),
        ({"batch": "0"}, "line 2.batch: expected a number above zero"),
        ({"tokens_per_s": "nan"}, "line 2.tokens_per_s: expected a number above zero"),
        ({"tokens_per_s": "fast"}, "line 2.tokens_per_s: expected a number, got"),
        ({"peak_mem_bytes": "16.9"}, "line 2.peak_mem_bytes: 17 bytes: give bytes, not GB or MiB"),
    ],
)
def test_what_cannot_be_right_is_named_by_line_and_column(tmp_path: Path, change: dict[str, str], message: str) -> None:
    with pytest.raises(BadFile) as caught:
        read_csv(table(tmp_path / "t.csv", {**GOOD, **change}))
    assert message in str(caught.value)


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadFile) as caught:
        read_csv(table(tmp_path / "t.csv", GOOD, {**GOOD, "meter": "gpu"}, {**GOOD, "batch": "-1"}, GOOD))
    text = str(caught.value)
    assert all(part in text for part in ("line 3.meter", "line 4.batch", "a-1: id stands twice"))


def test_columns_are_the_contract(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="source: column missing"):
        read_csv(table(tmp_path / "t.csv", GOOD, columns=tuple(name for name in COLUMNS if name != "source")))
    (row,) = read_csv(table(tmp_path / "t.csv", GOOD, columns=tuple(name for name in COLUMNS if name != "watts")))
    assert row.watts is None
    with pytest.raises(BadFile, match="unknown column"):
        read_csv(table(tmp_path / "t.csv", GOOD, columns=(*COLUMNS, "extra")))


def test_no_text_and_no_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"id\xff")
    with pytest.raises(BadFile, match="no UTF-8"):
        read_csv(tmp_path / "t.csv")


def test_an_import_is_what_is_read_later(tmp_path: Path) -> None:
    path = import_csv(table(tmp_path / "more rows.csv", GOOD), tmp_path / "results")
    assert path.name == "more-rows.parquet"
    assert cited.read(tmp_path / "results") == read_csv(tmp_path / "more rows.csv")


def test_a_table_is_replaced_by_its_own_new_version_and_by_nothing_else(tmp_path: Path) -> None:
    results, file = tmp_path / "results", tmp_path / "t.csv"
    import_csv(table(file, GOOD, {**GOOD, "id": "a-2"}), results)
    import_csv(table(file, {**GOOD, "batch": "8"}), results)
    assert [(row.id, row.batch) for row in cited.read(results)] == [("a-1", 8)]
    with pytest.raises(BadFile, match=r"a-1: in t\.parquet already"):
        import_csv(table(tmp_path / "u.csv", GOOD, {**GOOD, "id": "b-1"}), results)
    with pytest.raises(BadFile, match="another table: it holds none of these ids"):
        import_csv(table(file, {**GOOD, "id": "b-1"}), results)
    assert [row.id for row in cited.read(results)] == ["a-1"]


def test_case_of_a_choice_does_not_matter_and_ids_may_have_underscores(tmp_path: Path) -> None:
    (row,) = read_csv(table(tmp_path / "t.csv", {**GOOD, "id": "llama_factory-1", "outcome": "OOM"}))
    assert (row.outcome, row.family) == ("oom", "llama_factory")


def test_the_committed_rows_keep_their_meters_apart_and_their_sources() -> None:
    rows = cited.read(ROOT / "results")
    meters = Counter(row.meter for row in rows)
    assert len(rows) >= 345
    assert all(row.source for row in rows)
    assert (meters["allocated"], meters["reserved"], meters["mlx_peak"], meters["vendor_claim"]) == (61, 88, 19, 20)
    assert all(row.unusable for row in rows if row.meter == "vendor_claim" or row.outcome == "crash")


@pytest.mark.parametrize(
    "change", [{"peak_mem_bytes": "1e300"}, {"batch": "1e18"}, {"tokens_per_s": "1e300"}, {"watts": "1e300"}]
)
def test_what_nobody_has_measured_is_refused(tmp_path: Path, change: dict[str, str]) -> None:
    with pytest.raises(BadFile, match="more than anybody has measured"):
        read_csv(table(tmp_path / "t.csv", {**GOOD, **change}))


@pytest.mark.parametrize(("text", "what"), [("", "holds no header"), ("id,source\n", "holds no rows")])
def test_an_empty_table_is_told_in_a_line(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(BadFile, match=what) as refused:
        read_csv(tmp_path / "t.csv")
    assert len(refused.value.problems) == 1
