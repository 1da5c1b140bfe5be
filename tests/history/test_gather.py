"""The gate over a results folder."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from night_rows import night, step
from stored_rows import file_of

from bench import store
from bench.environments import Environment, keep
from bench.history.document import document
from bench.history.gather import gate
from bench.history.told import remarks
from bench.reading.strict import BadFile
from bench.spec import BadInput

OLD = Environment("3.11.9", ("numpy==2.0", "torch==2.13.0"))
NEW = Environment("3.11.9", ("numpy==2.0", "torch==2.14.0"))


@pytest.fixture
def results(tmp_path: Path, make_run):
    """Twelve nights of two cells, one of which slowed down with an upgrade on the tenth; and a run that is no night's."""
    folder = tmp_path / "results"
    keep(folder, OLD)
    keep(folder, NEW)
    for at, level in enumerate(step(9, 3, 0.8)):
        environment = NEW if at >= 9 else OLD
        for cell, value in (("slow/lora/hf@cpu", level), ("same/lora/hf@cpu", 500.0)):
            run = make_run(
                f"{cell[:4]}-{at:02}",
                night=night(at),
                started_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=at),
                cell=cell,
                cell_key=cell[:4],
                tokens_per_s=value,
                environment_digest=environment.digest,
                epoch_digest=environment.digest,
                versions={"python": environment.python},
            )
            store.append(folder, run)
    store.append(folder, make_run("plain", tokens_per_s=1.0))
    return folder


def test_the_right_cell_and_night_with_the_package_that_changed(results):
    found = gate(results, as_of=date(2026, 1, 12))
    (told,) = found.verdict.regressions
    assert (told.finding.track.cell, told.finding.night) == ("slow/lora/hf@cpu", night(9))
    assert [str(each) for each in told.cause.steps[0].differences] == ["torch 2.13.0 -> 2.14.0"]
    assert (told.cause.steps[0].notes, found.damaged, found.verdict.silent) == ((), (), ())
    assert len(found.verdict.series) == 2


def test_the_file_of_acknowledged_shifts_lies_in_the_folder_or_where_it_is_said(results, tmp_path: Path):
    rows = ["[[acknowledged]]", 'machine = "box"', 'cell = "slow/lora/hf@cpu"', 'metric = "tokens_per_s"', f"night = {night(9)}"]
    text = "\n".join([*rows, 'reason = "x"'])
    elsewhere = tmp_path / "mine.toml"
    elsewhere.write_text(text)
    assert not gate(results, elsewhere).verdict.red
    assert gate(results).verdict.red
    (results / "acknowledged.toml").write_text(text)
    assert not gate(results).verdict.red
    with pytest.raises(BadFile, match=r"none\.toml"):
        gate(results, tmp_path / "none.toml")


def test_one_machine_alone(results, make_run, tmp_path: Path):
    store.append(results, make_run("elsewhere", machine="pc", machine_id="ffff", night=night(0), tokens_per_s=1.0))
    mine = tmp_path / "mine.toml"
    mine.write_text('[[acknowledged]]\nmachine = "box"\ncell = "x"\nmetric = "outcome"\nnight = 2026-01-02\nreason = "x"\n')
    found = gate(results, mine, machine="pc").verdict
    assert (found.red, [each.track.machine for each in found.series], found.unmatched) == (False, ["pc"], ())
    assert len(gate(results, mine, machine="box").verdict.unmatched) == 1
    with pytest.raises(BadInput, match='"bxo" has no night in these results; did you mean "box"'):
        gate(results, machine="bxo")


def test_what_was_accepted_under_a_former_name_counts_for_the_machine_alone_too(results, make_run, tmp_path: Path):
    started = datetime(2026, 1, 20, tzinfo=UTC)
    store.append(results, make_run("new", machine="new", night=night(19), started_at=started, cell="x/lora/hf@cpu", cell_key="x"))
    mine = tmp_path / "mine.toml"
    mine.write_text('[[acknowledged]]\nmachine = "box"\ncell = "x"\nmetric = "outcome"\nnight = 2026-01-02\nreason = "x"\n')
    assert len(gate(results, mine, machine="new").verdict.unmatched) == 1


def test_a_night_that_is_yet_to_come_hides_nothing(results, make_run):
    """One good night of 2099, by a wrong clock, would be each cell's last until then."""
    store.append(results, make_run("later", night="2099-01-01", cell="slow/lora/hf@cpu", cell_key="slow", tokens_per_s=1000.0))
    found = gate(results, as_of=date(2026, 1, 12)).verdict
    assert (found.red, found.to_come) == (True, ("2099-01-01",))
    assert "the night of 2099-01-01 is left out: it is yet to come (a wrong clock, or a slip in --night)" in [*remarks(found)]
    assert document(found)["nights_to_come"] == ["2099-01-01"]
    assert gate(results, as_of=date(2098, 12, 31)).verdict.to_come == ()


def test_a_damaged_file_is_named_each_time_and_left_where_it_is(results):
    path = file_of(results, "plain")
    path.write_bytes(b"")
    for _ in range(2):
        (damaged,) = gate(results, as_of=date(2026, 1, 12)).damaged
        assert (damaged.path, damaged.moved_to) == (path, None)


def test_a_damaged_file_is_named_and_the_rest_is_judged(results):
    victim = next((results / "runs").rglob("same-*.parquet"))
    victim.write_bytes(victim.read_bytes()[:-30])
    found = gate(results)
    assert [each.path.name for each in found.damaged] == [victim.name]
    assert found.verdict.red


def test_a_folder_without_nights_and_one_that_is_none(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    assert gate(tmp_path / "empty").verdict.series == ()
    with pytest.raises(BadInput, match="is no folder"):
        gate(tmp_path / "none")
    with pytest.raises(BadInput, match="no machine has one yet"):
        gate(tmp_path / "empty", machine="box")
