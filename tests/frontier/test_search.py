"""Searches of played ladders: the edge is found wherever it lies, in few tries, beginning where it is predicted."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import LLAMA

from bench.frontier.known import Known
from bench.frontier.question import Question
from bench.frontier.search import Answer, Ask, Chance, Edge, Guess, Stopped, guess, predicted, search
from bench.model import model_from_config
from bench.spec import Cell, workload

BASE = Cell(workload(model=model_from_config("tiny", LLAMA), method="lora"), "hf", "cpu")


def ladder(size: int = 100) -> Question:
    return Question("batch_size", range(1, size + 1), (BASE,))


def foresight(edge: float, spread: float = 0.2) -> Chance:
    """Fits are even at `edge`; the odds fall with the size's distance from it, in shares of it."""
    return lambda cell: (1 - math.tanh((cell.workload.batch_size - edge - 0.5) / (2 * spread * edge))) / 2


def blind(cell: Cell) -> None:
    return None


class Played:
    """Cells fit up to `edge`; longer runs up to `longer`, and memory grows in those of `growing`."""

    def __init__(self, edge: int, longer: int | None = None, growing: int = -1) -> None:
        self.edge, self.longer, self.growing = edge, edge if longer is None else longer, growing
        self.tried: list[tuple[int, bool]] = []

    def __call__(self, cell: Cell, confirm: bool) -> Answer:
        size = cell.workload.batch_size
        self.tried.append((size, confirm))
        fits = size <= (self.longer if confirm else self.edge)
        run_id = f"{size}{'-long' if confirm else ''}"
        return Answer(cell=cell, fits=fits, run_id=run_id, long=confirm, growing=confirm and size == self.growing)


def found(edge: Edge) -> tuple[object, object, str]:
    return edge.last, edge.first, edge.status


@given(edge=st.integers(0, 100), believed=st.floats(0.5, 200) | st.none(), spread=st.floats(0.01, 1))
def test_the_edge_is_found_wherever_it_lies_and_whatever_was_predicted(edge: int, believed: float | None, spread: float) -> None:
    ask = Played(edge)
    result = search(ladder(), blind if believed is None else foresight(believed, spread), ask)
    assert found(result) == {
        0: (None, 1, "none fits"),
        100: (100, None, "all fit"),
    }.get(edge, (edge, edge + 1, "confirmed"))
    short = [size for size, confirm in ask.tried if not confirm]
    assert len(set(short)) == len(short) <= 2 + 2 * math.ceil(math.log2(100))
    assert [size for size, confirm in ask.tried if confirm] == ([edge] if edge else [])
    assert result.run_ids == tuple(f"{size}{'-long' if confirm else ''}" for size, confirm in ask.tried)


def test_a_good_prediction_saves_tries() -> None:
    ask = Played(60)
    search(ladder(), foresight(62, 0.02), ask)
    assert ask.tried[0] == (62, False)
    assert len(ask.tried) <= 5
    wide = Played(60)
    search(ladder(4096), blind, wide)
    assert wide.tried[:4] == [(1, False), (2, False), (3, False), (5, False)]


def test_the_ends_of_the_predicted_interval_are_tried_next() -> None:
    assert guess(ladder(), foresight(50)) == Guess(27, 49, 71)
    assert Played(49).edge == 49
    for edge, second in ((80, 73), (20, 28)):
        ask = Played(edge)
        search(ladder(), foresight(50), ask)
        assert [size for size, _ in ask.tried[:2]] == [50, second]


def test_where_the_interval_is_open_below_strides_are_a_part_of_what_was_predicted() -> None:
    assert guess(ladder(), foresight(80, 1)) == Guess(-1, 79, 99)
    ask = Played(30)
    search(ladder(), foresight(80, 1), ask)
    assert [size for size, _ in ask.tried[:5]] == [80, 71, 62, 44, 8]


def test_an_edge_that_a_longer_run_does_not_bear_out_is_looked_for_below() -> None:
    ask = Played(60, longer=57)
    result = search(ladder(), foresight(60), ask)
    assert found(result) == (57, 58, "confirmed")
    assert ask.tried[-5:] == [(60, True), (59, True), (58, True), (56, True), (57, True)]
    assert found(search(ladder(), blind, Played(3, longer=0))) == (None, 1, "none fits")


@given(edge=st.integers(1, 100), longer=st.integers(0, 100), believed=st.floats(0.5, 200) | st.none())
def test_where_longer_runs_fit_far_less_the_edge_is_theirs_and_costs_few_of_them(
    edge: int, longer: int, believed: float | None
) -> None:
    longer = min(edge, longer)
    ask = Played(edge, longer)
    result = search(ladder(), blind if believed is None else foresight(believed, 0.2), ask)
    assert found(result) == (
        (None, 1, "none fits") if longer == 0 else (longer, None if longer == 100 else longer + 1, result.status)
    )
    assert result.status in ("confirmed", "all fit", "none fits")
    confirmed = [size for size, confirm in ask.tried if confirm]
    assert len(set(confirmed)) == len(confirmed) <= 3 + 2 * math.ceil(math.log2(100))


