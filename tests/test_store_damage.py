"""Of `bench.store`: damaged files, full disks, killed writers, and files of older and newer programs."""

import errno
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stored_rows import READINGS, STEPS, as_row, every_file, file_of, rows_of

from bench import store
from bench.files import layout, seal
from bench.tallies import tallies

FIXTURES = Path(__file__).parent / "fixtures"


# Damage


@pytest.fixture
def whole(tmp_path, make_run) -> bytes:
    """A sound file's content; in tmp_path lies another sound file, of the run `sound`."""
    store.append(tmp_path, make_run("sound"))
    store.append(tmp_path, make_run("whole", tokens_per_s=1234.5, framework_peak_bytes=0, steps=2))
    content = file_of(tmp_path, "whole").read_bytes()
    file_of(tmp_path, "whole").unlink()
    return content


@pytest.fixture
def encoded(make_run) -> Callable[..., bytes]:
    """Makes sealed files with other columns than today's."""

    def encode(schema, **values) -> bytes:
        return store._encode(schema, [as_row(make_run()) | {"implementation": [], "versions": []} | values])

    return encode


def write_files(results, contents) -> None:
    for name, content in contents.items():
        file_of(results, name).write_bytes(content)


def assert_all_set_aside(results, names) -> None:
    found = store.read(results, "runs")
    assert found.rows["run_id"].to_pylist() == ["sound"]
    assert [one.path for one in found.damaged] == sorted(file_of(results, name) for name in names)
    for one in found.damaged:
        assert one.reason
        assert one.moved_to == results / "quarantine" / f"runs.machine=box.{one.path.name}"
        assert one.moved_to.exists()
        assert not one.path.exists()
    assert store.read(results, "runs").damaged == (), "told once"


