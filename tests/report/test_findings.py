"""What all sections speak of: clean text, names, and the machines whose capacities are drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from bench.catalog import machine_profiles
from bench.report.findings import gather

Row = Callable[..., dict[str, Any]]
NO_STEPS = pd.DataFrame()


def test_text_is_cleaned_in_columns_maps_and_lists(run_row: Row) -> None:
    row = run_row(model="a\x1bb", implementation=[("k\u202e", "v\n")], versions=[("p\x00", "1")], flags=np.array(["f\x07"]))
    findings = gather(pd.DataFrame([row]), NO_STEPS, damaged=[("x\ny", "z\x00")])
    run = findings.runs.iloc[0]
    assert (run["model"], run["implementation"], run["flags"]) == ("a\ufffdb", "k\ufffd=v", ("f\ufffd",))
    assert run["versions"] == (("p\ufffd", "1"),)
    assert findings.damaged == (("x y", "z\ufffd"),)


def test_implementations_are_numbered_within_their_backend_in_alphabetical_order(run_row: Row) -> None:
    rows = [
        run_row(index=0, implementation={"z": "1"}),
        run_row(index=1, implementation={"a": "1"}),
        run_row(backend="hf", index=2),
    ]
    rows.append(run_row(index=3, outcome="crashed", implementation=[], method="full"))
    findings = gather(pd.DataFrame(rows), NO_STEPS)
    names = {key[1]: name for key, name in findings.implementations.items() if key[0] == "mlx"}
    assert names == {"a=1": "mlx-1", "z=1": "mlx-2"}
    assert set(findings.summaries["implementation_name"]) == {"mlx-1", "mlx-2", "hf-1", "not recorded"}


def test_both_implementations_stand_beside_every_ratio(run_row: Row) -> None:
    findings = gather(pd.DataFrame([run_row(), run_row(backend="hf", machine="pc-rtx-4090")]), NO_STEPS)
    (comparison,) = findings.comparisons.to_dict("records")
    assert comparison["above"] == "hf@cuda on pc-rtx-4090"
    assert comparison["below"] == "mlx@metal on mac-studio-m3-ultra"
    assert comparison["implementations"] == "hf-1 ÷ mlx-1"


def test_steps_are_joined_to_their_runs(run_row: Row, make_steps: Callable[..., pd.DataFrame]) -> None:
    runs = pd.DataFrame([run_row(index=0), run_row(index=1, outcome="crashed")])
    found = gather(runs, make_steps(runs)).runs.set_index("outcome")["slowest_step"]
    assert found["ok"] == 1.25
    assert np.isnan(found["crashed"])


def test_the_lessons_machines_are_always_drawn_and_others_where_they_ran(run_row: Row) -> None:
    names = set(gather(pd.DataFrame([run_row()]), NO_STEPS, machine_profiles()).capacities)
    assert names == {"mac-studio-m3-ultra", "pc-rtx-4090"}
    more = gather(pd.DataFrame([run_row(machine="h200")]), NO_STEPS, machine_profiles()).capacities
    assert set(more) == names | {"h200"}
    assert more["mac-studio-m3-ultra"] == 103_079_215_104
    assert more["pc-rtx-4090"] == 25_757_220_864


def test_nothing_at_all_is_no_error() -> None:
    findings = gather(pd.DataFrame(), NO_STEPS)
    assert findings.runs.empty
    assert findings.summaries.empty
    assert findings.comparisons.empty
