"""Edges found with the fake backend, stored like any other run: in this process, and once through real ones."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench import store
from bench.environments import file_of
from bench.events import Event
from bench.frontier import run as running
from bench.frontier.run import LEGEND, Found, asked, chance_by, find, foretell
from bench.limits import Limit
from bench.predict.prediction import PARTS, Memory, Prediction, Speed
from bench.record import Machine, Run
from bench.run import Options
from bench.spec import BadInput, Cell, Frontier, Suite
from bench.suite import read_suite
from bench.sweep.evidence import Ending, Trace, judge
from bench.sweep.measuring import Measuring, new_run_id, now
from bench.sweep.rows import run_row
from bench.sweep.seen import Seen
from bench.worker import work

Searched = Callable[..., tuple[Found, "Watching"]]


class Watching:
    """An observer that remembers what it was told."""

    def __init__(self) -> None:
        self.cells: list[str] = []
        self.notes: list[str] = []

    def planned(self, plan: object) -> None: ...
    def run_started(self, cell: Cell, number: int, total: int) -> None:
        assert 1 <= number <= total
        self.cells.append(cell.id.removeprefix("a/lora/fake@cpu/"))

    def event(self, event: Event) -> None: ...
    def run_ended(self, run: Run) -> None: ...
    def note(self, text: str) -> None:
        self.notes.append(text)


def at_edge(tokens: int) -> Callable[[Cell], Prediction]:
    """Predicts that a step of so many tokens fits, give or take a quarter."""

    def predict(cell: Cell) -> Prediction:
        share = cell.workload.tokens_per_step / tokens
        chance = 1.0 if share <= 0.75 else 0.7 if share <= 1 else 0.3 if share <= 1.25 else 0.0
        memory = Memory(
            parts=dict.fromkeys(PARTS, 0), peak_bytes=1, peak_low_bytes=1, peak_high_bytes=1,
            held_bytes=1, held_low_bytes=1, held_high_bytes=1, how="rules",
        )  # fmt: skip
        return Prediction(memory=memory, speed=Speed(), capacity_bytes=1, fit_probability=chance)

    return predict


def blind(cell: Cell) -> None:
    return None


@dataclass
class Here(Measuring):
    """Runs in this process, in milliseconds; what is not the worker's is left out."""

    def run(self, cell: Cell) -> Run:
        trace = Trace()
        work(cell, self.measure, partial(trace.take, at_s=0.0))
        outcome, reason = judge(trace, Ending(exit_code=0))
        run = run_row(self.context, cell, new_run_id(), now(), outcome, reason, Seen(trace), measure=self.measure)
        store.append(self.results, run, Seen(trace).steps)
        return run


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "Measuring", Here)


@pytest.fixture
def suite(write_suite: Callable[..., Path]) -> Callable[..., Suite]:
    """A suite of fake models, {name: what it plays}, and lines of its [frontier]."""

    def make(models: dict[str, dict[str, Any]], *lines: str) -> Suite:
        path = write_suite(models)
        path.write_text(path.read_text() + "\n".join(["[frontier]", "confirm_steps = 7", *lines]) + "\n")
        return read_suite(path)

    return make


@pytest.fixture
def searched(tmp_path: Path, machine: Machine) -> Searched:
    def run(suite: Suite, predict: Callable[[Cell], Prediction | None] = blind, **options: Any) -> tuple[Found, Watching]:
        watching = Watching()
        return find(suite, machine, Options(results=tmp_path / "results", **options), predict, watching), watching

    return run


def edges(found: Found) -> dict[str, tuple[object, object, str]]:
    return {edge.question.id: (edge.last, edge.first, edge.status) for edge in found.edges}


def rows(folder: Path) -> list[dict[str, Any]]:
    return list(store.read(folder / "results", "runs").rows.sort_by("started_at").to_pylist())


LENGTHS = "sequence_length = {from = 8, to = 4096, step = 8}"
BATCHES = "batch_size = {from = 1, to = 64}"


