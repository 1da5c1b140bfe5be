"""The verdict as JSON."""

from __future__ import annotations

import json
import tomllib

import pandas as pd
from night_rows import CELL, judged, night, rows, since, step

from bench.history.acknowledged import Acknowledgement
from bench.history.document import document

CRASHED = {"outcome": "crashed", "reason": "signal 11"}

KEYS = {
    *("as_of", "red", "regressions", "suspected", "acknowledged", "recovered", "improvements", "small", "series", "gaps"),
    *("failing", "rescoped", "silent_machines", "nights_to_come", "unmatched_acknowledgements", "damaged"),
}
SHIFT_KEYS = {
    *("machine", "machine_id", "suite", "tier", "cell", "cell_key", "metric", "unit", "confirmed", "gradual", "night"),
    *("night_before", "nights", "ratio", "low", "high", "level_before", "level_after", "reason", "recovered", "cause"),
    *("acknowledged", "acknowledge", "scope", "nights_tried"),
}


def made(frame, said=(), damaged=()):
    return json.loads(json.dumps(document(judged(frame, said), damaged), allow_nan=False))


def test_the_keys_stay():
    found = made(rows(step(14, 4, 0.9), nights=since(14, 18)), damaged=["x.parquet: cut short"])
    assert found.keys() == KEYS
    (shift,) = found["regressions"]
    assert shift.keys() == SHIFT_KEYS
    assert (found["red"], found["as_of"], found["damaged"]) == (True, night(17), ["x.parquet: cut short"])
    assert (shift["cell"], shift["metric"], shift["unit"], shift["night"], shift["night_before"]) == (
        *(CELL, "tokens_per_s", "tokens/s"),
        *(night(14), night(13)),
    )
    (step_,) = shift["cause"]["steps"]
    assert step_["between"] == [night(13), night(14)]
    assert step_["differences"] == [{"kind": "package", "name": "torch", "before": "2.13.0", "after": "2.14.0"}]
    assert tomllib.loads(shift["acknowledge"])["acknowledged"][0]["ratio"] > 0.85


def test_each_series_has_its_state_and_last_level():
    (each,) = made(rows([1000.0] * 3 + [None], spread=0))["series"]
    assert (each["state"], each["missing"], each["nights"], each["measured"], each["last_night"]) == (
        *("too short", 4),
        *(3, 3, night(2)),
    )
    assert round(each["level"]) == 1000


def test_what_does_not_apply_is_null():
    fails = {"outcome": "crashed", "reason": "signal 11"}
    (shift,) = made(rows([1.0] * 9, nights={7: fails, 8: fails}))["regressions"]
    assert (shift["metric"], shift["unit"], shift["ratio"], shift["level_before"]) == ("outcome", None, None, None)
    assert shift["reason"] == "crashed: signal 11"


def test_gaps_and_acknowledgements():
    frame = pd.concat([rows(step(14, 4, 0.9)), rows([1.0] * 3, cell="gone/lora/hf@cpu", cell_key="b")])
    said = [Acknowledgement("box", CELL, "tokens_per_s", night(14), "why"), Acknowledgement("x", "y", "outcome", night(1), "z")]
    found = made(frame, said)
    (gap,), (shift,), (idle,) = found["gaps"], found["acknowledged"], found["unmatched_acknowledgements"]
    assert (gap["cell"], gap["ended"], gap["nights"], gap["last_night"]) == ("gone/lora/hf@cpu", True, 15, night(2))
    assert (shift["acknowledged"], shift["acknowledge"]) == ({"night": night(14), "reason": "why"}, None)
    assert idle["machine"] == "x"


def test_all_small_changes_failing_cells_and_changes_of_scope():
    fails = dict.fromkeys(range(36), CRASHED)
    frames = [
        rows(step(20, 16, 0.99, 1e9), metric="host_peak_bytes", spread=0),
        rows([1.0] * 36, cell="never/lora/hf@cpu", cell_key="b", nights=fails),
        rows(
            [1.0] * 15 + [1.2] * 20 + [2.0],
            metric="j_per_token",
            cell="hot/lora/hf@cpu",
            cell_key="c",
            power_scope="gpu-board",
            nights={35: {"power_scope": "soc"}},
        ),
    ]
    found = made(pd.concat(frames))
    assert [(each["metric"], each["night"], each["acknowledge"]) for each in found["small"]] == [
        ("host_peak_bytes", night(20), None)
    ]
    (never,), (change,), (hot,) = found["failing"], found["rescoped"], found["regressions"]
    assert (never["cell"], never["ever_ran"], never["failed"], never["runs"], never["nights"], never["reason"]) == (
        *("never/lora/hf@cpu", False, 108, 108, 36),
        "crashed: signal 11",
    )
    assert (change["metric"], change["before"], change["after"], change["night"]) == (
        "j_per_token",
        "gpu-board",
        "soc",
        night(35),
    )
    assert change["standing"] == [{"metric": "j_per_token", "night": night(15)}]
    assert (hot["scope"], hot["night"]) == ("gpu-board", night(15))
