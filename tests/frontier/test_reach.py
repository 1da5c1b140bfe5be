"""How far the lesson's machines reach, by prediction."""

from __future__ import annotations

import pytest
from advised import MAC, PC, machine

from bench.claims.asked import STACKS
from bench.frontier import reach
from bench.frontier.reach import AXES, Reach, reaches
from bench.frontier.run import foretell
from bench.holes import refusal
from bench.machine import catalogue_machine
from bench.predict.answer import chances
from bench.suite import read_suite


@pytest.fixture(scope="module")
def found() -> tuple[Reach, ...]:
    return reaches(machine(PC))


def test_every_axis_is_asked_of_every_method(found: tuple[Reach, ...]) -> None:
    assert [*dict.fromkeys(each.axis for each in found)] == list(AXES)
    assert {(each.axis, each.method) for each in found} == {
        (axis, method) for axis in AXES for method in ("full", "lora", "qlora")
    }


def test_of_each_question_there_is_one_answer_by_a_stack_of_the_machine(found: tuple[Reach, ...]) -> None:
    keys = [(each.axis, each.method, each.model) for each in found]
    assert len(keys) == len(set(keys))
    assert {each.stack for each in found} <= {f"{name}@cuda" for name in STACKS["cuda"]}


def test_it_is_what_the_command_predicts_by_the_best_stack() -> None:
    known = catalogue_machine(MAC)
    said = foretell(read_suite(reach.SUITE), known, chances(known), "llama-3.1-8b/lora/mlx@metal*", refusal)
    edges = {edge.question.axis: edge.predicted for edge in said.edges}
    for each in reaches(machine(MAC)):
        if (each.model, each.method) == ("llama-3.1-8b", "lora"):
            assert edges[each.axis] == {"likely": each.likely, "low": each.low, "high": each.high}


def test_what_is_excluded_from_being_run_is_predicted_all_the_same(found: tuple[Reach, ...]) -> None:
    asked = {method: {each.model for each in found if each.method == method and each.model} for method in ("full", "qlora")}
    assert asked["full"] == asked["qlora"]
    (excluded,) = [each for each in found if (each.axis, each.method, each.model) == ("batch_size", "full", "llama-3.3-70b")]
    assert (excluded.likely, excluded.high) == (None, None)


def test_larger_models_reach_no_further(found: tuple[Reach, ...]) -> None:
    batches = [each.rank for each in found if (each.axis, each.method) == ("batch_size", "qlora")]
    assert batches == sorted(batches, reverse=True)
    assert batches[0] > 0
    assert not found[0].ends_the_search
