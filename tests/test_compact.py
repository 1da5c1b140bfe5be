"""Fewer files hold the same rows; a kill at any moment loses none and doubles none."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner
from compacted import MakeRun, bytes_of, everything, fill, kill_at, names
from stored_rows import READINGS, STEPS, as_row, file_of

from bench import store
from bench.cli import cli
from bench.compact import Folder, compact
from bench.environments import Environment, keep
from bench.environments import file_of as file_of_list
from bench.files import layout, parquet
from bench.spec import BadInput
from bench.sweep.lock import MachineBusy, hold_machine, lock_path
from bench.tallies import tallies

FIXTURES = Path(__file__).parent / "fixtures"
IDS = [f"r{number:02d}" for number in range(12)]


def test_many_files_become_one_with_the_same_rows(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, IDS, tokens_per_s=1.5, flags=("unsteady",), versions={"torch": "2.13"}, loss_last=float("inf"))
    fill(tmp_path, make_run, ["other"], machine="other")
    before = everything(tmp_path)
    done = compact(tmp_path)
    assert everything(tmp_path) == before
    assert [names(tmp_path, table) for table in layout.TABLES] == [["compacted"]] * 3
    assert names(tmp_path, machine="other") == ["other"], "one file is few enough"
    assert done.left == []
    told = [(each.table, each.machine, each.files_before, each.files_after) for each in done.folders]
    assert told == [("runs", "box", 12, 1), ("steps", "box", 12, 1), ("readings", "box", 6, 1)]
    assert "runs of box: 12 files" in done.describe()


@pytest.mark.parametrize(("size", "text"), [(532_000, "532.0 kB"), (48_300, "48.3 kB"), (2_500_000, "2.5 MB")])
def test_what_a_folder_takes_is_told_in_a_unit_that_shows_it(size: int, text: str) -> None:
    done = Folder(table="runs", machine="box", files_before=12, bytes_before=size, files_after=1, bytes_after=size)
    assert str(done) == f"runs of box: 12 files ({text}) -> 1 ({text})"


def test_again_is_nothing(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, IDS)
    compact(tmp_path)
    before = bytes_of(tmp_path)
    done = compact(tmp_path)
    assert bytes_of(tmp_path) == before
    assert done.folders == []
    assert done.describe() == "nothing to put together"


def test_the_next_nights_runs_join_the_file(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, IDS[:6])
    compact(tmp_path)
    fill(tmp_path, make_run, IDS[6:])
    before = everything(tmp_path)
    compact(tmp_path)
    assert everything(tmp_path) == before
    assert [row["run_id"] for row in before["runs"]] == IDS
    assert names(tmp_path) == ["compacted"]


def test_a_large_file_is_not_written_anew(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, IDS[:6])
    compact(tmp_path)
    (large,) = layout.compacted_in(tmp_path / "runs" / "machine=box")
    size, fact = large.stat().st_size, large.stat().st_ino
    fill(tmp_path, make_run, IDS[6:])
    before = everything(tmp_path)
    compact(tmp_path, large_bytes=size)
    assert large.stat().st_ino == fact
    assert everything(tmp_path) == before
    done = compact(tmp_path, large_bytes=size)
    assert done.folders == []


def test_what_resuming_asks_knows_the_runs(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, IDS, tokens_per_s=2.0, outcome="ok")
    before = tallies(tmp_path, "0123", "smoke")
    compact(tmp_path)
    assert store.run_ids(tmp_path) == set(IDS)
    assert store.has_run(tmp_path, "r03")
    assert not store.has_run(tmp_path, "r99")
    assert tallies(tmp_path, "0123", "smoke") == before
    contents = bytes_of(tmp_path)
    with pytest.raises(FileExistsError, match="already stored"):
        store.append(tmp_path, make_run("r03"), STEPS)
    assert bytes_of(tmp_path) == contents


def test_other_readers_read_it_as_before(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, IDS, versions={"torch": "2.13"}, flags=("unsteady",))
    query = (
        f"SELECT * FROM read_parquet('{tmp_path}/runs/**/*.parquet', hive_partitioning=true, union_by_name=true) ORDER BY run_id"
    )
    before = duckdb.sql(query).fetchall()
    compact(tmp_path)
    assert duckdb.sql(query).fetchall() == before
    table = ds.dataset(tmp_path / "steps", partitioning="hive").to_table(["run_id", "machine"])
    assert sorted(set(table["run_id"].to_pylist())) == IDS
    assert set(table["machine"].to_pylist()) == {"box"}


@pytest.mark.parametrize("version", [1, 2, 4])
def test_files_of_older_schemas_are_put_together_with_new_ones(tmp_path: Path, make_run: MakeRun, version: int) -> None:
    shutil.copytree(FIXTURES / f"results-v{version}", tmp_path, dirs_exist_ok=True)
    (machine, *_) = {layout.machine_of(path) for path in layout.files(tmp_path, "runs")}
    fill(tmp_path, make_run, IDS, machine=machine, memory_limit="watchdog 50%")
    before = everything(tmp_path)
    compact(tmp_path)
    assert everything(tmp_path) == before
    assert names(tmp_path, machine=machine) == ["compacted"]


def test_lists_of_packages_are_left_as_they_are(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, IDS)
    environment = Environment("3.11.9", ("torch==2.13.0",))
    keep(tmp_path, environment)
    path = file_of_list(tmp_path, environment.digest)
    before = (path.read_bytes(), path.stat().st_ino)
    compact(tmp_path)
    assert (path.read_bytes(), path.stat().st_ino) == before


def test_columns_of_a_newer_program_are_kept(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, IDS[:2])
    newer = store.SCHEMAS["runs"].append(pa.field("added_later", pa.float64()))
    row = as_row(make_run("new")) | {"implementation": [], "versions": [], "device_settings": [], "not_measured": []}
    file_of(tmp_path, "new").write_bytes(store._encode(newer, [row | {"added_later": 1.5}]))
    compact(tmp_path)
    assert names(tmp_path) == ["compacted"]
    query = f"SELECT run_id, added_later FROM read_parquet('{tmp_path}/runs/**/*.parquet') ORDER BY run_id"
    assert duckdb.sql(query).fetchall() == [("new", 1.5), ("r00", None), ("r01", None)]


def test_what_cannot_be_believed_stays_and_is_told(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, IDS)
    file_of(tmp_path, "r00").write_bytes(b"")
    shutil.copy(file_of(tmp_path, "r01"), file_of(tmp_path, "renamed"))
    text = store.SCHEMAS["steps"].set(1, pa.field("step", pa.string()))
    rows = [{**dict.fromkeys(text.names), "run_id": "r02", "step": "one"}]
    file_of(tmp_path, "r02", "steps").write_bytes(store._encode(text, rows))
    done = compact(tmp_path)
    reasons = {(each.path.parts[-3], each.path.stem): each.reason for each in done.left}
    assert reasons == {
        ("runs", "r00"): "is empty",
        ("runs", "renamed"): "holds another run than its name says",
        ("steps", "r02"): "column step holds string, not int64",
    }
    assert names(tmp_path) == ["compacted", "r00", "renamed"]
    assert names(tmp_path, "steps") == ["compacted", "r02"]
    assert {each.path for each in compact(tmp_path).left} == {each.path for each in done.left}, "told each time"


def test_steps_without_their_run_stay_for_the_append_that_replaces_them(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, IDS)
    file_of(tmp_path, "r05").unlink()
    compact(tmp_path)
    assert names(tmp_path, "steps") == ["compacted", "r05"]
    store.append(tmp_path, make_run("r05"), STEPS[:1])
    steps = [row["run_id"] for row in everything(tmp_path)["steps"]]
    assert steps.count("r05") == 1


def test_a_damaged_file_of_many_runs_is_set_aside_and_its_steps_count_for_nothing(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, IDS)
    fill(tmp_path, make_run, ["alone"], tokens_per_s=3.0)
    compact(tmp_path)
    fill(tmp_path, make_run, ["later"])
    (path,) = layout.compacted_in(tmp_path / "runs" / "machine=box")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    (damaged,) = store.read(tmp_path, "runs").damaged
    assert damaged.moved_to is not None
    assert {row["run_id"] for row in everything(tmp_path)["steps"]} == {"later"}


def test_a_run_in_two_files_counts_once_and_the_next_call_removes_one(tmp_path: Path, make_run: MakeRun) -> None:
    """As a kill leaves it: the new file is there, and the old ones still are."""
    fill(tmp_path, make_run, IDS)
    before, files = everything(tmp_path), bytes_of(tmp_path)
    compact(tmp_path)
    together = bytes_of(tmp_path)
    for path in [path for path in files if path.stem in IDS[:5]]:
        (tmp_path / path).write_bytes(files[path])
    assert everything(tmp_path) == before
    compact(tmp_path)
    assert bytes_of(tmp_path) == together


def test_two_files_of_many_runs_that_overlap_count_each_run_once(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, IDS[:6])
    compact(tmp_path)
    earlier = bytes_of(tmp_path)
    fill(tmp_path, make_run, IDS[6:])
    compact(tmp_path)
    before = everything(tmp_path)
    for path, content in earlier.items():
        (tmp_path / path).write_bytes(content)
    assert len(names(tmp_path)) == 2
    assert everything(tmp_path) == before
    large = max(path.stat().st_size for path in layout.compacted_files(tmp_path))
    compact(tmp_path, large_bytes=large)
    assert everything(tmp_path) == before
    compact(tmp_path)
    assert names(tmp_path) == ["compacted"]


def test_a_file_that_contradicts_a_compacted_one_stays_and_is_told(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, IDS, loss_last=float("nan"))
    same = file_of(tmp_path, "r00").read_bytes()
    compact(tmp_path)
    other = tmp_path / "other"
    fill(other, make_run, ["r01"], tokens_per_s=9.0)
    file_of(tmp_path, "r00").write_bytes(same)
    shutil.copy(file_of(other, "r01"), file_of(tmp_path, "r01"))
    (left,) = compact(tmp_path).left
    assert left.path == file_of(tmp_path, "r01")
    assert "other rows of run r01" in left.reason
    assert names(tmp_path) == ["compacted", "r01"], "a value that is no number does not contradict itself"
    assert [row["run_id"] for row in everything(tmp_path)["runs"]] == IDS


def test_a_sweep_keeps_it_out(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, IDS)
    before = bytes_of(tmp_path)
    with hold_machine(lock_path(), {"pid": os.getpid(), "suite": "lesson", "since": "now"}), pytest.raises(MachineBusy):
        compact(tmp_path)
    assert {path: content for path, content in bytes_of(tmp_path).items() if path.suffix == ".parquet"} == before


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such folder"):
        compact(tmp_path / "nowhere")


def test_who_reads_meanwhile_reads_again(tmp_path: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that were listed are gone when they are opened."""
    fill(tmp_path, make_run, IDS)
    before = everything(tmp_path)
    real, calls = parquet.load, itertools.count()

    def load(path: Path, columns: object = None) -> object:
        if next(calls) == 0:
            monkeypatch.setattr(parquet, "load", real)
            compact(tmp_path)
        return real(path, columns)  # type: ignore[arg-type]

    monkeypatch.setattr(parquet, "load", load)
    assert everything(tmp_path) == before
    assert names(tmp_path) == ["compacted"]