def test_an_edge_is_found_through_real_processes(suite: Callable[..., Suite], searched: Searched, tmp_path: Path) -> None:
    declared = suite({"a": {"fits_tokens": 200}}, "batch_size = {from = 24, to = 26}")
    found, watching = searched(declared, at_edge(208), limit=Limit(10**9))
    assert edges(found) == {"a/lora/fake@cpu: batch_size": (25, 26, "confirmed")}
    assert watching.cells == ["batch_size=26", "batch_size=25", "batch_size=25"]
    stored = rows(tmp_path)
    assert [row["run_id"] for row in stored] == list(found.edges[0].run_ids)
    assert [row["outcome"] for row in stored] == ["oom_device", "ok", "ok"]
    assert {(row["capacity_bytes"], row["memory_limit"]) for row in stored} == {(10**9, "accounting")}
    assert stored[-1]["steps"] - stored[-1]["warmup_steps"] == 7
    assert file_of(tmp_path / "results", stored[-1]["environment_digest"]).exists(), "the list of packages behind it"


@pytest.mark.usefixtures("here")
def test_edges_are_found_around_the_prediction_and_stored_as_runs(
    suite: Callable[..., Suite], searched: Searched, tmp_path: Path
) -> None:
    found, watching = searched(suite({"a": {"fits_tokens": 200}}, LENGTHS, BATCHES), at_edge(208))
    assert edges(found) == {
        "a/lora/fake@cpu: sequence_length": (96, 104, "confirmed"),
        "a/lora/fake@cpu: batch_size": (25, 26, "confirmed"),
    }
    assert watching.cells[0] == "sequence_length=104"  # the predicted edge first
    assert len(watching.cells) <= 11
    stored = rows(tmp_path)
    assert [row["cell"].split("/")[-1] for row in stored] == watching.cells
    assert {(row["suite"], row["predicted_peak_bytes"]) for row in stored} == {("probe", 1)}, "predicted before it was tried"
    assert {(row["outcome"], row["batch_size"] * row["sequence_length"] <= 200) for row in stored} == {
        ("ok", True),
        ("oom_device", False),
    }
    longer = [row["cell"].split("/")[-1] for row in stored if row["outcome"] == "ok" and row["steps"] - row["warmup_steps"] == 7]
    assert longer == ["sequence_length=96", "batch_size=25"]
    assert {run_id for edge in found.edges for run_id in edge.run_ids} <= {row["run_id"] for row in stored}
    assert found.summary.exit_code == 0
    assert found.edges[0].predicted == {"low": 72, "likely": 104, "high": 128}
    told = json.loads(json.dumps(found.to_json()))
    assert told["edges"][1]["last"] == 25
    assert watching.notes[-1] == str(found.edges[1])


@pytest.mark.usefixtures("here")
def test_the_same_command_again_runs_nothing_and_finds_the_same(
    suite: Callable[..., Suite], searched: Searched, tmp_path: Path
) -> None:
    declared = suite({"a": {"fits_tokens": 200}}, BATCHES)
    first, _ = searched(declared)
    again, watching = searched(declared)
    assert (edges(again), watching.cells) == (edges(first), [])
    assert again.edges[0].run_ids == first.edges[0].run_ids
    under_a_limit, watching = searched(declared, limit=Limit(10**9))
    assert edges(under_a_limit) == edges(first)
    assert watching.cells, "runs without a limit say nothing of runs under one"
    afresh, watching = searched(declared, resume=False)
    assert (edges(afresh), len(watching.cells)) == (edges(first), len(first.edges[0].run_ids))


@pytest.mark.usefixtures("here")
def test_what_did_not_fit_is_not_tried_larger_and_what_ran_not_smaller(suite: Callable[..., Suite], searched: Searched) -> None:
    """b needs more than a, and c more than b; the largest model follows from its batches, but for the longer run."""
    models = {
        name: {"parameters": size, "fits_tokens": fits} for name, size, fits in (("a", 10, 64), ("b", 20, 40), ("c", 30, 0))
    }
    found, watching = searched(suite(models, BATCHES, "model = true"))
    assert edges(found) == {
        "a/lora/fake@cpu: batch_size": (8, 9, "confirmed"),
        "b/lora/fake@cpu: batch_size": (5, 6, "confirmed"),
        "c/lora/fake@cpu: batch_size": (None, 1, "none fits"),
        "*/lora/fake@cpu: model": ("b", "c", "confirmed"),
    }
    assert [cell for cell in watching.cells if "batch_size=9" in cell] == ["batch_size=9"], "too many for a, so for b"
    assert [cell for cell in watching.cells if cell.startswith("c/")] == ["c/lora/fake@cpu/batch_size=1"]
    assert watching.cells[-1] == "b/lora/fake@cpu", "the largest model is confirmed at the size that is fixed"