def test_memory_that_grows_in_the_longer_run_confirms_nothing() -> None:
    result = search(ladder(), blind, Played(60, growing=60))
    assert found(result) == (60, 61, "unconfirmed")
    assert result.why == "memory still grew at the end of the longer run"


def failing_at(size: int, ask: Ask, answer: Callable[[Cell], Answer]) -> Ask:
    return lambda cell, confirm: answer(cell) if cell.workload.batch_size == size else ask(cell, confirm)


def test_a_run_that_says_nothing_of_memory_ends_the_question() -> None:
    ask = failing_at(61, Played(60), lambda cell: Answer(cell=cell, fits=None, why="crashed twice"))
    result = search(ladder(), foresight(55, 0.05), ask)
    assert result.status == "inconclusive"
    assert result.why == "crashed twice"
    assert isinstance(result.last, int)
    assert result.last <= 60


def test_a_search_that_is_stopped_keeps_what_it_has() -> None:
    def stop(cell: Cell) -> Answer:
        raise Stopped("the time budget is spent")

    result = search(ladder(), blind, failing_at(5, Played(60), stop))
    assert (*found(result), result.why) == (3, None, "left", "the time budget is spent")


def test_predicted_edges_need_no_run() -> None:
    edge = predicted(ladder(), foresight(50))
    assert edge.predicted == {"low": 28, "likely": 50, "high": 72}
    assert (edge.status, edge.last, edge.run_ids) == ("predicted", None, ())
    assert str(edge) == "tiny/lora/hf@cpu: batch_size at sequence_length=2048: predicted 50 (28 to 72)"
    assert str(predicted(ladder(), foresight(50, 0.001))).endswith(": predicted 50")
    assert str(predicted(ladder(), foresight(1, 2))).endswith(": predicted 1 (none to 5)")


def test_where_all_are_predicted_to_fit_or_none_is() -> None:
    every, none = predicted(ladder(3), foresight(50)), predicted(ladder(), foresight(0.4, 0.1))
    assert every.predicted == {"low": 3, "likely": 3, "high": 3}
    assert str(every).endswith(": predicted that all fit, up to 3")
    assert none.predicted == {"low": None, "likely": None, "high": None}
    assert str(none).endswith(": predicted that none fits")


def test_what_has_no_probability_has_no_predicted_edge() -> None:
    assert predicted(ladder(), blind).status == "unpredicted"
    assert str(predicted(ladder(), blind)).endswith("these cells cannot be predicted for this machine")


def test_an_edge_as_a_document_and_a_line() -> None:
    edge = search(ladder(), foresight(50), Played(60))
    told = "predicted 50 (28 to 72); 60 runs, 61 does not (confirmed)"
    assert str(edge) == f"tiny/lora/hf@cpu: batch_size at sequence_length=2048: {told}"
    told = edge.to_json()
    assert {name: told[name] for name in ("model", "axis", "held", "last", "first", "status")} == {
        "model": "tiny",
        "axis": "batch_size",
        "held": {"sequence_length": 2048},
        "last": 60,
        "first": 61,
        "status": "confirmed",
    }


@pytest.mark.parametrize("long", [False, True])
def test_known_answers_are_not_asked_for_again(long: bool) -> None:
    known, question = Known(), ladder()
    assert known.answer(question.cell(4)) is None
    known.add(Answer(cell=question.cell(4), fits=True, run_id="five", long=long))
    known.add(Answer(cell=question.cell(8), fits=False, run_id="nine"))
    known.add(Answer(cell=question.cell(6), fits=None, run_id="seven"))
    ran, smaller, larger = (known.answer(question.cell(index)) for index in (4, 2, 50))
    told = [(each.fits, each.run_id) for each in (ran, smaller, larger) if each]
    assert told == [(True, "five"), (True, "five"), (False, "nine")]
    assert known.answer(question.cell(6)) is None
    confirmed = known.answer(question.cell(4), long=True)
    assert (confirmed is not None) == long
    assert known.answer(question.cell(2), long=True) is None


def test_a_longer_run_that_did_not_fit_counts_more_than_a_short_one_that_did() -> None:
    known, question = Known(), ladder()
    known.add(Answer(cell=question.cell(4), fits=True, run_id="short"))
    known.add(Answer(cell=question.cell(4), fits=False, run_id="long", long=True))
    answer = known.answer(question.cell(4))
    assert answer is not None
    assert (answer.fits, answer.run_id) == (False, "long")
