"""What goes into results/ comes out again, here and in other readers; see test_store_damage.py for what can go wrong."""

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_rows import READINGS, STEPS, as_row, every_file, file_of, rows_of

from bench import store
from bench.files import layout
from bench.model import model_from_config
from bench.record import WORKLOAD_COLUMNS, Reading, Run, Step, workload_columns
from bench.spec import workload

FIXTURES = Path(__file__).parent / "fixtures"
LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 256,
}
WORK = workload(model=model_from_config("tiny-llama", LLAMA), method="lora")


def optional_columns() -> dict[str, pa.DataType]:
    schema = store.SCHEMAS["runs"]
    return {field.name: schema.field(field.name).type for field in fields(Run) if field.default is None}


# What goes in comes out


def test_the_schema_holds_every_field_and_nothing_else():
    run_fields = {field.name for field in fields(Run)} - {"machine", "workload"}
    assert set(store.SCHEMAS["runs"].names) == run_fields | set(WORKLOAD_COLUMNS)
    for table, kind in (("steps", Step), ("readings", Reading)):
        assert store.SCHEMAS[table].names == ["run_id", *(field.name for field in fields(kind))]


def test_none_zero_and_values_are_kept_apart_in_every_column(tmp_path, make_run):
    zeros = {pa.int64(): 0, pa.float64(): 0.0, pa.string(): ""}
    values = {pa.int64(): 2**53 + 1, pa.float64(): 0.1, pa.string(): "“text” é 🙂\n2"}
    nothing = make_run("a", workload=dict.fromkeys(WORKLOAD_COLUMNS))
    zero = make_run("b", **{name: zeros[kind] for name, kind in optional_columns().items()})
    full = make_run(
        "c",
        **{name: values[kind] for name, kind in optional_columns().items()},
        implementation={"attention": "sdpa"},
        versions={"torch": "2.13.0", "a": ""},
        flags=("throttled", ""),
        tier="stand-in",
    )
    for run in (nothing, zero, full):
        store.append(tmp_path, run)
    assert rows_of(tmp_path) == [as_row(nothing), as_row(zero), as_row(full)]


def test_steps_and_readings_come_back_with_their_run_and_machine(tmp_path, make_run):
    store.append(tmp_path, make_run(), STEPS, READINGS)
    own = {"run_id": "run-1", "machine": "box"}
    for table, put in (("steps", STEPS), ("readings", READINGS)):
        expected = [own | {field.name: getattr(one, field.name) for field in fields(one)} for one in put]
        assert rows_of(tmp_path, table) == expected


def test_a_table_without_rows_has_no_file(tmp_path, make_run):
    store.append(tmp_path, make_run())
    assert every_file(tmp_path) == [Path("runs/machine=box/run-1.parquet")]


def test_values_that_are_no_numbers_stay_what_they_are(tmp_path, make_run):
    store.append(tmp_path, make_run(loss_last=float("nan"), loss_first=float("inf"), tokens_per_s=-0.0))
    (row,) = rows_of(tmp_path)
    assert row["loss_last"] != row["loss_last"]
    assert row["loss_first"] == float("inf")
    assert str(row["tokens_per_s"]) == "-0.0"


def test_times_are_stored_in_utc(tmp_path, make_run):
    store.append(tmp_path, make_run(started_at=datetime(2026, 11, 30, 1, tzinfo=timezone(timedelta(hours=2)))))
    assert rows_of(tmp_path)[0]["started_at"] == datetime(2026, 11, 29, 23, tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"started_at": datetime(2026, 11, 30)}, ValueError),
        ({"host_peak_bytes": 2.5}, TypeError),
        ({"host_peak_bytes": 2.0}, TypeError),
        ({"host_peak_bytes": True}, TypeError),
        ({"host_peak_bytes": 2**63}, OverflowError),
        ({"tokens_per_s": "fast"}, ValueError),
        ({"reason": 7}, TypeError),
        ({"workload": {}}, ValueError),
        ({"workload": workload_columns(WORK) | {"extra": 1}}, ValueError),
        ({"machine": "4090"}, ValueError),
        ({"run_id": "a/b"}, ValueError),
    ],
)
def test_what_cannot_be_stored_is_refused_before_anything_is_written(tmp_path, values, error, make_run):
    with pytest.raises(error):
        store.append(tmp_path, replace(make_run(), **values), STEPS, READINGS)
    assert every_file(tmp_path) == []


