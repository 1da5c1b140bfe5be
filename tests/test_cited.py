"""Others' measurements, stored apart from the runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import cited, store
from bench.cited import Cited
from bench.files import seal
from bench.reading.strict import BadFile

ROW = Cited(id="a-1", source="somebody", batch=2, peak_mem_bytes=10**9, meter="allocated", tokens_per_s=12.5, outcome="ok")


def test_rows_come_back_as_they_were_in_the_order_of_ids(tmp_path: Path) -> None:
    other = replace(ROW, id="a-0", batch=None, tokens_per_s=None)
    cited.write(tmp_path, "t", [ROW, other])
    assert cited.read(tmp_path) == (other, ROW)


def test_the_same_rows_make_the_same_bytes_in_whatever_order(tmp_path: Path) -> None:
    other = replace(ROW, id="a-0")
    first = cited.write(tmp_path, "t", [ROW, other]).read_bytes()
    assert cited.write(tmp_path, "t", [other, ROW]).read_bytes() == first


def test_nothing_is_read_where_there_is_no_folder_and_runs_stay_apart(tmp_path: Path) -> None:
    assert cited.read(tmp_path) == ()
    cited.write(tmp_path, "t", [ROW])
    assert store.read(tmp_path, "runs").rows.num_rows == 0


def test_a_flipped_bit_is_seen(tmp_path: Path) -> None:
    path = cited.write(tmp_path, "t", [ROW])
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(BadFile, match=r"t\.parquet.*import it again"):
        cited.read(tmp_path)


def test_an_id_of_two_tables_is_refused(tmp_path: Path) -> None:
    cited.write(tmp_path, "one", [ROW])
    cited.write(tmp_path, "two", [ROW])
    with pytest.raises(BadFile, match="a-1: stands twice"):
        cited.read(tmp_path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"meter": "vendor_claim"}, "vendor"),
        ({"outcome": "crash"}, "another reason"),
        ({"notes": "environment fault, do not use as evidence"}, "fault of the environment"),
        ({}, None),
    ],
)
def test_claims_and_crashes_prove_nothing(change: dict[str, str], reason: str | None) -> None:
    found = replace(ROW, **change).unusable
    assert found is None if reason is None else found is not None and reason in found


def test_a_family_is_what_stands_before_the_number() -> None:
    assert replace(ROW, id="litgpt-a100-003").family == "litgpt"


@pytest.mark.parametrize(
    "change", [{"meter": "tape"}, {"peak_mem_bytes": -5}, {"tokens_per_s": float("nan")}, {"outcome": "great"}, {"batch": 0}]
)
def test_values_that_no_import_lets_in_are_named(tmp_path: Path, change: dict[str, Any]) -> None:
    cited.write(tmp_path, "t", [Cited(**{"id": "a-1", "source": "s", **change})])
    with pytest.raises(BadFile, match=next(iter(change))):
        cited.read(tmp_path)


def test_a_table_of_other_types_is_named(tmp_path: Path) -> None:
    path = cited.write(tmp_path, "t", [Cited(id="a-1", source="s")])
    content = pq.read_table(path)
    other = content.set_column(content.schema.get_field_index("batch"), "batch", pa.array(["four"]))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, other.schema) as writer:
        writer.write_table(other)
        writer.add_key_value_metadata({"seal": seal.BLANK})
    path.write_bytes(seal.seal(sink.getvalue().to_pybytes()))
    with pytest.raises(BadFile, match="other columns or types"):
        cited.read(tmp_path)


def test_what_may_be_named_are_ones_own_rows_and_those_of_the_project(tmp_path):
    bundled = cited.known(cited.BUNDLED)
    mine = Cited(id="mac-032", source="my own copy")
    cited.write(tmp_path, "mine", [mine, Cited(id="mine-1", source="my log")])
    found = cited.known(tmp_path)
    assert found.keys() == {*bundled, "mine-1"}
    assert found["mac-032"] == mine, "one's own come first"
    assert cited.known(tmp_path / "nothing") == bundled