def test_a_kill_at_any_of_20_moments_loses_no_run_and_doubles_none(tmp_path: Path, make_run: MakeRun) -> None:
    template = tmp_path / "template"
    fill(template, make_run, IDS[:6])
    compact(template)
    fill(template, make_run, IDS[6:])
    before = everything(template)
    moments = random.Random(3).sample(range(1, 24), 20)
    struck = kill_at(moments, template, tmp_path, "compact")
    assert len(struck) >= 18, "few kills struck: the test tests little"
    doubled = 0
    for results in (tmp_path / str(moment) for moment in moments):
        doubled += "compacted" in names(results) and len(names(results)) > 1 and len(layout.compacted_files(results)) > 3
        assert everything(results) == before
        assert store.run_ids(results) == set(IDS)
        compact(results)
        assert everything(results) == before
        assert [names(results, table) for table in layout.TABLES] == [["compacted"]] * 3
        assert not list(results.rglob("._*"))
    assert doubled, "no kill struck while runs lay in two files: the test tests nothing"


def test_readings_come_back(tmp_path: Path, make_run: MakeRun) -> None:
    for run_id in ("a", "b"):
        store.append(tmp_path, make_run(run_id), [], READINGS)
    compact(tmp_path)
    rows = everything(tmp_path)["readings"]
    assert [(row["run_id"], row["value"]) for row in rows] == [("a", 0.0), ("a", None), ("b", 0.0), ("b", None)]


def test_the_command_tells_what_it_did_and_exits_with_4_where_files_stay(tmp_path: Path, make_run: MakeRun) -> None:
    results = tmp_path / "results"
    fill(results, make_run, IDS)
    command = ["compact", "--results", str(results), "--json"]
    ended = CliRunner().invoke(cli, command)
    assert ended.exit_code == 0
    assert [each["files_after"] for each in json.loads(ended.stdout)["folders"]] == [1, 1, 1]
    file_of(results, "bad").write_bytes(b"")
    ended = CliRunner().invoke(cli, command)
    assert ended.exit_code == 4
    assert json.loads(ended.stdout) == {"folders": [], "left": [f"{file_of(results, 'bad')}: is empty; left where it is"]}
    assert "bad.parquet: is empty" in ended.stderr
    assert CliRunner().invoke(cli, ["compact", "--results", str(tmp_path / "nowhere")]).exit_code == 2
    with hold_machine(lock_path(), {"pid": os.getpid(), "suite": "lesson", "since": "now"}):
        assert CliRunner().invoke(cli, command).exit_code == 75
