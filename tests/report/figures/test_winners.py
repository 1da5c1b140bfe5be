"""The winner map, drawn."""

from dataclasses import replace

import pandas as pd
import pytest
from advised import MAC, PC, machine, model, world
from matplotlib.axes import Axes

from bench.advise.stack import Known
from bench.refine.gather import gathered_map
from bench.refine.winners import WinnerMap
from bench.report.figures import winners as figure
from bench.report.figures.winners import winners

NAMES = {PC: "RTX 4090", MAC: "M3 Ultra"}
MACHINES = (machine(PC), machine(MAC))
FOUND = gathered_map(Known(pd.DataFrame(), world()), [model("8b"), model("14b"), model("70b")], (512, 2048), MACHINES)


def test_nothing_to_draw() -> None:
    assert winners(WinnerMap(PC, MAC, (), ()), NAMES) is None


def test_the_text_alternative_counts_the_fields() -> None:
    drawn = winners(FOUND, NAMES)
    assert drawn is not None
    assert f"A map of {len(FOUND.contests)} fields" in drawn.svg
    wins = sum(each.winner == PC for each in FOUND.contests)
    assert f"RTX 4090 wins {wins}" in drawn.svg


def test_the_same_map_gives_the_same_bytes() -> None:
    assert winners(FOUND, NAMES) == winners(FOUND, NAMES)


def test_a_winner_that_may_not_fit_looks_otherwise() -> None:
    found = next(each for each in FOUND.contests if (each.model, each.method) == (model("8b").name, "lora"))
    first = found.stacks[0]
    assert first.fit is not None
    tight = replace(found, stacks=(replace(first, fit=replace(first.fit, fits="tight")), found.stacks[1]))
    assert winners(replace(FOUND, contests=(tight,)), NAMES) != winners(replace(FOUND, contests=(found,)), NAMES)


def test_each_winner_has_a_mark_of_its_own_in_its_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Axes] = []
    write = figure.to_svg
    monkeypatch.setattr(figure, "to_svg", lambda made, *rest: (seen.extend(made.axes), write(made, *rest))[1])
    assert winners(FOUND, NAMES) is not None
    marks = [len(marked.get_offsets()) for ax in seen for marked in ax.collections]
    wins = [[each.winner for each in FOUND.contests if each.method == method] for method in ("full", "lora", "qlora")]
    assert marks == [won.count(machine) for won in wins for machine in (PC, MAC)]


def test_a_field_that_probably_neither_fits_looks_otherwise_and_is_counted_apart() -> None:
    found = next(each for each in FOUND.contests if (each.model, each.method) == (model("70b").name, "lora"))
    assert found.why == "neither fits"
    doubtful = replace(found, why="probably neither fits")
    drawn = winners(replace(FOUND, contests=(found, doubtful)), NAMES)
    assert drawn is not None
    assert "neither fits in 1, probably neither fits in 1." in drawn.svg
    looks = {figure._look(replace(found, why=why), None) for why in ("neither fits", "probably neither fits")}
    assert len(looks) == 2
    assert figure._look(replace(found, why="undecided"), None) == figure._look(doubtful, None)
