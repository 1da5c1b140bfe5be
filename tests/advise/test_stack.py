"""What is known of a stack: its own runs first, then the prediction, each figure by itself."""

from __future__ import annotations

import pandas as pd
import pytest
from advised import MAC, PC, asked, machine, ran, world

from bench.advise.stack import Known, by_rules
from bench.analysis import prepare
from bench.catalog import catalogue
from bench.expand import cells_of
from bench.spec import Cell
from bench.suite import read_suite

WORK = asked()
CELL = Cell(WORK, "hf", "cuda")


def known(*runs: dict) -> Known:
    return Known(prepare(pd.DataFrame(list(runs))), world())


def test_without_runs_everything_is_predicted() -> None:
    found = known().stack(CELL, machine(PC))
    assert {found.fit.tier, found.rate.tier, found.peak.tier, found.power.tier} == {"predicted"}
    assert found.rate.value == pytest.approx(8e12 / WORK.model.parameters)
    assert found.power.scope == "gpu-board"


def test_clean_runs_of_the_same_work_on_that_machine_speak_first() -> None:
    runs = ran(PC, WORK, "hf", "cuda", [900.0, 1000.0, 1100.0], power_w=350.0, power_scope="gpu-board")
    found = known(*runs).stack(CELL, machine(PC))
    assert (found.fit.tier, found.fit.fits, found.fit.headroom) == ("measured", "yes", pytest.approx(1 - 15e9 / 25383256719))
    assert (found.rate.tier, round(found.rate.value)) == ("measured", 997)
    assert found.rate.low < 900
    assert found.rate.high > 1100
    assert found.rate.evidence == tuple(run["run_id"] for run in runs)
    assert (found.power.value, found.power.scope, found.power.tier) == (pytest.approx(350.0), "gpu-board", "measured")
    assert found.peak.value == 15e9


@pytest.mark.parametrize(
    "runs",
    [
        ran(PC, asked(sequence_length=1024), "hf", "cuda", [900.0]),
        ran(MAC, WORK, "hf", "cuda", [900.0]),
        ran(PC, WORK, "unsloth", "cuda", [900.0]),
        ran(PC, WORK, "hf", "cuda", [900.0], flags=["throttled"], outcome="invalid"),
    ],
)
def test_runs_of_other_work_machines_or_stacks_and_invalid_ones_say_nothing(runs) -> None:
    found = known(*runs).stack(CELL, machine(PC))
    assert (found.rate.tier, found.fit.tier) == ("predicted", "predicted")


def test_a_flag_spoils_the_rate_and_leaves_the_fit() -> None:
    found = known(*ran(PC, WORK, "hf", "cuda", [900.0], flags=["unsteady"])).stack(CELL, machine(PC))
    assert (found.rate.tier, found.fit.tier) == ("predicted", "measured")


def test_a_run_that_ran_out_of_memory_shows_no_fit() -> None:
    runs = ran(PC, WORK, "hf", "cuda", [float("nan")], outcome="oom_device", framework_peak_bytes=None)
    found = known(*runs).stack(CELL, machine(PC))
    assert (found.fit.tier, found.fit.fits) == ("measured", "no")


def test_a_stand_in_speaks_of_fit_alone() -> None:
    like = {"tier": "stand-in", "flags": ["limited"], "device_settings": [("memory_like", PC)]}
    runs = ran("h200", WORK, "hf", "cuda", [900.0], **like, capacity_bytes=25383256719.0)
    found = known(*runs).stack(CELL, machine(PC))
    assert runs[0]["machine"] == "h200"
    assert (found.fit.tier, found.fit.fits) == ("stand-in", "yes")
    assert found.rate.tier == "predicted"


def test_watts_of_different_scopes_are_not_averaged() -> None:
    one, other = ran(PC, WORK, "hf", "cuda", [900.0, 900.0], power_w=350.0)
    runs = [{**one, "power_scope": "wall"}, {**other, "power_scope": "gpu-board"}]
    assert known(*runs).stack(CELL, machine(PC)).power.tier == "predicted"


def test_the_stacks_of_a_machine_are_its_owners_own() -> None:
    assert [each.who for each in known().stacks(WORK, machine(PC))] == ["hf@cuda", "unsloth@cuda"]
    assert [each.who for each in known().stacks(WORK, machine(MAC))] == ["mlx@metal"]


def test_what_the_lessons_suite_measures_is_the_work_that_is_asked_about() -> None:
    suite = read_suite("suites/lesson.toml")
    digests = {cell.workload.digest for cell in cells_of(suite, lambda _: "cuda")}
    sizes = [name for name in catalogue().aliases if name != "70b"]
    asked_about = {asked(size, method).digest for size in sizes for method in ("full", "lora", "qlora")}
    assert asked_about <= digests


def test_the_rules_answer_for_a_real_machine() -> None:
    found = by_rules(CELL, machine(PC))
    assert found.fits == "yes"
    assert 15e9 < found.memory.peak_bytes < 25e9
