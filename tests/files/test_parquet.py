"""One file and its rows, and the rows of several; how damage shows is tested with the store (test_store_damage.py)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.files import parquet


def rows(*run_ids: str, **columns: list[object]) -> pa.Table:
    return pa.table({"run_id": list(run_ids), **columns})


@pytest.mark.parametrize("encode", [parquet.encode, parquet.encode_many])
def test_what_goes_in_comes_out_and_the_same_rows_give_the_same_bytes(tmp_path: Path, encode: object) -> None:
    put = rows("a", "a", "b", value=[1.5, None, float("inf")], text=["x", "", None])
    content = encode(put)  # type: ignore[operator]
    assert content == encode(put)  # type: ignore[operator]
    (tmp_path / "one").write_bytes(content)
    assert parquet.load(tmp_path / "one").equals(put)
    assert parquet.load(tmp_path / "one", ["text", "absent"]).column_names == ["text"]
    assert parquet.sealed_bytes(tmp_path / "one") == content


def test_files_of_many_runs_have_dictionaries_and_statistics() -> None:
    put = rows(*(f"r{number // 100:04d}" for number in range(10_000)), scope=["gpu-board"] * 10_000)
    many, lean = (
        pq.ParquetFile(pa.BufferReader(encode(put))).metadata.row_group(0).column(0)
        for encode in (parquet.encode_many, parquet.encode)
    )
    assert (many.statistics.min, many.statistics.max) == ("r0000", "r0099")
    assert (many.has_dictionary_page, lean.has_dictionary_page, lean.statistics) == (True, False, None)


def test_what_is_not_believed_is_told(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"hello")
    for load in (parquet.load, parquet.sealed_bytes):
        with pytest.raises(parquet.Unreadable, match="no seal") as raised:
            load(tmp_path / "text")
        assert raised.value.in_content
        with pytest.raises(parquet.Unreadable, match="cannot be opened: not a regular file") as raised:
            load(tmp_path)
        assert not raised.value.in_content


def test_every_column_has_one_type_in_all_files(tmp_path: Path) -> None:
    kinds = {"run_id": pa.string()}
    (tmp_path / "one").write_bytes(parquet.encode(rows("a", later=[1.5])))
    (tmp_path / "other").write_bytes(parquet.encode(rows("b", later=["x"])))
    parquet.load_whole(tmp_path / "one", kinds)
    assert kinds["later"] == pa.float64()
    with pytest.raises(parquet.OtherType, match="column later holds string, not double"):
        parquet.load_whole(tmp_path / "other", kinds)


def test_rows_come_together_in_the_order_of_runs_and_keep_theirs_within_one() -> None:
    found = parquet.together([rows("b", "a", "b", step=[1, 9, 2]), rows("a", more=["x"])])
    assert found.to_pydict() == {"run_id": ["a", "a", "b", "b"], "step": [9, None, 1, 2], "more": [None, "x", None, None]}
    with pytest.raises(ValueError, match="type"):
        parquet.together([rows("a", step=[1]), rows("b", step=["one"])])


def test_rows_are_chosen_by_run() -> None:
    put = rows("a", "b", "a", step=[1, 2, 3])
    assert parquet.runs_in(put) == {"a", "b"}
    assert parquet.only(put, {"a", "c"})["step"].to_pylist() == [1, 3]
    assert parquet.only(put, set()).num_rows == 0


def test_runs_differ_by_rows_and_not_by_how_they_are_stored() -> None:
    nan = float("nan")
    one = rows("a", "b", "b", "c", value=[nan, 1.0, 2.0, 3.0])
    assert parquet.differing(one, one.slice(0)) == set()
    assert parquet.differing(one, rows("c", "b", "b", value=[3.0, 1.0, 2.0], later=[None] * 3)) == set(), "null is absent"
    assert parquet.differing(one, rows("b", "b", value=[2.0, 1.0])) == {"b"}, "the order of steps"
    assert parquet.differing(one, rows("b", value=[1.0])) == {"b"}, "fewer rows"
    assert parquet.differing(one, rows("a", "c", value=[nan, 3.5])) == {"c"}
    assert parquet.differing(one, rows("a", value=["x"])) == {"a"}
    assert parquet.differing(one, rows("d", value=[1.0])) == set()
