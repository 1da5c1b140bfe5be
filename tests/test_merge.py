"""Results of several machines in one folder: each run once, the sources untouched, nothing copied where anything contradicts."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner
from compacted import MakeRun, bytes_of, everything, fill, kill_at, names
from stored_rows import STEPS, as_row, file_of

from bench import store
from bench.cli import cli
from bench.compact import compact
from bench.environments import Environment, keep, load
from bench.environments import file_of as file_of_list
from bench.files import layout
from bench.merge import merge
from bench.spec import BadInput
from bench.sweep.lock import MachineBusy, hold_machine, lock_path

FIXTURES = Path(__file__).parent / "fixtures"
IDS = [f"r{number:02d}" for number in range(8)]
HERE = Environment("3.11.9", ("numpy==2.3.0", "torch==2.13.0"))


@pytest.fixture
def mac(tmp_path: Path, make_run: MakeRun) -> Path:
    folder = tmp_path / "mac"
    fill(folder, make_run, IDS, machine="mac")
    (folder / "machines").mkdir()
    (folder / "machines" / "0123.json").write_text('{"machine": "mac"}')
    return folder


@pytest.fixture
def card(tmp_path: Path, make_run: MakeRun) -> Path:
    folder = tmp_path / "card"
    fill(folder, make_run, ["c1", "c2"], machine="card")
    return folder


def joined(*folders: Path) -> dict[str, list[dict[str, object]]]:
    """What has to be there."""
    found = [everything(folder) for folder in folders]
    tables = {table: [row for each in found for row in each[table]] for table in layout.TABLES}
    return {table: sorted(rows, key=lambda row: (row["machine"], row["run_id"])) for table, rows in tables.items()}


def test_what_is_each_computers_own_is_named_and_not_copied(tmp_path: Path, mac: Path, card: Path) -> None:
    """Else a regression that was accepted elsewhere would be red here without a word."""
    (mac / "acknowledged.toml").write_text("")
    (mac / "locks").mkdir()
    done = merge(tmp_path / "all", [mac, card])
    assert [source.left for source in done.sources] == [["acknowledged.toml", "locks"], []]
    assert (
        f"{mac}: not copied, since each computer has its own: acknowledged.toml, locks; copy by hand if meant" in done.describe()
    )
    assert done.to_json()["sources"][0]["left"] == ["acknowledged.toml", "locks"]
    assert not (tmp_path / "all" / "acknowledged.toml").exists()


def test_the_runs_of_two_machines_come_together_and_again_is_nothing(tmp_path: Path, mac: Path, card: Path) -> None:
    results, sources = tmp_path / "results", (bytes_of(mac), bytes_of(card))
    done = merge(results, [mac, card])
    assert everything(results) == joined(mac, card)
    assert done.describe().splitlines() == [
        f"{mac}: 8 runs copied, 0 were there already",
        f"{mac}: machines/0123.json copied",
        f"{card}: 2 runs copied, 0 were there already",
    ]
    before = bytes_of(results)
    done = merge(results, [mac, card])
    assert bytes_of(results) == before
    assert [(len(each.copied), len(each.known)) for each in done.sources] == [(0, 8), (0, 2)]
    assert (bytes_of(mac), bytes_of(card)) == sources, "the sources are only read"


@pytest.mark.parametrize("compacted", ["the source", "here", "both"])
def test_runs_are_known_in_compacted_files_too(tmp_path: Path, mac: Path, make_run: MakeRun, compacted: str) -> None:
    results = tmp_path / "results"
    merge(results, [mac])
    fill(mac, make_run, ["later", "latest"], machine="mac")
    for folder in {"the source": [mac], "here": [results], "both": [mac, results]}[compacted]:
        compact(folder)
    (done,) = merge(results, [mac]).sources
    assert done.copied == {"later", "latest"}
    assert done.known == set(IDS)
    assert everything(results) == everything(mac)
    files = bytes_of(results)
    counts = duckdb.sql(f"SELECT count(*), count(DISTINCT run_id) FROM '{results}/runs/**/*.parquet'").fetchall()
    assert counts == [(10, 10)], "nor does any other reader find one twice"
    merge(results, [mac])
    assert bytes_of(results) == files


def test_a_compacted_file_is_copied_whole_where_nothing_of_it_is_known(tmp_path: Path, mac: Path) -> None:
    compact(mac)
    merge(tmp_path / "results", [mac])
    assert bytes_of(tmp_path / "results") == bytes_of(mac)


def test_a_run_under_another_name_of_its_machine_is_known(tmp_path: Path, mac: Path) -> None:
    results = tmp_path / "results"
    merge(results, [mac])
    renamed = tmp_path / "renamed"
    for table in layout.TABLES:
        shutil.copytree(mac / table / "machine=mac", renamed / table / "machine=studio")
    before = bytes_of(results)
    (done,) = merge(results, [renamed]).sources
    assert (len(done.copied), len(done.known)) == (0, 8)
    assert bytes_of(results) == before


@pytest.mark.parametrize("between", ["the source and here", "two sources"])
def test_one_id_with_other_rows_is_refused_and_nothing_is_copied(
    tmp_path: Path, mac: Path, make_run: MakeRun, between: str
) -> None:
    results, other = tmp_path / "results", tmp_path / "other"
    fill(other, make_run, ["r03"], machine="mac", tokens_per_s=7.0)
    if between == "two sources":
        folders = [mac, other]
    else:
        merge(results, [mac])
        folders = [other]
    before = bytes_of(results)
    with pytest.raises(BadInput, match=r"nothing was merged:\nrun r03 has other runs in .*other.* than in ") as raised:
        merge(results, folders)
    assert len(str(raised.value).splitlines()) == 2
    assert bytes_of(results) == before


def test_other_steps_of_a_known_run_are_refused(tmp_path: Path, mac: Path, make_run: MakeRun) -> None:
    other = tmp_path / "other"
    store.append(other, make_run("r03", machine="mac"), STEPS[:1])
    with pytest.raises(BadInput, match="run r03 has other steps"):
        merge(tmp_path / "results", [mac, other])


def test_many_contradictions_are_counted(tmp_path: Path, mac: Path, make_run: MakeRun) -> None:
    fill(tmp_path / "other", make_run, IDS, machine="mac", tokens_per_s=7.0)
    with pytest.raises(BadInput, match="and 3 more"):
        merge(tmp_path / "results", [mac, tmp_path / "other"])


def newer(make_run: MakeRun, run_id: str, kind: pa.DataType, value: object, name: str = "added_later") -> bytes:
    """A run's file as another program would write it: with one more column, or one of another type."""
    schema = store.SCHEMAS["runs"]
    where = schema.get_field_index(name)
    schema = schema.append(pa.field(name, kind)) if where < 0 else schema.set(where, pa.field(name, kind))
    maps: dict[str, object] = {key: [] for key in ("implementation", "versions", "device_settings", "not_measured")}
    return store._encode(schema, [as_row(make_run(run_id)) | maps | {name: value}])