def test_truncated_files_are_set_aside(tmp_path, whole):
    lengths = [*range(0, len(whole), len(whole) // 100), len(whole) - 1]
    write_files(tmp_path, {f"cut-{length}": whole[:length] for length in lengths})
    assert_all_set_aside(tmp_path, [f"cut-{length}" for length in lengths])


def test_no_flipped_bit_goes_unseen(tmp_path, whole):
    flipped = {}
    for bit in random.Random(0).sample(range(len(whole) * 8), 400):
        content = bytearray(whole)
        content[bit // 8] ^= 1 << bit % 8
        flipped[f"bit-{bit}"] = bytes(content)
    write_files(tmp_path, flipped)
    assert_all_set_aside(tmp_path, flipped)


def test_other_content_is_set_aside_with_its_reason(tmp_path, whole, encoded):
    runs = store.SCHEMAS["runs"]
    where = runs.get_field_index("tokens_per_s")
    unsealed = whole.replace(whole[whole.rindex(b"wingspan-sha256:") :][:80], seal.BLANK.encode())
    column = pq.ParquetFile(pa.BufferReader(whole)).metadata.row_group(0).column(0)
    last_of_page = column.data_page_offset + column.total_compressed_size - 1
    resealed = seal.seal(unsealed[:last_of_page] + bytes([unsealed[last_of_page] ^ 1]) + unsealed[last_of_page + 1 :])
    contents = {
        "empty": b"",
        "text": b"hello",
        "foreign": b"PAR1" + whole[:-4].replace(b"wingspan", b"somebody") + b"PAR1",
        "no-parquet": seal.seal(seal.BLANK.encode()),
        "page": resealed,
        "type": encoded(runs.set(where, pa.field("tokens_per_s", pa.string())), tokens_per_s="fast"),
    }
    write_files(tmp_path, contents)
    reasons = {one.path.stem: one.reason for one in store.read(tmp_path, "runs", quarantine=False).damaged}
    assert reasons["empty"] == "is empty"
    assert "no seal" in reasons["text"]
    assert "no seal" in reasons["foreign"]
    assert "Parquet" in reasons["no-parquet"]
    assert "CRC" in reasons["page"]
    assert reasons["type"] == "column tokens_per_s holds string, not double"
    assert_all_set_aside(tmp_path, contents)


def test_a_folder_that_cannot_be_changed_is_read_and_its_damage_told(tmp_path, monkeypatch, make_run):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, "read-only file system")

    store.append(tmp_path, make_run("sound"), STEPS)
    file_of(tmp_path, "bad").write_bytes(b"")
    (file_of(tmp_path).parent / "._x.0123abcd.part").touch()
    for name in ("rename", "mkdir", "unlink", "link", "replace"):
        monkeypatch.setattr(os, name, refuse)
    for _ in range(2):
        found = store.read(tmp_path, "runs")
        assert found.rows["run_id"].to_pylist() == ["sound"]
        assert found.damaged == (store.Damaged(file_of(tmp_path, "bad"), "is empty", None),)
    assert len(rows_of(tmp_path, "steps")) == 2
    assert store.sweep_leftovers(tmp_path) == []
    with pytest.raises(OSError, match="read-only") as raised:
        store.append(tmp_path, make_run("new", machine="elsewhere"))
    assert "machine=elsewhere" in raised.value.filename


def test_a_file_that_cannot_be_opened_is_told_and_stays(tmp_path, make_run):
    store.append(tmp_path, make_run("sound"))
    file_of(tmp_path, "folder").mkdir()
    (damaged,) = store.read(tmp_path, "runs").damaged
    assert damaged.moved_to is None
    assert "cannot be opened" in damaged.reason
    assert file_of(tmp_path, "folder").is_dir()


def test_a_pipe_among_the_files_is_told_unopened_and_stays(tmp_path, make_run, monkeypatch):
    store.append(tmp_path, make_run("sound"))
    pipe = file_of(tmp_path, "pipe")
    os.mkfifo(pipe)
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: real(path) if path != pipe else pytest.fail("opened"))
    found = store.read(tmp_path, "runs")
    assert found.rows["run_id"].to_pylist() == ["sound"]
    assert found.damaged == (store.Damaged(pipe, "cannot be opened: not a regular file", None),)
    assert pipe.is_fifo()


def test_damage_is_told_in_words():
    path, quarantined = Path("results/runs/machine=box/a.parquet"), Path("results/quarantine/runs.machine=box.a.parquet")
    assert str(store.Damaged(path, "is empty", quarantined)) == f"{path}: is empty; moved to {quarantined}"
    assert str(store.Damaged(path, "is empty", None)) == f"{path}: is empty; left where it is"


READERS = [
    lambda results: store.read(results, "runs"),
    lambda results: store.read(results, "steps"),
    lambda results: tallies(results, "0123", "smoke"),
    lambda results: store.has_run(results, "run-1"),
    store.run_ids,
    store.sweep_leftovers,
]


def refuse_to_list(monkeypatch, folder) -> None:
    """As the operating system does where a folder may not be read; root, who may, would see nothing of real modes."""
    for name in ("listdir", "scandir"):
        real = getattr(os, name)

        def call(path, real=real):
            if Path(path) == folder:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return real(path)

        monkeypatch.setattr(os, name, call)


@pytest.mark.parametrize("reader", READERS)
def test_results_that_may_not_be_read_do_not_look_like_none(tmp_path, monkeypatch, reader, make_run):
    store.append(tmp_path, make_run(), STEPS)
    reader(tmp_path)
    refuse_to_list(monkeypatch, tmp_path / "runs")
    with pytest.raises(PermissionError) as raised:
        reader(tmp_path)
    assert raised.value.filename == str(tmp_path / "runs")


@pytest.mark.parametrize("reader", READERS[:-1])
def test_nor_does_a_machine_that_may_not_be_read(tmp_path, monkeypatch, reader, make_run):
    store.append(tmp_path, make_run(), STEPS)
    refuse_to_list(monkeypatch, file_of(tmp_path).parent)
    with pytest.raises(PermissionError) as raised:
        reader(tmp_path)
    assert raised.value.filename == str(file_of(tmp_path).parent)


# Failures while writing


def fail_once(monkeypatch, name, call_number, error_number):
    """Let the nth call of `os.<name>` fail; returns the number of calls seen so far, as a list of one."""
    real, seen = getattr(os, name), [0]

    def call(*args, **options):
        seen[0] += 1
        if seen[0] == call_number:
            raise OSError(error_number, os.strerror(error_number))
        return real(*args, **options)

    monkeypatch.setattr(os, name, call)
    return seen


@pytest.mark.parametrize("name", ["mkdir", "open", "write", "fsync", "link", "replace"])
def test_a_full_disk_leaves_no_trace_of_the_run_and_a_retry_completes(tmp_path, name, make_run):
    """Every single call of the operating system fails once, in turn, until an append makes fewer calls."""
    for call_number in itertools.count(1):
        results = tmp_path / str(call_number)
        with pytest.MonkeyPatch.context() as patch:
            seen = fail_once(patch, name, call_number, errno.ENOSPC)
            try:
                store.append(results, make_run(), STEPS, READINGS)
            except OSError as error:
                raised = error
        if seen[0] < call_number:
            break
        assert raised.errno == errno.ENOSPC
        assert str(results) in raised.filename
        assert not list(results.rglob("*.part"))
        assert store.run_ids(results) == frozenset()
        for table in layout.TABLES:
            assert rows_of(results, table) == []
        assert all(store.read(results, table, orphans=True).damaged == () for table in layout.TABLES)
        store.append(results, make_run(), STEPS, READINGS)
        assert rows_of(results) == [as_row(make_run())]
        assert len(rows_of(results, "steps")) == len(rows_of(results, "readings")) == 2
    assert call_number > 1, f"append never called os.{name}"


def test_a_disk_full_before_the_first_name_leaves_no_file_at_all(tmp_path, monkeypatch, make_run):
    fail_once(monkeypatch, "write", 3, errno.ENOSPC)
    with pytest.raises(OSError, match=r"run-1\.parquet"):
        store.append(tmp_path, make_run(), STEPS, READINGS)
    assert every_file(tmp_path) == []


def test_kills_leave_every_visible_file_whole_and_lose_no_acknowledged_run(tmp_path, make_run):
    kills = 20
    command = [sys.executable, FIXTURES / "append_until_killed.py", tmp_path, "1", str(kills)]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    acknowledged = {run_id for one in told for run_id in one["acknowledged"]}
    assert len(told) == kills
    assert acknowledged

    runs, steps = rows_of(tmp_path), rows_of(tmp_path, "steps")
    visible = {row["run_id"] for row in runs}
    assert acknowledged <= visible == store.run_ids(tmp_path)
    assert Counter(row["run_id"] for row in steps) == dict.fromkeys(visible, 2), "a run that is there has all its steps"

    orphans = {row["run_id"] for row in rows_of(tmp_path, "steps", orphans=True)} - visible
    leftovers = list(tmp_path.rglob("._*.part"))
    assert orphans, "no kill struck between the two files: the test tests nothing"
    assert leftovers, "no kill struck while a temporary file was there: the test tests nothing"
    assert visible - acknowledged, "no kill struck between the run's name and its acknowledgement: the test tests nothing"

    assert sorted(store.sweep_leftovers(tmp_path)) == sorted(leftovers)
    assert not list(tmp_path.rglob("._*.part"))
    for run_id in orphans:
        store.append(tmp_path, make_run(run_id), STEPS[:1])
    again = Counter(row["run_id"] for row in rows_of(tmp_path, "steps"))
    assert again == dict.fromkeys(visible, 2) | dict.fromkeys(orphans, 1)


# Older and newer files


@pytest.mark.parametrize("version", [1, 2, 4])
def test_files_of_an_older_schema_stay_readable(tmp_path, version):
    """`tests/fixtures/make_results_v*.py` made them, once. If this fails, the program is wrong, not the files."""
    results = tmp_path / "results"
    shutil.copytree(FIXTURES / f"results-v{version}", results)
    expected = json.loads((results / "expected.json").read_text(encoding="utf-8"))
    for table in layout.TABLES:
        rows = rows_of(results, table)
        assert len(rows) == len(expected[table])
        for row, known in zip(rows, expected[table], strict=True):
            if table == "runs":
                row["started_at"] = row["started_at"].isoformat()
            assert {name: row[name] for name in known} == known
            assert all(row[name] is None for name in row.keys() - known.keys()), "columns added later"
    assert {row["schema_version"] for row in expected["runs"]} == {version}


def test_columns_that_an_older_file_lacks_are_null(tmp_path, make_run, encoded):
    runs = store.SCHEMAS["runs"]
    newer = {"versions", "tokens_per_s", "flags", "started_at", "gradient_checkpointing", "question", "steps"}
    older = pa.schema([field for field in runs if field.name not in newer])
    store.append(tmp_path, make_run("a", tokens_per_s=2.0))
    file_of(tmp_path, "b").write_bytes(encoded(older, run_id="b", host_peak_bytes=0))
    first, second = rows_of(tmp_path)
    assert first["tokens_per_s"] == 2.0
    assert second == as_row(make_run("b", host_peak_bytes=0)) | dict.fromkeys(newer)
    assert rows_of(tmp_path, columns=["steps", "machine"]) == [{"steps": None, "machine": "box"}] * 2


def test_columns_that_a_newer_file_adds_are_left_out(tmp_path, make_run, encoded):
    newer = store.SCHEMAS["runs"].insert(3, pa.field("added_later", pa.float64()))
    store.append(tmp_path, make_run("b"))
    file_of(tmp_path, "a").write_bytes(encoded(newer, run_id="a", schema_version=99, added_later=1.5))
    assert rows_of(tmp_path) == [as_row(make_run("a", schema_version=99)), as_row(make_run("b"))]
    query = f"SELECT run_id, added_later FROM read_parquet('{tmp_path}/runs/**/*.parquet', union_by_name=true) ORDER BY 1"
    assert duckdb.sql(query).fetchall() == [("a", 1.5), ("b", None)]
