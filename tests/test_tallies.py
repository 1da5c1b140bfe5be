"""What is known of each cell, counted from the stored runs."""

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from stored_rows import file_of

from bench import store
from bench.limits import Limit
from bench.record import Run
from bench.tallies import Tallies, tallies


def test_tallies_count_outcomes_per_cell_of_one_suite_on_one_machine(tmp_path, make_run):
    outcomes = [("x", "ok"), ("x", "ok"), ("x", "crashed"), ("y", "unsupported")]
    for number, (cell_key, outcome) in enumerate(outcomes):
        store.append(tmp_path, make_run(f"r{number}", cell_key=cell_key, outcome=outcome))
    store.append(tmp_path, make_run("other-suite", suite="lesson"))
    store.append(tmp_path, make_run("other-machine", machine_id="4567"))
    store.append(tmp_path, make_run("damaged", cell_key="x"))
    file_of(tmp_path, "damaged").write_bytes(b"")
    expected = {"x": Counter(ok=2, crashed=1), "y": Counter(unsupported=1)}
    damaged = store.Damaged(file_of(tmp_path, "damaged"), "is empty", None)
    assert tallies(tmp_path, "0123", "smoke") == Tallies(expected, (damaged,), {}, Counter(), {})
    assert len(store.read(tmp_path, "runs").damaged) == 1, "left for read to set aside"


def test_runs_under_a_limit_count_for_that_limit_alone(tmp_path: Path, make_run: Callable[..., Run]) -> None:
    card, bare = Limit(25, "pc-rtx-4090"), Limit(25)
    held = {"flags": ("limited",), "capacity_bytes": 25}
    runs = [
        make_run("r1", tokens_per_s=10.0),
        make_run("r2", tokens_per_s=11.0, capacity_bytes=25),
        make_run("r3", tokens_per_s=5.0, tier="stand-in", outcome="ok", device_settings={"memory_like": "pc-rtx-4090"}, **held),
        make_run("r4", tier="stand-in", outcome="oom_device", device_settings={"memory_like": "pc-rtx-4090"}, **held),
        make_run("r7", tier="stand-in", outcome="oom_device", device_settings={"memory_like": "another"}, **held),
        make_run("r8", outcome="over_limit", memory_limit="watchdog 50%"),
        make_run("r5", outcome="over_limit", **held),
        make_run("r6", outcome="skipped", **{**held, "capacity_bytes": 24}),
    ]
    for run in runs:
        store.append(tmp_path, run)

    def counted(limit: Limit | None) -> dict[str, Counter[str]]:
        return tallies(tmp_path, "0123", "smoke", limit).by_cell  # type: ignore[return-value]

    assert counted(None) == {"fedc": Counter(ok=2)}
    assert counted(card) == {"fedc": Counter(ok=1, oom_device=1)}
    assert counted(bare) == {"fedc": Counter(over_limit=1)}
    assert counted(Limit(24)) == {"fedc": Counter(skipped=1)}
    assert counted(Limit(23)) == {}
    half = tallies(tmp_path, "0123", "smoke", None, "watchdog 50%").by_cell
    assert half == {"fedc": Counter(ok=2, over_limit=1)}
    assert tallies(tmp_path, "0123", "smoke").rates == {"fedc": [10.0, 11.0]}
    limited = tallies(tmp_path, "0123", "smoke", card)
    assert (limited.rates, limited.flagged) == ({}, Counter())


def test_each_night_counts_its_own_runs_and_what_is_no_nights_counts_apart(tmp_path: Path, make_run: Callable[..., Run]) -> None:
    took = {"steps": 1, "step_s_median": 2.0}
    for run in (
        make_run("r1", tokens_per_s=10.0, flags=("unsteady",), night="2026-11-29", **took),
        make_run("r2", tokens_per_s=11.0, night="2026-11-30", **took),
        make_run("r3", outcome="crashed", night="2026-11-30"),
        make_run("r4", tokens_per_s=12.0, **took),
    ):
        store.append(tmp_path, run)
    first, second, none, other = (
        tallies(tmp_path, "0123", "smoke", night=night) for night in ("2026-11-29", "2026-11-30", None, "2026-12-01")
    )
    assert (first.by_cell, first.rates, first.flagged) == ({"fedc": Counter(ok=1)}, {}, Counter(fedc=1))
    assert (second.by_cell, second.rates, second.flagged) == ({"fedc": Counter(ok=1, crashed=1)}, {"fedc": [11.0]}, Counter())
    assert (none.by_cell, none.rates) == ({"fedc": Counter(ok=1)}, {"fedc": [12.0]})
    assert (other.by_cell, other.rates, other.flagged) == ({}, {}, Counter())
    assert other.durations == none.durations == {"fedc": [2.0] * 3}, "how long a run takes is learnt from every night"


def test_tallies_tell_how_long_each_ok_run_took(tmp_path, make_run):
    """Import, load, the first step, and the others by their median."""
    took = {"import_s": 8.0, "load_s": 4.0, "first_step_s": 3.0, "steps": 11, "step_s_median": 2.0}
    store.append(tmp_path, make_run("a", cell_key="x", flags=("unsteady",), **took))
    store.append(tmp_path, make_run("b", cell_key="x", **took | {"import_s": None, "first_step_s": None}))
    store.append(tmp_path, make_run("c", cell_key="x", outcome="crashed", **took))
    store.append(tmp_path, make_run("d", cell_key="y"))
    durations = tallies(tmp_path, "0123", "smoke").durations
    assert {key: sorted(values) for key, values in durations.items()} == {"x": [26.0, 35.0]}


@pytest.mark.parametrize("times", [{"step_s_median": math.inf}, {"import_s": math.nan}, {"load_s": -1e9}], ids=str)
def test_times_that_no_run_takes_are_no_durations(tmp_path, make_run, times):
    took = {"import_s": 8.0, "load_s": 4.0, "first_step_s": 3.0, "steps": 11, "step_s_median": 2.0}
    store.append(tmp_path, make_run("a", cell_key="x", **took | times))
    assert tallies(tmp_path, "0123", "smoke").durations == {}


def test_what_a_plan_reads_imports_no_pandas(tmp_path: Path, make_run: Callable[..., Run]) -> None:
    """Which takes half a second; Arrow imports it at the first scalar, array or sort."""
    store.append(tmp_path, make_run())
    call = f"tallies(Path({str(tmp_path)!r}), 'm', 's')"
    script = f"import sys; from pathlib import Path; from bench.tallies import tallies; {call}"
    subprocess.run([sys.executable, "-c", f"{script}; assert 'pandas' not in sys.modules"], check=True, timeout=60)