def test_columns_of_a_newer_program_come_along(tmp_path: Path, mac: Path, make_run: MakeRun) -> None:
    content = newer(make_run, "new", pa.float64(), 1.5)
    file_of(mac, "new", machine="mac").write_bytes(content)
    merge(tmp_path / "results", [mac])
    assert file_of(tmp_path / "results", "new", machine="mac").read_bytes() == content


@pytest.mark.parametrize("where", ["here", "source"])
def test_columns_of_other_types_are_refused(tmp_path: Path, mac: Path, make_run: MakeRun, where: str) -> None:
    results, other = tmp_path / "results", tmp_path / "other"
    fill(results, make_run, ["here"])
    fill(other, make_run, ["there"])
    file_of(mac, "new", machine="mac").write_bytes(newer(make_run, "new", pa.float64(), 1.5))
    file_of(results if where == "here" else other, "newest").write_bytes(newer(make_run, "newest", pa.string(), "x"))
    before = bytes_of(results)
    with pytest.raises(BadInput, match=r"newest\.parquet: column added_later holds string, not double"):
        merge(results, [mac, other])
    assert bytes_of(results) == before


def test_a_known_column_of_another_type_is_refused(tmp_path: Path, mac: Path, make_run: MakeRun) -> None:
    file_of(mac, "odd", machine="mac").write_bytes(newer(make_run, "odd", pa.string(), "fast", "tokens_per_s"))
    with pytest.raises(BadInput, match=r"odd\.parquet: column tokens_per_s holds string, not double"):
        merge(tmp_path / "results", [mac])


