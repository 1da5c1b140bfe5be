"""Plain lines off a terminal, a redrawn line on one, and an honest time left."""

import io
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from bench.events import Started
from bench.plan import Plan
from bench.progress import TimeLeft, duration_text, observer, run_line
from bench.provenance import Provenance
from bench.record import Machine, Run
from bench.spec import Cell
from bench.sweep.rows import Context, run_row


@pytest.fixture
def failed_run(machine: Machine, fake_cell: Callable[..., Cell]) -> Run:
    context = Context("smoke", "?", machine, Provenance(None, "feed"))
    return run_row(context, fake_cell(name="[bold]x[/bold]"), "r1", datetime(2026, 11, 30, tzinfo=UTC), "oom_host", "no room")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["pipe", "terminal"])
def test_a_run_is_told_whole_and_markup_in_names_is_inert(
    stream: io.StringIO, failed_run: Run, fake_cell: Callable[..., Cell]
) -> None:
    with observer(stream) as watching:
        watching.planned(Plan(entries=(), order=()))
        watching.run_started(fake_cell(name="[bold]x[/bold]"), 1, 2)
        watching.event(Started(import_s=1, versions={}))
        watching.run_ended(failed_run)
        watching.note("done")
    told = stream.getvalue()
    assert "[bold]x[/bold]/lora/fake@cpu: oom_host: no room" in told
    assert "done" in told


def test_a_run_in_a_line(failed_run: Run) -> None:
    from dataclasses import replace

    ok = replace(failed_run, outcome="ok", tokens_per_s=1234.5, framework_peak_bytes=2_500_000_000, host_peak_bytes=None)
    assert run_line(ok).endswith("ok, 1,234 tokens/s, framework peak 2.50 GB")
    assert run_line(replace(ok, framework_peak_bytes=4_030_000)).endswith("framework peak 4.0 MB")
    assert run_line(replace(ok, tokens_per_s=None, framework_peak_bytes=None)).endswith("ok, no rate, no peak")


def test_nothing_is_promised_before_the_first_run() -> None:
    left = TimeLeft()
    left.begin(1, 10)
    assert left.text() == "time left unknown"
    left.end()
    assert left.text() == "about 0 s left"


@pytest.mark.parametrize(
    ("duration_s", "text"), [(0, "0 s"), (89, "89 s"), (90, "2 min"), (3600, "60 min"), (11_100, "3 h 05 min")]
)
def test_durations(duration_s: float, text: str) -> None:
    assert duration_text(duration_s) == text
