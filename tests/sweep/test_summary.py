"""What a sweep came to, in words, as a document and as an exit code."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.record import Run
from bench.sweep.summary import Summary

MakeRun = Callable[..., Run]


@pytest.mark.parametrize(
    ("outcomes", "flags", "given", "code"),
    [
        (["ok"], (), {}, 0),
        (["oom_device", "unsupported", "skipped"], (), {}, 0),
        (["ok"], ("throttled",), {}, 0),
        (["ok"], ("throttled",), {"strict": True}, 4),
        (["ok"], (), {"strict": True}, 0),
        (["ok"], (), {"damaged": ("x",)}, 4),
        (["ok", "invalid"], ("throttled",), {"strict": True}, 3),
        (["crashed"], (), {"interrupted": True}, 130),
        ([], (), {"failed_before": 1}, 3),
        (["ok"], (), {"wide": {"cell": 3}}, 0),
    ],
)
def test_the_exit_code(
    make_run: MakeRun, outcomes: list[str], flags: tuple[str, ...], given: dict[str, object], code: int
) -> None:
    runs = [make_run(f"run-{number}", outcome=outcome, flags=flags) for number, outcome in enumerate(outcomes)]
    assert Summary(runs=runs, **given).exit_code == code  # type: ignore[arg-type]


def test_flags_are_counted_by_name(make_run: MakeRun) -> None:
    summary = Summary(runs=[make_run("a", flags=("slept", "throttled")), make_run("b", flags=("slept",)), make_run("c")])
    assert "2 flagged (2 slept, 1 throttled)" in summary.describe(Path("results"))
    assert [run["flags"] for run in summary.to_json()["runs"]] == [("slept", "throttled"), ("slept",), ()]


def test_cells_that_stayed_wide_say_what_they_would_need(make_run: MakeRun) -> None:
    summary = Summary(runs=[make_run()], wide={"a/lora/hf@cpu": 12, "b/lora/hf@cpu": None})
    text = summary.describe(Path("results"))
    assert "2 cells less precise than asked" in text
    assert "a/lora/hf@cpu: about 12 more, b/lora/hf@cpu: unknown" in text
    assert summary.to_json()["wide"] == {"a/lora/hf@cpu": 12, "b/lora/hf@cpu": None}


def test_what_is_left_is_told_with_the_reason(make_run: MakeRun) -> None:
    summary = Summary(runs=[make_run()], left=2, left_because="the time budget is spent")
    assert summary.describe(Path("results")) == "1 runs: 1 ok; 2 runs left: the time budget is spent (the same command goes on)"
    assert Summary().describe(Path("results")) == "nothing left to do"