def test_damaged_files_are_told_left_and_not_copied(tmp_path: Path, mac: Path) -> None:
    results = tmp_path / "results"
    file_of(mac, "r00", machine="mac").write_bytes(b"")
    file_of(mac, "r01", "steps", machine="mac").write_bytes(b"hello")
    before = bytes_of(mac)
    done = merge(results, [mac])
    assert [each.path for each in done.damaged] == [
        file_of(mac, "r00", machine="mac"),
        file_of(mac, "r01", "steps", machine="mac"),
    ]
    assert "left where it is" in str(done.damaged[0])
    assert bytes_of(mac) == before
    assert names(results, machine="mac") == IDS[1:]
    assert names(results, "steps", machine="mac") == IDS[2:], "no steps of a run that was not copied"


def test_steps_that_were_lost_here_are_taken_from_a_copy(tmp_path: Path, mac: Path) -> None:
    results = tmp_path / "results"
    merge(results, [mac])
    file_of(results, "r02", "steps", machine="mac").unlink()
    (done,) = merge(results, [mac]).sources
    assert done.copied == set()
    assert everything(results) == everything(mac)


def test_steps_without_a_run_give_way(tmp_path: Path, mac: Path, make_run: MakeRun) -> None:
    results = tmp_path / "results"
    store.append(results, make_run("r02", machine="mac"), STEPS[:1])
    file_of(results, "r02", machine="mac").unlink()
    merge(results, [mac])
    assert everything(results) == everything(mac)


def test_a_machine_that_is_described_otherwise_here_stays(tmp_path: Path, mac: Path) -> None:
    results = tmp_path / "results"
    (results / "machines").mkdir(parents=True)
    (results / "machines" / "0123.json").write_text('{"machine": "another"}')
    (mac / "machines" / "bad.json").write_text("{")
    done = merge(results, [mac])
    assert (results / "machines" / "0123.json").read_text() == '{"machine": "another"}'
    assert "0123.json is another here, which stays" in done.describe()
    assert [(each.path.name, each.reason.partition(":")[0]) for each in done.damaged] == [("bad.json", "is no JSON")]
    assert not (results / "machines" / "bad.json").exists()


def test_lists_of_packages_come_along_once(tmp_path: Path, mac: Path, card: Path) -> None:
    results, other = tmp_path / "results", Environment("3.12.1", ("mlx==0.32.4",))
    for folder in (mac, card):
        keep(folder, HERE)
    keep(mac, other)
    done = merge(results, [mac, card])
    assert (load(results, HERE.digest), load(results, other.digest)) == (HERE, other)
    assert [len(each.environments) for each in done.sources] == [2, 0]
    assert f"{mac}: lists of packages copied: 2" in done.describe()
    assert done.to_json()["sources"][0]["environments"] == sorted(f"{each.digest}.json" for each in (HERE, other))
    before = bytes_of(results)
    assert [each.environments for each in merge(results, [mac, card]).sources] == [[], []]
    assert bytes_of(results) == before


@pytest.mark.parametrize("where", ["there", "here"])
def test_a_damaged_list_of_packages_is_told_and_stays(tmp_path: Path, mac: Path, where: str) -> None:
    results = tmp_path / "results"
    keep(mac, HERE)
    keep(results, HERE)
    path = file_of_list(mac if where == "there" else results, HERE.digest)
    path.write_text(path.read_text().replace("2.13.0", "2.14.0"))
    before = (path.read_bytes(), load(results if where == "there" else mac, HERE.digest))
    done = merge(results, [mac])
    assert [(each.path, each.reason) for each in done.damaged] == [
        (path, "is damaged: what it lists has another digest than its name")
    ]
    assert (path.read_bytes(), load(results if where == "there" else mac, HERE.digest)) == before
    assert done.sources[0].environments == []


@pytest.mark.parametrize("name", ["notes.json", "0123456789abcdef.json"])
def test_another_file_among_the_lists_is_not_copied(tmp_path: Path, mac: Path, name: str) -> None:
    (mac / "environments").mkdir()
    (mac / "environments" / name).write_text("{}")
    done = merge(tmp_path / "results", [mac])
    assert [each.path.name for each in done.damaged] == [name]
    assert not (tmp_path / "results" / "environments").exists()


