"""The nights of a folder, with the lists of packages that lie in it."""

from __future__ import annotations

from pathlib import Path

from nightly_rows import CELLS, NEW, OLD, MakeRun, fill, label, stored_run
from stored_rows import file_of

from bench import environments, store
from bench.ledger import stored


def test_a_missing_or_empty_folder_has_none(tmp_path: Path) -> None:
    assert stored.read(tmp_path / "nowhere") == stored.read(tmp_path) == stored.Stored(())


def test_runs_of_before_nights_were_stored_have_none() -> None:
    fixtures = Path(__file__).parent.parent / "fixtures"
    for version in ("results-v1", "results-v2", "results-v4"):
        assert stored.read(fixtures / version) == stored.Stored(()), version


def test_whether_there_is_a_night_is_told_by_a_column(tmp_path: Path, make_run: MakeRun) -> None:
    assert stored.any_night(tmp_path / "nowhere") == (False, ())
    store.append(tmp_path, make_run("no-night"))
    assert stored.any_night(tmp_path) == (False, ())
    fill(tmp_path, make_run, [0], CELLS[:1], repeats=1)
    assert stored.any_night(tmp_path) == (True, ())
    harmed = file_of(tmp_path, f"box-{label(0)}-tiny-lora-hf-cpu-0")
    harmed.write_bytes(b"PAR1")
    found, damaged = stored.any_night(tmp_path)
    assert (found, [each.path for each in damaged]) == (False, [harmed])


def test_packages_come_from_the_lists_where_they_are_known(tmp_path: Path, make_run: MakeRun) -> None:
    environments.keep(tmp_path, OLD)
    store.append(tmp_path, stored_run(make_run, label(0), CELLS[0]))
    store.append(tmp_path, stored_run(make_run, label(1), CELLS[0], environment_digest=NEW.digest))
    store.append(tmp_path, stored_run(make_run, label(2), CELLS[0], environment_digest=None))
    known, missing, untold = (night.environment.splitlines() for night in stored.read(tmp_path).nights)
    assert "beta==2.0" in known
    assert "beta==2.0" not in missing + untold
    assert "alpha==1.0" in missing, "the run's own versions"


def test_a_damaged_list_is_no_evidence(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, [0])
    environments.file_of(tmp_path, OLD.digest).write_text("{}")
    (night,) = stored.read(tmp_path).nights
    assert "beta" not in night.environment


def test_damaged_runs_are_named_and_stay(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, [0], CELLS[:1], repeats=2)
    harmed = file_of(tmp_path, f"box-{label(0)}-tiny-lora-hf-cpu-0")
    harmed.write_bytes(b"PAR1")
    found = stored.read(tmp_path)
    assert [each.path for each in found.damaged] == [harmed]
    assert harmed.exists()
    assert len(found.by_name["box", label(0)].cells[CELLS[0]].samples["ms_per_1000_tokens"]) == 1
