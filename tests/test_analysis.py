"""Summaries and comparisons of invented runs, against the textbook and against the rules of fairness."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bench import analysis
from bench.intervals import interval
from bench.record import OUTCOMES

START = datetime(2026, 1, 1, tzinfo=UTC)


def run(number: int = 0, **fields: Any) -> dict[str, Any]:
    backend, device = fields.get("backend", "mlx"), fields.get("device", "cpu")
    row = {
        "run_id": f"r{number:03}",
        "started_at": START + timedelta(minutes=number),
        "machine": "one",
        "machine_id": "aaaaaaaaaaaa",
        "cell": f"m/lora/{backend}@{device}",
        "cell_key": f"key-{backend}-{device}",
        "workload_digest": "w1",
        "implementation": [("attention", "sdpa")],
        "model": "m",
        "method": "lora",
        "parameters": 1000,
        "backend": "mlx",
        "device": "cpu",
        "batch_size": 1,
        "sequence_length": 64,
        "tier": "measured",
        "outcome": "ok",
        "tokens_per_s": 100.0,
        "trainable_parameters": 64,
        "tokens_digest": "t1",
        "environment_digest": "e1",
        "warmup_steps": 3,
        "steps": 13,
        "flags": [],
    }
    return row | fields


def frame(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(list(rows))


def only(summaries: pd.DataFrame) -> dict[str, Any]:
    assert len(summaries) == 1
    return dict(summaries.iloc[0])


def rates(*values: float, first: int = 0, **fields: Any) -> list[dict[str, Any]]:
    return [run(first + number, tokens_per_s=value, **fields) for number, value in enumerate(values)]


def test_mean_and_interval_are_the_textbook_ones_on_logs() -> None:
    values = [90.0, 100.0, 130.0]
    summary = only(analysis.summarise(frame(*rates(*values))))
    logs = np.log(values)
    low, high = np.exp(stats.t.interval(0.95, 2, loc=logs.mean(), scale=stats.sem(logs)))
    assert summary["tokens_per_s"] == pytest.approx(stats.gmean(values))
    assert summary["tokens_per_s_low"] == pytest.approx(low)
    assert summary["tokens_per_s_high"] == pytest.approx(high)


def test_intervals_of_other_metrics_than_those_asked_for_are_left_out_and_nothing_else_is() -> None:
    rows = analysis.prepare(frame(*rates(90.0, 100.0, 130.0), *rates(50.0, 51.0, first=5, backend="hf")))
    full, some = (analysis.summarised(rows, analysis.counted(rows), *bounded) for bounded in ((), (("tokens_per_s",),)))
    left_out = [name for name in full if name not in some]
    assert left_out == [name for name in full if name.endswith(("_low", "_high")) and not name.startswith("tokens_per_s_")]
    pd.testing.assert_frame_equal(some, full.drop(columns=left_out))


def test_one_run_has_a_mean_and_no_interval() -> None:
    summary = only(analysis.summarise(frame(run())))
    assert summary["tokens_per_s"] == 100.0
    assert math.isnan(summary["tokens_per_s_low"])
    assert math.isnan(summary["tokens_per_s_high"])


def test_equal_runs_have_an_interval_of_no_width() -> None:
    summary = only(analysis.summarise(frame(run(0, framework_peak_bytes=7), run(1, framework_peak_bytes=7))))
    assert summary["framework_peak_bytes_low"] == pytest.approx(7)
    assert summary["framework_peak_bytes_high"] == pytest.approx(7)


def test_bytes_are_told_by_their_median() -> None:
    peaks = (100, 110, 900)
    summary = only(analysis.summarise(frame(*(run(number, host_peak_bytes=peak) for number, peak in enumerate(peaks)))))
    assert summary["host_peak_bytes"] == 110


def test_zero_is_a_measurement_without_a_logarithm() -> None:
    summary = only(analysis.summarise(frame(run(0, load_s=0.0), run(1, load_s=0.0), run(2, load_s=2.0))))
    assert summary["load_s"] == 0.0
    assert math.isnan(summary["load_s_low"])


def test_what_was_not_measured_is_missing_and_not_zero() -> None:
    summary = only(analysis.summarise(frame(run(0, host_peak_bytes=None), run(1, host_peak_bytes=None))))
    assert math.isnan(summary["host_peak_bytes"])


def test_flagged_runs_are_counted_and_left_out_of_means() -> None:
    summary = only(analysis.summarise(frame(*rates(100.0, 102.0), run(9, tokens_per_s=10.0, flags=np.array(["throttled"])))))
    assert summary["tokens_per_s"] == pytest.approx((100 * 102) ** 0.5)
    assert (summary["n_ok"], summary["n_flagged"], summary["n_clean"]) == (3, 1, 2)


def test_failed_runs_are_counted_by_outcome_and_their_partial_rates_left_out() -> None:
    summary = only(analysis.summarise(frame(run(0), run(1, outcome="crashed", tokens_per_s=1.0), run(2, outcome="oom_host"))))
    assert summary["tokens_per_s"] == 100.0
    assert {each: summary[f"n_{each}"] for each in OUTCOMES if summary[f"n_{each}"]} == {"ok": 1, "oom_host": 1, "crashed": 1}
    assert summary["n_runs"] == 3
    assert summary["run_ids"] == ("r000", "r001", "r002")


def test_maps_of_any_shape_are_one_implementation() -> None:
    shapes = [{"b": "2", "a": "1"}, [("a", "1"), ("b", "2")], (("b", "2"), ("a", "1"))]
    summary = only(analysis.summarise(frame(*(run(number, implementation=shape) for number, shape in enumerate(shapes)))))
    assert summary["implementation"] == "a=1; b=2"


def test_a_run_that_never_loaded_counts_with_the_only_known_implementation() -> None:
    summary = only(analysis.summarise(frame(run(0), run(1, outcome="oom_host", implementation=[]))))
    assert (summary["n_ok"], summary["n_oom_host"]) == (1, 1)


def test_a_run_that_never_loaded_stands_apart_where_several_implementations_are_known() -> None:
    rows = (run(0), run(1, implementation={"attention": "eager"}), run(2, outcome="oom_host", implementation=None))
    summaries = analysis.summarise(frame(*rows)).set_index("implementation")
    assert summaries.loc["", "n_oom_host"] == 1
    assert len(summaries) == 3


def test_two_machines_of_one_name_are_kept_apart() -> None:
    summaries = analysis.summarise(frame(run(0), run(1, machine_id="bbbbbbbbbbbb")))
    assert list(summaries["machine"]) == ["one [aaaaaa]", "one [bbbbbb]"]


def test_tiers_are_never_pooled() -> None:
    assert len(analysis.summarise(frame(run(0), run(1, tier="stand-in")))) == 2


def test_what_repeats_should_agree_on_is_listed_when_they_do_not() -> None:
    summary = only(
        analysis.summarise(frame(run(0), run(1, tokens_digest="t2", trainable_parameters=65, environment_digest=None)))
    )
    assert summary["tokens_digests"] == ("t1", "t2")
    assert summary["trainable_parameters"] == (64.0, 65.0)
    assert summary["environments"] == ("e1",)


def test_preparing_twice_changes_nothing_and_keeps_the_input() -> None:
    raw = frame(run(1), run(0, machine_id="bbbbbbbbbbbb", flags=["cold"]))
    before = raw.copy(deep=True)
    once = analysis.prepare(raw)
    pd.testing.assert_frame_equal(analysis.prepare(once), once)
    pd.testing.assert_frame_equal(raw, before)


def test_no_runs_give_empty_frames_with_all_columns() -> None:
    summaries = analysis.summarise(pd.DataFrame())
    assert summaries.empty
    assert {"tokens_per_s_low", "n_ok", "n_clean", "work"} <= set(summaries.columns)
    assert analysis.compare(pd.DataFrame()).empty
    assert analysis.describe_steps(pd.DataFrame()).empty


def test_steps_give_the_slowest_over_the_median_of_measured_ones() -> None:
    steps = pd.DataFrame(
        {"run_id": "r", "phase": ["warmup", "measured", "measured", "measured"], "duration_s": [9.0, 1.0, 1.0, 3.0]}
    )
    described = analysis.describe_steps(steps).loc["r"]
    assert (described["measured_steps"], described["slowest_step"]) == (3, 3.0)


def test_of_serving_the_slowest_step_is_a_decode() -> None:
    phases = ["warmup", "warmup", *["prefill", "decode"] * 3]
    steps = pd.DataFrame({"run_id": "r", "phase": phases, "duration_s": [9.0, 9.0, 5.0, 1.0, 0.1, 1.0, 0.1, 2.0]})
    described = analysis.describe_steps(steps).loc["r"]
    assert (described["measured_steps"], described["slowest_step"]) == (3, 2.0)


def test_a_single_run_on_a_side_gives_a_ratio_without_an_interval() -> None:
    comparison = only(analysis.compare(frame(*rates(200.0, 210.0), run(9, backend="hf"))))
    assert comparison["ratio"] == pytest.approx(math.sqrt(200 * 210) / 100)
    assert math.isnan(comparison["low"])
    assert comparison["refused"] == ""


def test_values_without_spread_give_a_ratio_that_is_exact() -> None:
    comparison = only(analysis.compare(frame(*rates(300.0, 300.0), *rates(100.0, 100.0, first=5, backend="hf"))))
    assert (comparison["ratio"], comparison["low"], comparison["high"]) == pytest.approx((3, 3, 3))


def test_backends_of_one_machine_are_compared_the_later_name_above() -> None:
    comparison = only(analysis.compare(frame(*rates(300.0, 310.0), *rates(100.0, 101.0, first=5, backend="hf"))))
    assert (comparison["above_backend"], comparison["below_backend"]) == ("mlx", "hf")
    assert comparison["ratio"] > 2.9
    assert comparison["work"] == "m/lora"
    assert comparison["above_implementation"] == comparison["below_implementation"] == "attention=sdpa"


def test_machines_are_compared_where_the_work_is_equal() -> None:
    comparison = only(analysis.compare(frame(run(0), run(1, machine="two", machine_id="b"))))
    assert (comparison["above_machine"], comparison["below_machine"], comparison["ratio"]) == ("two", "one", 1.0)


def test_implementations_of_one_backend_are_parties_of_their_own() -> None:
    comparison = only(analysis.compare(frame(run(0), run(1, implementation={"attention": "eager"}))))
    assert {comparison["above_implementation"], comparison["below_implementation"]} == {"attention=eager", "attention=sdpa"}


def test_the_order_of_rows_changes_nothing() -> None:
    rows = [*rates(300.0, 310.0, 290.0), *rates(100.0, 101.0, first=5, backend="hf"), run(9, machine="two", machine_id="b")]
    pd.testing.assert_frame_equal(analysis.compare(frame(*rows)), analysis.compare(frame(*reversed(rows))))
    pd.testing.assert_frame_equal(analysis.summarise(frame(*rows)), analysis.summarise(frame(*reversed(rows))))


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"workload_digest": "w2", "batch_size": 4}, "the work differs: batch_size 1 against 4"),
        ({"workload_digest": "w2"}, "the work differs: the architectures are not the same"),
        ({"tokens_digest": "t2"}, "they were given different tokens"),
        ({"tokens_digest": None}, "hf@cpu on one: its tokens were not recorded"),
        ({"trainable_parameters": 65}, "trainable parameters differ by 1.54% (64 against 65)"),
        ({"trainable_parameters": None}, "trainable parameters were not recorded on both sides"),
        ({"warmup_steps": 0}, "they took different numbers of measured steps (10 against 13)"),
        ({"steps": 5}, "they took different numbers of measured steps (10 against 2)"),
        ({"warmup_steps": None}, "hf@cpu on one: its measured steps were not recorded"),
        ({"tokens_per_s": math.inf}, "hf@cpu on one has no clean run (1 ok)"),
        ({"tokens_per_s": 0.0}, "tokens_per_s is not above zero in every run"),
        ({"tokens_per_s": None}, "hf@cpu on one has no clean run (1 ok)"),
        ({"outcome": "oom_host"}, "hf@cpu on one has no clean run (1 oom_host)"),
        ({"flags": ["throttled"]}, "hf@cpu on one has no clean run (1 ok (1 flagged))"),
        ({"tier": "stand-in"}, "hf@cpu on one is stand-in, which says nothing of speed"),
    ],
)
def test_unequal_work_is_refused_with_the_reason_and_never_divided(other: dict[str, Any], reason: str) -> None:
    comparison = only(analysis.compare(frame(run(0), run(1, backend="hf", **other))))
    assert comparison["refused"] == reason
    assert math.isnan(comparison["ratio"])
    assert math.isnan(comparison["low"])


@pytest.mark.parametrize(("count", "allowed"), [(100_100, True), (100_101, False)])
def test_trainable_parameters_may_differ_by_a_thousandth(count: int, allowed: bool) -> None:
    rows = frame(run(0, trainable_parameters=100_000), run(1, backend="hf", trainable_parameters=count))
    assert (only(analysis.compare(rows))["refused"] == "") is allowed


def test_repeats_that_were_given_different_tokens_are_refused() -> None:
    rows = frame(run(0), run(1, tokens_digest="t2"), run(2, backend="hf"))
    assert only(analysis.compare(rows))["refused"] == "mlx@cpu on one: its runs were given different tokens"


def test_equal_work_under_other_names_is_compared() -> None:
    assert only(analysis.compare(frame(run(0), run(1, backend="hf", cell="alias/lora/hf@cpu"))))["ratio"] == 1.0


def test_a_pair_with_some_equal_work_is_not_refused_for_the_rest() -> None:
    rows = [run(0), run(1, backend="hf"), run(2, backend="hf", workload_digest="w2", batch_size=4)]
    assert only(analysis.compare(frame(*rows)))["refused"] == ""


def test_pairs_without_any_clean_run_are_left_to_the_holes() -> None:
    assert analysis.compare(frame(run(0, outcome="skipped"), run(1, backend="hf", outcome="skipped"))).empty


def test_another_metric_can_be_compared_and_an_unknown_one_cannot() -> None:
    rows = frame(run(0, framework_peak_bytes=30), run(1, backend="hf", framework_peak_bytes=10))
    assert only(analysis.compare(rows, "framework_peak_bytes"))["ratio"] == pytest.approx(3)
    with pytest.raises(KeyError):
        analysis.compare(rows, "beauty")


def test_repeats_of_other_numbers_of_steps_are_shown_and_not_compared() -> None:
    rows = frame(run(0), run(1, steps=5, flags=["cold"]), run(2, warmup_steps=0, steps=2), run(3, backend="hf"))
    summary = analysis.summarise(rows).set_index("backend").loc["mlx"]
    assert (summary["step_counts"], summary["warmups"]) == ((2.0, 10.0), (0.0, 3.0))
    assert only(analysis.compare(rows))["refused"] == (
        "mlx@cpu on one: its runs took different numbers of measured steps (2, 10)"
    )


def test_warm_ups_of_other_lengths_are_shown_and_compared() -> None:
    rows = frame(run(0), run(1, warmup_steps=7, steps=17), run(2, backend="hf", warmup_steps=4, steps=14))
    assert analysis.summarise(rows).set_index("backend").loc["mlx", "warmups"] == (3.0, 7.0)
    assert only(analysis.compare(rows))["refused"] == ""


@pytest.mark.parametrize(
    ("flag", "kinds"),
    [
        ("throttled", ("memory",)),
        ("untracked-memory", ("time", "energy")),
        ("short-energy-window", ("time", "memory")),
        ("swapped", ()),
        ("no flag of ours", ()),
    ],
)
def test_a_flag_spoils_its_kinds_of_figures_and_no_others(flag: str, kinds: tuple[str, ...]) -> None:
    measured = {"tokens_per_s": 90.0, "framework_peak_bytes": 7, "j_per_token": 2.0, "power_scope": "soc"}
    summary = only(analysis.summarise(frame(run(0, flags=[flag], **measured))))
    figures = {"time": "tokens_per_s", "memory": "framework_peak_bytes", "energy": "j_per_token"}
    counts = {"time": "n_clean", "memory": "n_clean_memory", "energy": "n_clean_energy"}
    assert tuple(kind for kind, name in figures.items() if not math.isnan(summary[name])) == kinds
    assert tuple(kind for kind, name in counts.items() if summary[name]) == kinds
    assert (summary["n_flagged"], summary["flags"]) == (1, (flag,))


def test_the_flags_of_runs_that_failed_are_not_a_cells() -> None:
    assert only(analysis.summarise(frame(run(0, outcome="crashed", flags=["slept"]))))["flags"] == ()


def test_memory_is_compared_where_only_times_are_spoilt() -> None:
    rows = [run(0, framework_peak_bytes=30, flags=["throttled"]), run(1, backend="hf", framework_peak_bytes=10)]
    assert only(analysis.compare(frame(*rows), "framework_peak_bytes"))["ratio"] == pytest.approx(3)
    assert only(analysis.compare(frame(*rows)))["refused"] == "mlx@cpu on one has no clean run (1 ok (1 flagged))"


def test_energy_is_compared_in_one_scope_only() -> None:
    rows = [run(0, j_per_token=3.0, power_scope="soc"), run(1, backend="hf", j_per_token=1.0, power_scope="soc")]
    assert only(analysis.compare(frame(*rows), "j_per_token"))["ratio"] == pytest.approx(3)
    other = {**rows[1], "power_scope": "gpu-board"}
    refused = only(analysis.compare(frame(rows[0], other), "j_per_token"))
    assert refused["refused"] == "the figures cover different things (soc against gpu-board)"
    assert math.isnan(refused["ratio"])
    unlabelled = {**rows[1], "power_scope": None}
    assert "was not recorded" in only(analysis.compare(frame(rows[0], unlabelled), "j_per_token"))["refused"]


def test_figures_of_several_scopes_are_not_pooled() -> None:
    peaks = [run(0, device_peak_bytes=7, device_peak_scope="process", host_peak_bytes=3)]
    peaks += [run(1, device_peak_bytes=9, device_peak_scope="device-less-before", host_peak_bytes=3)]
    summary = only(analysis.summarise(frame(*peaks)))
    assert math.isnan(summary["device_peak_bytes"])
    assert (summary["host_peak_bytes"], summary["device_peak_scopes"]) == (3, ("device-less-before", "process"))
    assert only(analysis.summarise(frame(peaks[0])))["device_peak_bytes"] == 7


def test_a_rate_that_stands_apart_is_marked_and_kept() -> None:
    rows = rates(100.0, 101.0, 99.0, 100.5, 99.5, 140.0)
    summary = only(analysis.summarise(frame(*rows)))
    assert summary["outlier_runs"] == ("r005",)
    assert summary["n_clean"] == 6
    assert summary["tokens_per_s"] == pytest.approx(stats.gmean([row["tokens_per_s"] for row in rows]))
    assert list(analysis.prepare(frame(*rows))["stands_apart"]) == [False] * 5 + [True]


def test_four_rates_or_a_flagged_one_say_nothing_of_outliers() -> None:
    assert only(analysis.summarise(frame(*rates(100.0, 101.0, 99.0, 140.0))))["outlier_runs"] == ()
    flagged = run(9, tokens_per_s=10.0, flags=["throttled"])
    assert only(analysis.summarise(frame(*rates(100.0, 101.0, 99.0, 100.5, 99.5), flagged)))["outlier_runs"] == ()


def test_from_ten_runs_the_interval_is_the_one_of_ten() -> None:
    values = list(np.exp(np.random.default_rng(4).normal(4, 0.1, 12)))
    summary = only(analysis.summarise(frame(*rates(*values))))
    assert (summary["tokens_per_s_low"], summary["tokens_per_s_high"]) == pytest.approx(interval(values)[1:])


def test_a_run_stored_twice_counts_once_and_is_named() -> None:
    rows = [run(0), run(1, tokens_per_s=120.0)]
    copied = frame(*({**row, "machine": "two"} for row in rows), *rows, run(2, machine="two", machine_id="b"))
    assert list(analysis.prepare(copied)["machine"]) == ["one", "one", "two"]
    assert analysis.copies(copied).to_dict("list") == {"machine": ["two", "two"], "run_id": ["r000", "r001"]}
    assert only(analysis.compare(copied))["n_below"] == 2
    assert analysis.compare(copied[:4]).empty
    assert analysis.copies(frame(*rows)).empty
    assert len(analysis.prepare(frame(run(0, run_id=None), run(1, run_id=None)))) == 2


def test_numbers_that_are_not_finite_were_not_measured() -> None:
    odd = {"tokens_per_s": math.inf, "load_s": -math.inf, "step_s_median": math.nan, "parameters": math.inf}
    rows = frame(run(0, load_s=2.0, step_s_median=1.0), run(1, **odd))
    summary = only(analysis.summarise(rows))
    assert (summary["n_clean"], summary["tokens_per_s"], summary["load_s"], summary["parameters"]) == (2, 100.0, 2.0, 1000.0)
    assert math.isnan(summary["tokens_per_s_low"])


@pytest.mark.parametrize("year", [1, 1600, 9999])
def test_times_beyond_what_nanoseconds_count_stay_and_sort(year: int) -> None:
    odd = run(0, started_at=datetime(year, 1, 1, tzinfo=UTC))
    assert sorted(analysis.prepare(frame(odd, run(1)))["started_at"].dt.year) == sorted([year, 2026])


def test_times_beyond_the_calendar_are_none() -> None:
    rows = frame(run(0), run(1)).assign(started_at=pd.Series([2**62, 0]).astype("datetime64[us, UTC]"))
    assert list(analysis.prepare(rows)["started_at"].isna()) == [False, True]


HELD = {"flags": ["limited"], "capacity_bytes": 24_000_000_000}


def test_limits_a_byte_apart_and_stand_ins_for_two_machines_are_told_apart() -> None:
    like = {**HELD, "tier": "stand-in"}
    rows = [
        run(0, **HELD),
        run(1, **{**HELD, "capacity_bytes": 24_000_000_001}),
        run(2, **like, device_settings=[("memory_like", "one-card")]),
        run(3, **like, device_settings=[("memory_like", "another")]),
    ]
    assert sorted(analysis.summarise(frame(*rows))["tier"]) == [
        "measured, held to 24 GB",
        "measured, held to 24.000000001 GB",
        "stand-in, held to 24 GB as another",
        "stand-in, held to 24 GB as one-card",
    ]


def test_runs_under_a_limit_are_neither_averaged_nor_compared_with_others() -> None:
    rows = [
        run(0, framework_peak_bytes=10),
        run(1, framework_peak_bytes=20, **HELD),
        run(2, framework_peak_bytes=30, **{**HELD, "capacity_bytes": 12_000_000_000}),
        run(3, framework_peak_bytes=40, tier="stand-in", **HELD),
        run(4, outcome="over_limit", **HELD),
    ]
    summaries = analysis.summarise(frame(*rows)).set_index("tier")
    assert dict(summaries["framework_peak_bytes"]) == {
        "measured": 10,
        "measured, held to 24 GB": 20,
        "measured, held to 12 GB": 30,
        "stand-in, held to 24 GB": 40,
    }
    assert dict(summaries["n_over_limit"]) == {
        "measured": 0,
        "measured, held to 24 GB": 1,
        "measured, held to 12 GB": 0,
        "stand-in, held to 24 GB": 0,
    }
    assert math.isnan(summaries.loc["measured, held to 24 GB", "tokens_per_s"])
    prepared = analysis.prepare(frame(*rows))
    pd.testing.assert_frame_equal(analysis.prepare(prepared), prepared)
    assert set(analysis.compare(frame(*rows))["refused"]) <= {
        f"mlx@cpu on one is {tier}, which says nothing of speed" for tier in summaries.index if tier != "measured"
    }