@pytest.mark.parametrize("version", [1, 2, 4])
@pytest.mark.parametrize("compacted", [False, True])
def test_files_of_an_older_schema_are_merged_with_those_of_nights(
    tmp_path: Path, make_run: MakeRun, version: int, compacted: bool
) -> None:
    old, new, results = tmp_path / "old", tmp_path / "new", tmp_path / "results"
    shutil.copytree(FIXTURES / f"results-v{version}", old)
    (old / "expected.json").unlink()
    for machine in {layout.machine_of(path) for path in layout.files(old, "runs")}:
        fill(new, make_run, [f"new-{machine}"], machine=machine, night="2026-11-30", epoch_digest="0123456789abcdef")
    expected = joined(old, new)
    if compacted:
        compact(old)
        compact(new)
    done = merge(results, [new, old])
    assert everything(results) == expected
    assert done.damaged == []
    assert {(row["schema_version"], row["night"]) for row in expected["runs"]} == {(version, None), (5, "2026-11-30")}
    before = bytes_of(results)
    assert [each.copied for each in merge(results, [old, new]).sources] == [set(), set()]
    assert bytes_of(results) == before


def test_what_holds_no_results_is_refused(tmp_path: Path, mac: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "nowhere", tmp_path / "empty", mac / "runs"):
        with pytest.raises(BadInput, match="no folder of results"):
            merge(tmp_path / "results", [mac, folder])
    with pytest.raises(BadInput, match="takes the others in"):
        merge(mac, [tmp_path / "mac" / ".." / "mac"])
    assert not (tmp_path / "results").exists()


def test_a_sweep_keeps_it_out(tmp_path: Path, mac: Path) -> None:
    with hold_machine(lock_path(), {"pid": os.getpid(), "suite": "lesson", "since": "now"}), pytest.raises(MachineBusy):
        merge(tmp_path / "results", [mac])
    assert not (tmp_path / "results").exists()


def test_a_kill_at_any_of_20_moments_loses_no_run_and_doubles_none(
    tmp_path: Path, mac: Path, card: Path, make_run: MakeRun
) -> None:
    template, source = tmp_path / "template", bytes_of(mac)
    fill(template, make_run, ["here"])
    expected = joined(mac, card, template)
    moments = random.Random(5).sample(range(1, 46), 20)
    struck = kill_at(moments, template, tmp_path, "merge", mac, card)
    assert len(struck) >= 18, "few kills struck: the test tests little"
    runs = {row["run_id"]: row for row in expected["runs"]}
    for results in (tmp_path / str(moment) for moment in moments):
        found = everything(results)
        ids = [row["run_id"] for row in found["runs"]]
        assert "here" in ids
        assert len(ids) == len(set(ids))
        assert found["runs"] == [runs[run_id] for run_id in ids]
        steps = [row for row in expected["steps"] if row["run_id"] in ids]
        assert found["steps"] == steps, "a run that is there has all its steps"
        merge(results, [mac, card])
        assert everything(results) == expected
        assert not list(results.rglob("._*"))
    assert bytes_of(mac) == source


def test_the_command_tells_what_it_did_and_its_exit_codes_are_those_of_the_contract(
    tmp_path: Path, mac: Path, make_run: MakeRun
) -> None:
    results = tmp_path / "results"
    command = ["merge", str(mac), "--results", str(results), "--json"]
    ended = CliRunner().invoke(cli, command)
    assert ended.exit_code == 0
    (told,) = json.loads(ended.stdout)["sources"]
    assert (told["folder"], told["copied"], told["known"], told["machines"]) == (str(mac), 8, 0, ["0123.json"])
    file_of(mac, "bad", machine="mac").write_bytes(b"")
    ended = CliRunner().invoke(cli, command)
    assert ended.exit_code == 4
    assert "bad.parquet: is empty" in ended.stderr
    fill(tmp_path / "other", make_run, ["r03"], machine="mac", tokens_per_s=7.0)
    ended = CliRunner().invoke(cli, ["merge", str(tmp_path / "other"), "--results", str(results)])
    assert ended.exit_code == 2
    assert "nothing was merged" in ended.stderr
    assert CliRunner().invoke(cli, ["merge"]).exit_code == 2