def test_columns_are_picked_in_the_order_asked(tmp_path, make_run):
    store.append(tmp_path, make_run(machine="b"))
    store.append(tmp_path, make_run("run-0", machine="b"))
    store.append(tmp_path, make_run("run-2", machine="a"))
    assert store.read(tmp_path, "runs", ["machine", "versions", "run_id"]).rows.column_names == ["machine", "versions", "run_id"]
    assert rows_of(tmp_path, columns=["machine", "run_id"]) == [
        {"machine": "a", "run_id": "run-2"},
        {"machine": "b", "run_id": "run-0"},
        {"machine": "b", "run_id": "run-1"},
    ]
    assert rows_of(tmp_path, columns=["machine"]) == [{"machine": "a"}, {"machine": "b"}, {"machine": "b"}]
    with pytest.raises(ValueError, match="speed"):
        store.read(tmp_path, "runs", ["run_id", "speed"])


@pytest.mark.parametrize("table", layout.TABLES)
def test_nothing_stored_is_an_empty_table_with_its_columns(tmp_path, table):
    found = store.read(tmp_path / "nowhere", table)
    assert found.rows.num_rows == 0
    assert found.rows.schema == store.SCHEMAS[table].append(pa.field("machine", pa.string()))
    assert found.damaged == ()


# Other readers


CONTRACT_QUERY = (
    "SELECT model, method, backend, tokens_per_s, host_peak_bytes "
    "FROM read_parquet('results/runs/**/*.parquet', hive_partitioning=true, union_by_name=true)"
)


@pytest.fixture
def many_readers(tmp_path, monkeypatch, make_run):
    """results/ with two machines, one leftover temporary file, and the working directory beside it."""
    results = tmp_path / "results"
    store.append(results, make_run("r1", machine="mac-studio-m3-ultra", tokens_per_s=12.5, host_peak_bytes=0), STEPS)
    store.append(results, make_run("r2", machine="13th Gen=α/β", outcome="oom_host"))
    (file_of(results, "r1", machine="mac-studio-m3-ultra").parent / "._r3.0123abcd.part").write_bytes(b"half a file")
    monkeypatch.chdir(tmp_path)
    return results


def test_duckdb_reads_it_by_the_query_of_the_contract(many_readers):
    expected = {("tiny-llama", "lora", "hf", 12.5, 0), ("tiny-llama", "lora", "hf", None, None)}
    assert set(duckdb.sql(CONTRACT_QUERY).fetchall()) == expected
    every = duckdb.sql(CONTRACT_QUERY.replace("model, method, backend, tokens_per_s, host_peak_bytes", "*"))
    assert set(every.columns) == {*store.SCHEMAS["runs"].names, "machine"}
    machines = duckdb.sql(CONTRACT_QUERY.replace("model, method, backend, tokens_per_s, host_peak_bytes", "run_id, machine"))
    assert set(machines.fetchall()) == {("r1", "mac-studio-m3-ultra"), ("r2", "13th Gen=α/β")}


def test_pandas_reads_it(many_readers):
    frame = pd.read_parquet(many_readers / "runs").set_index("run_id")
    assert frame.loc["r1", "tokens_per_s"] == 12.5
    assert pd.isna(frame.loc["r2", "tokens_per_s"])
    assert frame.loc["r2", "machine"] == "13th Gen=α/β"
    assert frame.loc["r1", "started_at"] == pd.Timestamp("2026-11-30T02:15:00.123456Z")


def test_pyarrow_reads_it(many_readers):
    table = ds.dataset(many_readers / "runs", partitioning="hive").to_table(["run_id", "machine", "host_peak_bytes"])
    rows = {row["run_id"]: row for row in table.to_pylist()}
    assert rows["r1"] == {"run_id": "r1", "machine": "mac-studio-m3-ultra", "host_peak_bytes": 0}
    assert rows["r2"] == {"run_id": "r2", "machine": "13th Gen=α/β", "host_peak_bytes": None}


@pytest.mark.parametrize(("table", "compression"), [("runs", "UNCOMPRESSED"), ("steps", "ZSTD"), ("readings", "ZSTD")])
def test_files_bear_page_checksums_that_any_reader_can_verify(tmp_path, make_run, table, compression):
    store.append(tmp_path, make_run(), STEPS, READINGS)
    path = file_of(tmp_path, table=table)
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    assert column.compression == compression
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    with pytest.raises(OSError, match=r"(?i)crc"):
        pq.ParquetFile(pa.BufferReader(bytes(content)), page_checksum_verification=True).read()


