"""The fit frontier, drawn."""

from advised import MAC, PC

from bench.frontier.reach import Reach
from bench.report.figures.reach import reach

NAMES = {PC: "RTX 4090", MAC: "M3 Ultra"}


def made(axis: str, likely: int | None, machine: str = PC, parameters: int = 8_000_000_000) -> Reach:
    return Reach(
        machine=machine, axis=axis, method="lora", model=f"m{parameters}", parameters=parameters, stack="hf@cuda", likely=likely,
        low=likely, high=likely, rank=likely or 0, ranks=256,
    )  # fmt: skip


FOUND = [
    *(made(axis, 200, machine) for axis in ("sequence_length", "batch_size") for machine in (PC, MAC)),
    made("batch_size", None, MAC, 70_000_000_000),
    made("batch_size", 256, PC, 1_000_000_000),
]


def test_largest_models_alone_are_not_drawn() -> None:
    assert reach([made("model", 3)], NAMES, {}) is None


def test_the_text_alternative_names_the_machines() -> None:
    drawn = reach(FOUND, NAMES, {})
    assert drawn is not None
    assert "what fits on RTX 4090, M3 Ultra" in drawn.svg


def test_what_does_not_fit_at_all_is_drawn_too() -> None:
    assert reach(FOUND, NAMES, {}) != reach([each for each in FOUND if each.likely], NAMES, {})
    assert reach([made("batch_size", None)], NAMES, {}) is not None


def test_the_same_edges_give_the_same_bytes() -> None:
    assert reach(FOUND, NAMES, {}) == reach(FOUND, NAMES, {})
