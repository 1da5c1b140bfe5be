from pathlib import Path

import pytest

from bench.files import layout


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_a_run_lies_in_its_machines_folder():
    path = layout.run_path(Path("results"), "steps", "pc-rtx-4090", "20261130T021500Z-0a")
    assert path == Path("results/steps/machine=pc-rtx-4090/20261130T021500Z-0a.parquet")
    assert layout.machine_of(path) == "pc-rtx-4090"


@pytest.mark.parametrize("machine", ["../x", "a/b", "a=b", "a100%", "é %20", ".x", "13th-gen", "1e5", "nan", "inf2"])
def test_any_machine_name_stays_one_folder_and_comes_back(machine):
    path = layout.run_path(Path("results"), "runs", machine, "r")
    assert path.parent.parent == Path("results/runs")
    assert ".." not in path.parts
    assert layout.machine_of(path) == machine


NUMBERS = ["4090", "-5", "1_000", "0x10", "0XFF_f", "-0b11"]
DATES = ["2024-01-01", "2024-01-01 (BC)", "Infinity", "-inf", "epoch"]


@pytest.mark.parametrize("machine", [*NUMBERS, *DATES, "", "NULL", "a\nb", "..", "a\0"])
def test_machine_names_that_read_as_something_else_are_refused(machine):
    with pytest.raises(ValueError, match="machine name"):
        layout.run_path(Path("results"), "runs", machine, "r")


@pytest.mark.parametrize("run_id", ["", ".", "..", "a/b", "../a", ".hidden", "a b", "a\n"])
def test_run_ids_that_are_no_file_names_are_refused(run_id):
    with pytest.raises(ValueError, match="run id"):
        layout.run_path(Path("results"), "runs", "box", run_id)


def test_files_are_sorted_and_hidden_ones_left_out(tmp_path):
    later = touch(tmp_path / "runs/machine=b/1.parquet")
    first = touch(tmp_path / "runs/machine=a/2.parquet")
    touch(tmp_path / "runs/machine=a/._2.parquet")
    touch(tmp_path / "runs/machine=a/._2.abcd.part")
    touch(tmp_path / "runs/machine=a/notes.txt")
    assert layout.files(tmp_path, "runs") == [first, later]
    assert layout.files(tmp_path, "steps") == []
    assert layout.folders(tmp_path) == [first.parent, later.parent]


NOTHING_STORED = [
    layout.folders,
    lambda results: layout.files(results, "runs"),
    layout.compacted_files,
]


@pytest.mark.parametrize("listing", NOTHING_STORED)
def test_only_a_folder_that_is_not_there_is_empty(tmp_path, listing):
    assert listing(tmp_path / "nowhere") == []
    (tmp_path / "runs").touch()
    with pytest.raises(NotADirectoryError) as raised:
        listing(tmp_path)
    assert raised.value.filename == str(tmp_path / "runs")


@pytest.mark.parametrize("listing", NOTHING_STORED)
def test_a_link_to_a_disk_that_is_not_there_is_not_empty(tmp_path, listing):
    (tmp_path / "runs").symlink_to(tmp_path / "unmounted")
    with pytest.raises(FileNotFoundError, match="runs"):
        listing(tmp_path)


def test_a_machine_that_is_a_file_is_named(tmp_path):
    touch(tmp_path / "runs/machine=a")
    with pytest.raises(NotADirectoryError, match="machine=a"):
        layout.files(tmp_path, "runs")


def test_files_of_many_runs_are_told_from_those_of_one(tmp_path):
    touch(tmp_path / "runs/machine=a/1.parquet")
    folder = tmp_path / "steps/machine=a"
    many = touch(layout.compacted_path(folder, "0123456789abcdef0123"))
    touch(folder / "compacted@0123456789abcdeg.parquet")
    touch(folder / "compacted@0123.parquet")
    assert many.name == "compacted@0123456789abcdef.parquet"
    assert layout.compacted_files(tmp_path) == layout.compacted_in(folder) == [many]
    assert [layout.is_compacted(path) for path in layout.files(tmp_path, "steps")] == [False, True, False]
    with pytest.raises(ValueError, match="run id"):
        layout.checked_run_id(many.stem)


def test_files_set_aside_keep_table_machine_and_run_in_their_name_and_replace_none(tmp_path):
    moved = []
    for content in ("first", "second", "third"):
        path = touch(tmp_path / "runs/machine=a/1.parquet")
        path.write_text(content)
        moved.append(layout.set_aside(tmp_path, path))
        assert not path.exists()
    names = ["runs.machine=a.1.parquet", "runs.machine=a.1.parquet.2", "runs.machine=a.1.parquet.3"]
    assert moved == [tmp_path / "quarantine" / name for name in names]
    assert [path.read_text() for path in moved] == ["first", "second", "third"]


def test_a_file_that_another_process_has_set_aside_is_no_error(tmp_path):
    assert layout.set_aside(tmp_path, tmp_path / "runs/machine=a/1.parquet") is None
