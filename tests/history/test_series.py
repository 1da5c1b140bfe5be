"""Runs to histories."""

from __future__ import annotations

import pandas as pd
import pytest
from night_rows import CELL, night, rows

from bench.history.series import GATED, Series, Track, is_night, tracks


def series(track: Track, metric: str = "tokens_per_s") -> Series:
    return next(each for each in track.series if each.metric == metric)


def test_a_level_is_the_geometric_mean_of_the_nights_runs_and_of_bytes_the_median():
    frame = rows([1.0], spread=0, repeats=3)
    frame["tokens_per_s"], frame["host_peak_bytes"] = [10.0, 100.0, 1000.0], [1e9, 2e9, 9e9]
    (track,) = tracks(frame)
    assert series(track).levels == (pytest.approx(100),)
    assert series(track, "host_peak_bytes").levels == (2e9,)
    assert series(track, "j_per_token").levels == (None,)
    assert [each.metric for each in track.series] == list(GATED)


def test_the_nights_are_those_of_machine_and_suite_since_the_cells_first():
    frame = pd.concat([rows([1.0] * 5), rows([None, None, 1.0, None, 1.0], cell="late/lora/hf@cpu", cell_key="b")])
    frame = pd.concat([frame, rows([1.0] * 9, suite="other", cell_key="c")])
    late = next(each for each in tracks(frame) if each.cell.startswith("late"))
    assert late.nights == (night(2), night(3), night(4))
    assert late.seen == ("measured", "not run", "measured")
    assert series(late).why == ("", "not run", "")


def test_a_night_without_a_level_says_why():
    nights = {
        1: {"outcome": "crashed", "reason": "signal 11"},
        2: {"flags": ("slept",)},
        3: {"outcome": "interrupted"},
        4: {"tokens_per_s": None},
    }
    frame = rows([1.0] * 6, nights=nights)
    frame.loc[frame["night"] == night(4), "tokens_per_s"] = None
    (track,) = tracks(frame)
    assert track.seen == ("measured", "failed", "measured", "not run", "measured", "measured")
    assert track.reasons == ("", "crashed: signal 11", "", "", "", "")
    assert series(track).why == ("", "failed", "flagged", "not run", "no figure", "")
    assert [level is None for level in series(track).levels] == [False, True, True, True, True, False]


def test_flags_spoil_only_what_they_spoil():
    frame = rows([1.0], nights={0: {"flags": ("short-energy-window",)}}).assign(j_per_token=0.5)
    (track,) = tracks(frame)
    assert series(track).levels[0] is not None
    assert series(track, "j_per_token").why == ("flagged",)


def test_one_failed_repeat_among_good_ones_does_not_make_a_failed_night():
    frame = rows([1.0], spread=0)
    frame.loc[0, ["outcome", "tokens_per_s"]] = ["crashed", None]
    (track,) = tracks(frame)
    assert (track.seen, series(track).levels) == (("measured",), (pytest.approx(1.0),))
    assert (track.reasons, track.runs, track.failed_runs) == (("crashed",), (3,), (1,))


def test_runs_that_nobody_let_end_are_not_counted():
    frame = rows([1.0] * 2, repeats=3, nights={1: {"outcome": "interrupted"}})
    frame = pd.concat([frame, frame.iloc[:1]])
    (track,) = tracks(frame)
    assert (track.runs, track.failed_runs) == ((3, 0), (0, 0))


def test_figures_of_another_scope_are_no_levels_of_this_one():
    nights = {0: {"power_scope": "package"}, 1: {"power_scope": "package"}}
    (track,) = tracks(rows([1.0, 1.0, 1.0, 1.0], metric="j_per_token", power_scope="gpu-board", nights=nights))
    found = series(track, "j_per_token")
    assert found.scope == "gpu-board"
    assert found.why == ("other scope", "other scope", "", "")
    assert found.former.scope == "package"
    assert found.former.why == ("", "", "other scope", "other scope")
    assert found.renewed == (2, 3)


def test_the_scope_before_is_the_last_other_one():
    scopes = ["gpu-board"] * 2 + ["package"] + ["gpu-board"] * 2 + ["soc"] + ["gpu-board"]
    nights = {at: {"power_scope": scope} for at, scope in enumerate(scopes)}
    (track,) = tracks(rows([1.0] * 7, metric="j_per_token", nights=nights))
    found = series(track, "j_per_token")
    assert (found.scope, found.measured, found.former.scope, found.renewed) == ("gpu-board", (0, 1, 3, 4, 6), "soc", (6,))
    assert series(track).former is None