@pytest.mark.usefixtures("here")
def test_a_longer_run_that_runs_out_of_memory_moves_the_edge(suite: Callable[..., Suite], searched: Searched) -> None:
    """Seven steps and one of warm-up: the eighth finds less memory than those before it."""
    found, _ = searched(suite({"a": {"fits_tokens": [80] * 7 + [56]}}, BATCHES))
    assert edges(found) == {"a/lora/fake@cpu: batch_size": (7, 8, "confirmed")}


@pytest.mark.usefixtures("here")
def test_memory_that_grows_confirms_nothing(suite: Callable[..., Suite], searched: Searched) -> None:
    growing = [10_000_000 * step for step in range(1, 9)]
    found, _ = searched(suite({"a": {"fits_tokens": 80, "peak_bytes": growing}}, BATCHES))
    assert edges(found) == {"a/lora/fake@cpu: batch_size": (10, 11, "unconfirmed")}
    assert found.edges[0].why == "memory still grew at the end of the longer run"


@pytest.mark.usefixtures("here")
def test_a_failure_is_tried_once_more_and_then_told(suite: Callable[..., Suite], searched: Searched) -> None:
    declared = suite({"a": {"fail": "crashed"}}, BATCHES)
    found, watching = searched(declared)
    assert edges(found) == {"a/lora/fake@cpu: batch_size": (None, None, "inconclusive")}
    assert watching.cells == ["batch_size=1"] * 2
    assert found.edges[0].why == "failed 2 times at a/lora/fake@cpu/batch_size=1 (crashed); --no-resume tries again"
    assert found.summary.exit_code == 3
    again, watching = searched(declared)
    assert (watching.cells, again.summary.exit_code) == ([], 3)


@pytest.mark.usefixtures("here")
def test_a_budget_leaves_the_rest(suite: Callable[..., Suite], searched: Searched) -> None:
    found, watching = searched(suite({"a": {}, "b": {"label": "other"}}, BATCHES), budget_s=0.0)
    assert {edge.status for edge in found.edges} == {"left"}
    assert (watching.cells, found.summary.left, found.summary.left_because) == ([], 2, "the time budget is spent")


@pytest.mark.usefixtures("here")
def test_holes_are_told_and_stored(suite: Callable[..., Suite], searched: Searched, machine: Machine, tmp_path: Path) -> None:
    declared = suite({"a": {"fits_tokens": 16}}, BATCHES)
    elsewhere = replace(declared, sweep=tuple((n, ("fake@cuda",) if n == "backend" else v) for n, v in declared.sweep))
    found, _ = searched(elsewhere)
    assert (found.edges, [entry.cell.id for entry in found.holes]) == ((), ["a/lora/fake@cuda"])
    assert [(row["outcome"], row["cell"]) for row in rows(tmp_path)] == [("unsupported", "a/lora/fake@cuda")]
    assert "skipped: fake does not run on cuda" in str(found)
    searched(elsewhere)
    assert len(rows(tmp_path)) == 1


def test_predicted_edges_run_nothing(suite: Callable[..., Suite], machine: Machine, tmp_path: Path) -> None:
    found = foretell(suite({"a": {}}, LENGTHS), machine, chance_by(at_edge(208)))
    assert found.edges[0].predicted == {"low": 72, "likely": 104, "high": 128}
    assert not (tmp_path / "results").exists()
    assert str(found).splitlines() == [
        "a/lora/fake@cpu: sequence_length at batch_size=2: predicted 104 (72 to 128)",
        LEGEND,
    ]
    assert LEGEND not in str(foretell(suite({"a": {}}, LENGTHS), machine, blind))


def test_a_suite_without_a_frontier_asks_nothing(write_suite: Callable[..., Path], machine: Machine) -> None:
    with pytest.raises(BadInput, match="probe asks for no edge"):
        asked(read_suite(write_suite({"a": {}})), machine)


def test_only_picks_cells(suite: Callable[..., Suite], machine: Machine) -> None:
    declared = suite({"a": {}, "b": {"label": "other"}}, BATCHES)
    assert declared.frontier == Frontier(spans=declared.frontier.spans, confirm_steps=7) if declared.frontier else False
    wanted, _ = asked(declared, machine, "b/*")
    assert [question.id for question in wanted] == ["b/lora/fake@cpu: batch_size"]
    with pytest.raises(BadInput, match="matches none"):
        asked(declared, machine, "c/*")