@settings(max_examples=40, deadline=None)
@given(machine=st.text(max_size=20) | st.from_regex(r"-?[0-9]{1,4}([-/.: ][0-9]{1,2}){0,2}[a-z]?", fullmatch=True))
def test_machine_names_come_back_as_they_were_or_are_refused(tmp_path_factory, machine, make_run):
    results = tmp_path_factory.mktemp("results")
    try:
        store.append(results, make_run(machine=machine))
    except ValueError:
        return
    assert rows_of(results, columns=["machine"]) == [{"machine": machine}]
    query = f"SELECT machine FROM read_parquet('{results}/runs/**/*.parquet', hive_partitioning=true, union_by_name=true)"
    assert duckdb.sql(query).fetchall() == [(machine,)]
    assert ds.dataset(results / "runs", partitioning="hive").to_table(["machine"]).to_pylist() == [{"machine": machine}]


NUMBERS = [
    "0x10",
    "0XFF",
    "0xff_f",
    "-0x10",
    "0x10.5",
    "0xg",
    "0x",
    "0b11",
    "0B1",
    "0b2",
    "0o17",
    "000",
    "1_000",
    "1.5",
    "1e5",
    "1E+5",
]
NUMBERS += ["1e999", "e5", "4090", "4090-ti", "13th-gen", "４０９０", "０x10", " 0x10", "nan", "NaN"]
DATES = [
    "inf",
    "INF",
    "-inf",
    " inf ",
    "infinity",
    "infx",
    "epoch",
    "now",
    "today",
    "2024-01-01",
    "2024-jan-01",
    "20240101T000000Z",
]
DATES += ["2024-01-01 00:00:00", "2024-01-01 (BC)", "12:30"]
OTHERS = ["null", "NULL", "none", "n/a", "true", "False", "__HIVE_DEFAULT_PARTITION__"]


@pytest.mark.parametrize("machine", [*NUMBERS, *DATES, *OTHERS])
def test_machine_names_that_look_like_something_else_are_refused_or_read_as_text(tmp_path, machine, make_run):
    try:
        store.append(tmp_path, make_run(machine=machine))
    except ValueError:
        return
    query = f"SELECT machine, typeof(machine) FROM read_parquet('{tmp_path}/runs/**/*.parquet', hive_partitioning=true)"
    assert duckdb.sql(query).fetchall() == [(machine, "VARCHAR")]
    assert ds.dataset(tmp_path / "runs", partitioning="hive").to_table(["machine"]).to_pylist() == [{"machine": machine}]
    assert pd.read_parquet(tmp_path / "runs")["machine"].to_list() == [machine]


# Runs exist once, and as a whole


def test_a_stored_run_is_never_changed(tmp_path, make_run):
    store.append(tmp_path, make_run(), STEPS)
    before = {path: (tmp_path / path).read_bytes() for path in every_file(tmp_path)}
    with pytest.raises(FileExistsError, match="already stored"):
        store.append(tmp_path, make_run(reason="another"), [], READINGS)
    assert {path: (tmp_path / path).read_bytes() for path in every_file(tmp_path)} == before


def test_steps_and_readings_without_their_run_count_for_nothing(tmp_path, make_run):
    store.append(tmp_path, make_run(), STEPS, READINGS)
    file_of(tmp_path).unlink()
    for table in ("steps", "readings"):
        assert rows_of(tmp_path, table) == []
        assert len(rows_of(tmp_path, table, orphans=True)) == 2


def test_an_append_after_a_kill_puts_its_own_steps_in_place_of_the_ones_left(tmp_path, make_run):
    store.append(tmp_path, make_run(), STEPS, READINGS)
    file_of(tmp_path).unlink()
    store.append(tmp_path, make_run(), STEPS[:1])
    assert [row["step"] for row in rows_of(tmp_path, "steps")] == [1]
    assert rows_of(tmp_path, "readings", orphans=True) == []


def test_runs_are_found_by_name(tmp_path, make_run):
    assert store.run_ids(tmp_path) == frozenset()
    store.append(tmp_path, make_run("a"))
    store.append(tmp_path, make_run("b", machine="other"))
    assert store.run_ids(tmp_path) == {"a", "b"}
    assert store.has_run(tmp_path, "a")
    assert store.has_run(tmp_path, "b"), "whatever the machine was called"
    assert not store.has_run(tmp_path, "c")


@pytest.mark.parametrize("run_id", ["", "../a", "machine=box/a"])
def test_a_run_that_no_file_can_name_is_refused(tmp_path, run_id, make_run):
    store.append(tmp_path, make_run("a"))
    with pytest.raises(ValueError, match="run id"):
        store.has_run(tmp_path, run_id)