def test_a_night_of_runs_that_differ_in_scope_has_no_level():
    frame = rows([1.0, 1.0], metric="j_per_token", power_scope="gpu-board")
    frame.loc[0, "power_scope"] = "package"
    (track,) = tracks(frame)
    assert series(track, "j_per_token").why == ("no figure", "")


def test_another_workload_machine_suite_or_limit_is_another_track():
    frame = pd.concat(
        [
            rows([1.0]),
            rows([1.0], cell_key="other"),
            rows([1.0], suite="other"),
            rows([1.0], machine="pc", machine_id="ffff"),
            rows([1.0], tier="stand-in", flags=("limited",), capacity_bytes=24e9).assign(run_id="limited"),
        ]
    )
    frame["run_id"] = [str(at) for at in range(len(frame))]
    found = tracks(frame)
    assert len(found) == 5
    assert len({(each.machine, each.suite, each.cell_key, each.tier) for each in found}) == 5


def test_a_machine_that_changed_its_name_is_one_machine_and_bears_the_last():
    frame = pd.concat([rows([1.0]), rows([None, 1.0], machine="renamed")])
    (track,) = tracks(frame)
    assert (track.machine, track.nights) == ("renamed", (night(0), night(1)))
    assert track.machines == ("renamed", "box")


def test_so_do_its_cells_that_ran_only_under_the_former_name():
    frame = pd.concat([rows([1.0]), rows([None, 1.0], cell="new/lora/hf@cpu", cell_key="b", machine="renamed")])
    assert [each.machine for each in tracks(frame)] == ["renamed", "renamed"]


def test_a_cell_that_was_renamed_is_one_cell_and_bears_the_last_name():
    (track,) = tracks(pd.concat([rows([1.0]), rows([None, 1.0], cell="renamed/lora/hf@cpu")]))
    assert (track.cell, track.cells) == ("renamed/lora/hf@cpu", ("renamed/lora/hf@cpu", CELL))


def test_two_machines_of_one_name_are_two():
    assert len(tracks(pd.concat([rows([1.0]), rows([1.0], machine_id="ffff").assign(run_id=["x", "y", "z"])]))) == 2


def test_what_the_stack_made_of_the_same_request_starts_no_other_track():
    (track,) = tracks(rows([1.0, 1.0], nights={1: {"implementation": [("attention", "flash")]}}))
    assert [track.conditions[night(at)]["implementation"] for at in (0, 1)] == ["attention=sdpa", "attention=flash"]


def test_the_conditions_of_a_night_are_those_of_its_last_good_run():
    frame = rows([1.0], nights={0: {"environment_digest": "good"}})
    frame.loc[2, ["environment_digest", "epoch_digest"]] = ["later", "d" * 16]
    (track,) = tracks(frame)
    assert track.conditions[night(0)]["environment_digest"] == "later"
    assert track.mixed == {night(0)}
    frame.loc[2, "outcome"] = "crashed"
    (track,) = tracks(frame)
    assert track.conditions[night(0)]["environment_digest"] == "good"


def test_nights_without_the_cell_have_the_conditions_of_its_neighbours():
    other = {"cell": "other/lora/hf@cpu", "cell_key": "b"}
    frame = pd.concat([rows([1.0, None, 1.0]), rows([1.0, 1.0, 1.0], environment_digest="theirs", **other)])
    found = next(each for each in tracks(frame) if each.cell == CELL)
    assert [found.conditions[night(at)]["environment_digest"] for at in range(3)] == ["a" * 16, "theirs", "a" * 16]


def test_runs_that_are_no_nights_are_left_out():
    frame = pd.concat([rows([1.0] * 2), rows([5.0] * 2).assign(night=None, run_id=list("abcdef"))])
    frame = pd.concat([frame, rows([5.0]).assign(night="tonight", run_id=list("ghi"))])
    (track,) = tracks(frame)
    assert track.nights == (night(0), night(1))
    assert tracks(frame[frame["night"].isna()]) == ()
    assert tracks(pd.DataFrame()) == ()


@pytest.mark.parametrize(
    ("label", "is_one"),
    [("2026-11-30", True), ("2026-11-31", False), ("20261130", False), ("2026-W48-1", False), (None, False), (20261130, False)],
)
def test_a_night_is_labelled_by_a_date(label, is_one):
    assert is_night(label) is is_one


def test_machines_that_share_a_name_bear_their_ids_too():
    frame = pd.concat([rows([1.0]), rows([1.0], machine_id="ffff00aabbcc").assign(run_id=["x", "y", "z"])])
    assert [each.machine for each in tracks(frame)] == ["box [012345]", "box [ffff00]"]
