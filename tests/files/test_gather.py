"""All files of a table as rows, each run once; files of many runs as well (see test_compact.py for how they come about)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from bench.files import gather, layout, parquet

SCHEMA = pa.schema([("run_id", pa.string()), ("value", pa.int64())])


def put(results: Path, table: str, name: str, values: dict[str, int], machine: str = "a") -> Path:
    path = results / table / f"machine={machine}" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = pa.table({"run_id": list(values), "value": list(values.values())}, schema=SCHEMA)
    path.write_bytes((parquet.encode_many if "@" in name else parquet.encode)(rows))
    return path


def found(results: Path, table: str = "runs", stored: gather.Stored | None = None) -> list[tuple[str, str, int]]:
    gathered = gather.gather(results, table, SCHEMA, stored)  # type: ignore[arg-type]
    assert gathered.faults == []
    return [(row["machine"], row["run_id"], row["value"]) for rows in gathered.tables for row in rows.to_pylist()]


MANY, MORE = "compacted@0000000000000000", "compacted@1111111111111111"


def test_each_run_counts_once_and_only_within_its_machine(tmp_path: Path) -> None:
    put(tmp_path, "runs", MANY, {"r1": 1, "r2": 2})
    put(tmp_path, "runs", MORE, {"r2": 20, "r3": 3})
    for name, value in (("r1", 10), ("r4", 4)):
        put(tmp_path, "runs", name, {name: value})
    put(tmp_path, "runs", "r1", {"r1": 100}, machine="b")
    assert found(tmp_path) == [("a", "r1", 1), ("a", "r2", 2), ("a", "r3", 3), ("a", "r4", 4), ("b", "r1", 100)]
    assert gather.stored_runs(tmp_path) == {"machine=a": {"r1", "r2", "r3", "r4"}, "machine=b": {"r1"}}


def test_more_files_than_a_batch_come_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "BATCH", 3)
    for number in range(10):
        put(tmp_path, "runs", f"r{number}", {f"r{number}": number})
    assert [value for _, _, value in found(tmp_path)] == list(range(10))


def test_only_what_counts_is_taken_from_a_file_of_many_runs(tmp_path: Path) -> None:
    put(tmp_path, "steps", MANY, {"r1": 1, "r2": 2, "gone": 0})
    put(tmp_path, "steps", "alone", {"alone": 5})
    put(tmp_path, "runs", "r1", {"r1": 1})
    put(tmp_path, "runs", MORE, {"r2": 2})
    assert found(tmp_path, "steps", gather.stored_runs(tmp_path)) == [("a", "r1", 1), ("a", "r2", 2)]
    assert len(found(tmp_path, "steps")) == 4


def test_a_damaged_file_of_many_runs_gives_way_to_the_runs_own(tmp_path: Path) -> None:
    many = put(tmp_path, "runs", MANY, {"r1": 1, "r2": 2})
    own = put(tmp_path, "runs", "r1", {"r1": 1})
    assert gather.run_ids_of(many) == {"r1", "r2"}
    many.write_bytes(many.read_bytes()[:-1])
    assert gather.run_ids_of(many) == set(), "what was remembered is of another content"
    assert gather.compacted_runs(own.parent) == set()
    gathered = gather.gather(tmp_path, "runs", SCHEMA)
    assert [path for path, _ in gathered.faults] == [many]
    assert [rows["run_id"].to_pylist() for rows in gathered.tables] == [["r1"]]


def test_what_is_looked_at_is_one_state_of_the_folder(tmp_path: Path) -> None:
    put(tmp_path, "runs", "r1", {"r1": 1})
    looks = []

    def look() -> int:
        looks.append(len(layout.files(tmp_path, "runs")))
        if len(looks) == 1:
            put(tmp_path, "runs", MANY, {"r1": 1})
        return looks[-1]

    assert gather.settled(tmp_path, look) == 2
    assert looks == [1, 2]
