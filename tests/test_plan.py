import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import holes
from bench.catalog import catalogue
from bench.estimate import IMPORT_S
from bench.holes import Hole, hole, refusal
from bench.plan import describe, plan
from bench.predict.prediction import Prediction, Speed
from bench.predict.rules import uncalibrated
from bench.record import FAILED_OUTCOMES, Gpu, Machine
from bench.spec import BadInput, Cell, Device, Exclusion, Measure, Suite

CPU = Machine(
    name="box",
    machine_id="0",
    system="Linux",
    architecture="x86_64",
    os_version="Test OS",
    chip="Test Chip",
    cpu_cores=2,
    memory_bytes=2**34,
)
PC = replace(CPU, name="pc", gpus=(Gpu("NVIDIA GeForce RTX 4090", 2**34),), devices=("cuda", "cpu"))
MAC = replace(CPU, name="mac", system="Darwin", devices=("metal", "mps", "cpu"))


class Stub:
    """A backend that can do everything but serve."""

    extras: Mapping[Device, str] = {}
    devices = ("cuda", "cpu")

    def missing(self, device: Device) -> list[str]:
        return []

    def refuses(self, cell: Cell) -> str | None:
        return "it does not serve" if cell.workload.method == "serve" else None


class StubMlx(Stub):
    devices = ("metal", "cpu")
    extras: Mapping[Device, str] = {"metal": "mac", "cpu": "cpu"}

    def missing(self, device: Device) -> list[str]:
        return ["no_such_package", "nor_this_one"]


@pytest.fixture(autouse=True)
def stubs(monkeypatch):
    monkeypatch.setattr(holes, "load_backend", lambda name: {"hf": Stub, "mlx": StubMlx}[name]())


def suite(*, repeats: int = 3, seed: int = 0, exclude: tuple[Exclusion, ...] = (), **sweep) -> Suite:
    sweep = {"model": ("tiny-llama-xs", "tiny-llama-s"), "method": ("full", "lora"), "backend": ("hf",)} | sweep
    models = catalogue().models
    return Suite(
        name="s",
        question="Q?",
        sweep=tuple(sweep.items()),
        models=tuple((name, models[name]) for name in sweep["model"]),
        exclude=exclude,
        repeats=repeats,
        measure=Measure(order_seed=seed),
    )


def able(cell: Cell, machine: Machine) -> None:
    return None


def only_entry(declared: Suite, tally: dict, machine: Machine = CPU, **options):
    """The one entry of a suite of one cell that has these outcomes behind it."""
    key = plan(declared, machine, {}, capabilities=able).entries[0].cell.key
    (entry,) = plan(declared, machine, {key: Counter(tally)}, **options).entries
    return entry


ONE = suite(model=("tiny-llama-xs",), method=("lora",))


def test_every_cell_is_an_entry_in_the_suites_order():
    planned = plan(suite(), CPU, {})
    assert [entry.cell.id for entry in planned.entries] == [
        "tiny-llama-xs/full/hf@cpu",
        "tiny-llama-xs/lora/hf@cpu",
        "tiny-llama-s/full/hf@cpu",
        "tiny-llama-s/lora/hf@cpu",
    ]
    assert {(entry.action, entry.missing) for entry in planned.entries} == {("run", 3)}


def test_repeats_are_interleaved_across_cells():
    order = [cell.id for cell in plan(suite(), CPU, {}).order]
    rounds = [order[start : start + 4] for start in range(0, 12, 4)]
    assert len(order) == 12
    assert [sorted(each) for each in rounds] == [sorted(rounds[0])] * 3
    assert len({tuple(each) for each in rounds}) > 1


def test_the_order_hangs_on_the_seed_alone():
    orders = [[cell.id for cell in plan(suite(seed=seed), CPU, {}).order] for seed in (0, 0, 1)]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), done=st.lists(st.integers(0, 4), min_size=4, max_size=4), repeats=st.integers(1, 4))
def test_no_cell_runs_again_before_all_that_still_miss_as_many_have_run(seed, done, repeats):
    declared = suite(seed=seed, repeats=repeats)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(holes, "load_backend", lambda name: Stub())
        keys = [entry.cell.key for entry in plan(declared, CPU, {}).entries]
        planned = plan(declared, CPU, {key: Counter(ok=count) for key, count in zip(keys, done, strict=True)})
    assert Counter(cell.key for cell in planned.order) == {
        entry.cell.key: entry.missing for entry in planned.entries if entry.missing
    }
    assert [entry.missing for entry in planned.entries] == [max(0, repeats - count) for count in done]
    seen: Counter[str] = Counter()
    rounds = []
    for cell in planned.order:
        seen[cell.key] += 1
        rounds.append(seen[cell.key])
    assert rounds == sorted(rounds)


@pytest.mark.parametrize(
    ("tally", "action", "missing"),
    [
        ({}, "run", 3),
        ({"ok": 1}, "run", 2),
        ({"ok": 3}, "done", 0),
        ({"ok": 4}, "done", 0),
        ({"oom_device": 2, "oom_host": 1}, "done", 0),
        ({"unsupported": 3}, "done", 0),
        ({"ok": 2, "over_limit": 1}, "done", 0),
        ({"ok": 2, "crashed": 1}, "run", 1),
        ({"interrupted": 9}, "run", 3),
        ({"skipped": 1}, "run", 3),
        ({"crashed": 1}, "run", 3),
    ],
)
def test_a_cell_is_done_when_it_has_been_answered_often_enough(tally, action, missing):
    entry = only_entry(ONE, tally)
    assert (entry.action, entry.missing, entry.reason) == (action, missing, None)


def test_more_repeats_may_be_asked_for():
    assert only_entry(ONE, {"ok": 3}, repeats=5).missing == 2


@pytest.mark.parametrize("outcome", sorted(FAILED_OUTCOMES))
def test_a_cell_that_failed_twice_is_left_with_the_way_to_try_again(outcome):
    entry = only_entry(ONE, {outcome: 2, "ok": 1})
    assert (entry.action, entry.missing) == ("done", 0)
    assert entry.reason == f"failed 2 times (2 × {outcome}); --no-resume tries again"


def test_failures_of_different_kinds_add_up():
    assert (
        only_entry(ONE, {"timeout": 1, "crashed": 1}).reason
        == "failed 2 times (1 × crashed, 1 × timeout); --no-resume tries again"
    )


def test_an_exclusion_is_a_hole_with_its_reason():
    declared = suite(exclude=(Exclusion((("method", "full"), ("model", "tiny-llama-s")), "1.2 TB"),))
    planned = plan(declared, CPU, {})
    assert [(entry.action, entry.reason) for entry in planned.entries] == [
        ("run", None),
        ("run", None),
        ("skip", "1.2 TB"),
        ("run", None),
    ]
    assert len(planned.order) == 9


def test_what_a_backend_refuses_is_a_hole_wherever_it_runs():
    entry = only_entry(suite(model=("tiny-llama-xs",), method=("serve",)), {})
    assert (entry.action, entry.reason, entry.refused) == ("skip", "it does not serve", True)


def test_what_this_environment_lacks_is_a_hole_with_the_remedy():
    entry = only_entry(suite(model=("tiny-llama-xs",), method=("lora",), backend=("mlx",)), {}, MAC)
    assert entry.cell.device == "metal"
    assert (
        entry.reason
        == "mlx is not installed in this environment: no_such_package, nor_this_one are missing; pip install '.[mac]'"
    )
    assert not entry.refused


def test_results_made_in_another_environment_count_in_this_one():
    assert only_entry(suite(model=("tiny-llama-xs",), method=("lora",), backend=("mlx",)), {"ok": 3}, MAC).action == "done"


def test_a_device_that_is_not_here_is_a_hole():
    entry = only_entry(suite(model=("tiny-llama-xs",), method=("lora",), backend=("hf@cuda",)), {})
    assert (entry.action, entry.reason, entry.refused) == ("skip", "box has no cuda; it has cpu", False)


def test_a_device_that_the_backend_has_not_is_refused():
    entry = only_entry(suite(model=("tiny-llama-xs",), method=("lora",), backend=("mlx@mps",)), {}, MAC)
    assert (entry.reason, entry.refused) == ("mlx does not run on mps; use mlx@metal, mlx@cpu", True)


def test_a_plan_for_another_machine_asks_nothing_of_this_environment():
    (entry,) = plan(suite(model=("tiny-llama-xs",), method=("lora",), backend=("mlx",)), MAC, {}, capabilities=refusal).entries
    assert entry.action == "run"
    assert hole(entry.cell, MAC) is not None


def test_only_takes_the_cells_whose_id_matches():
    planned = plan(suite(), CPU, {}, only="*/lora/*")
    assert [entry.cell.id for entry in planned.entries] == ["tiny-llama-xs/lora/hf@cpu", "tiny-llama-s/lora/hf@cpu"]


def test_an_only_that_matches_nothing_names_what_is_near():
    with pytest.raises(BadInput) as caught:
        plan(suite(), CPU, {}, only="tiny-lama-s/lora")
    assert str(caught.value).startswith(
        '--only "tiny-lama-s/lora" matches none of the 4 cells of s; near it: tiny-llama-s/lora/hf@cpu'
    )


def test_an_empty_only_is_shown_as_it_was_given():
    with pytest.raises(BadInput, match='--only "" matches none of the 4 cells of s'):
        plan(suite(), CPU, {}, only="")


def test_a_reason_reaches_no_terminal_unescaped():
    planned = plan(suite(exclude=(Exclusion((("method", "full"),), "too\x1b[2J\nlarge"),)), CPU, {})
    assert describe(planned).splitlines()[0] == "skip  tiny-llama-xs/full/hf@cpu: too\\x1b[2J\\nlarge"
    assert planned.to_json()["cells"][0]["reason"] == "too\x1b[2J\nlarge"


def test_a_capability_of_ones_own_decides():
    planned = plan(suite(), CPU, {}, capabilities=lambda cell, machine: Hole(reason=f"not {cell.workload.method}", remedy="rest"))
    assert {entry.reason for entry in planned.entries} == {"not full; rest", "not lora; rest"}
    assert planned.order == ()


def test_the_json_document_has_the_contracts_keys():
    declared = suite(exclude=(Exclusion((("method", "full"),), "too large"),))
    done = {plan(declared, CPU, {}).entries[1].cell.key: Counter(ok=3)}
    document = plan(declared, CPU, done).to_json()
    counts = {"run": 1, "skip": 2, "done": 1, "runs": 3}
    assert document["totals"] == counts | {"duration_s": None, "unknown_runs": 3, "disk_bytes": 3 * (25_000 + 15 * 60)}
    first, _, _, last = document["cells"]
    assert {name: first[name] for name in ("cell", "model", "method", "backend", "device", "action", "reason", "predicted")} == {
        "cell": "tiny-llama-xs/full/hf@cpu",
        "model": "tiny-llama-xs",
        "method": "full",
        "backend": "hf",
        "device": "cpu",
        "action": "skip",
        "reason": "too large",
        "predicted": None,
    }
    assert (last["action"], last["missing"]) == ("run", 3)
    assert len({cell["workload_digest"] for cell in document["cells"]}) == 4


def test_the_plan_is_described_line_by_line():
    text = describe(plan(suite(exclude=(Exclusion((("method", "full"),), "too large"),)), CPU, {}))
    assert text.splitlines() == [
        "skip  tiny-llama-xs/full/hf@cpu: too large",
        "run   tiny-llama-xs/lora/hf@cpu × 3",
        "skip  tiny-llama-s/full/hf@cpu: too large",
        "run   tiny-llama-s/lora/hf@cpu × 3",
        "6 runs of 2 cells to make; 0 cells done, 2 skipped",
        "how long they take is not known yet; 0.155 MB of results and weights",
    ]


def test_the_totals_tell_what_the_missing_runs_take():
    cells = [entry.cell for entry in plan(suite(), CPU, {}).entries]
    durations = {cells[0].key: [100.0], cells[1].key: [10.0, 30.0, 20.0]}
    planned = plan(suite(), CPU, {cells[0].key: Counter(ok=2)}, durations=durations)
    assert planned.totals["duration_s"] == 1 * 100 + 3 * 20
    assert planned.totals["unknown_runs"] == 6
    assert describe(planned).splitlines()[-1].startswith("roughly 2.7 minutes, without 6 runs of which nothing is known")


def test_where_nothing_is_known_the_plan_says_so():
    assert describe(plan(suite(), CPU, {})).splitlines()[-1] == (
        "how long they take is not known yet; 0.311 MB of results and weights"
    )


def test_a_plan_of_nothing_takes_nothing():
    planned = plan(suite(), CPU, {}, capabilities=lambda cell, machine: Hole(reason="no"))
    assert (planned.totals["duration_s"], planned.totals["disk_bytes"]) == (0, 0)
    assert describe(planned).splitlines()[-1].startswith("0 runs")


def test_a_catalogue_machine_has_rates_to_guess_by():
    declared = suite(model=("llama-3.1-8b",), method=("lora",))
    planned = plan(declared, replace(PC, name="pc-rtx-4090"), {})
    assert 60 < planned.totals["duration_s"] < 1200
    assert "good to a factor of 2 or 3" in describe(planned)


def test_globs_joined_by_an_ampersand_must_all_match():
    found = plan(suite(), CPU, {}, only="tiny-llama-s/*&*/full/*").entries
    assert [entry.cell.id for entry in found] == ["tiny-llama-s/full/hf@cpu"]


def test_a_rung_whose_package_is_missing_is_a_hole_with_its_remedy(monkeypatch):
    monkeypatch.setattr(holes, "optional_missing", lambda cell: (("flash_attn", "install it"),))
    (entry,) = plan(ONE, PC, {}).entries
    assert (entry.action, entry.refused) == ("skip", False)
    assert entry.reason == "flash_attn is not installed in this environment; install it"


def told(fits: dict[str, float]) -> Callable[[Cell], Prediction | None]:
    """Predictions of what fits, by model name; a rate for all."""

    def foretell(cell: Cell) -> Prediction | None:
        probability = fits.get(cell.workload.model.name)
        if probability is None:
            return None
        rate = cell.workload.tokens_per_step / 4
        seconds = {"forward": 1.0, "backward": 3.0}
        speed = Speed(tokens_per_s=rate, tokens_per_s_low=rate / 2, tokens_per_s_high=rate * 2, seconds=seconds)
        return Prediction(memory=uncalibrated(cell), speed=speed, capacity_bytes=10**9, fit_probability=probability)

    return foretell


def test_what_cannot_fit_is_skipped_with_what_it_needs_and_what_there_is():
    planned = plan(suite(method=("lora",)), CPU, {}, foretell=told({"tiny-llama-s": 0.1, "tiny-llama-xs": 0.9}))
    fits, refused = planned.entries
    assert (fits.action, fits.reason) == ("run", None)
    assert (refused.action, refused.missing, refused.refused) == ("skip", 0, False)
    words = r"needs about .* GB \(.* to .*\) by prediction, and this machine gives a process 1 GB; .*"
    assert re.fullmatch(words, refused.reason)
    assert {cell.workload.model.name for cell in planned.order} == {"tiny-llama-xs"}


def test_it_is_tried_anyway_where_somebody_wants_to_see_it_fail():
    planned = plan(suite(method=("lora",)), CPU, {}, foretell=told({"tiny-llama-s": 0.0}), try_anyway=True)
    assert [entry.action for entry in planned.entries] == ["run", "run"]
    assert planned.order[-1].workload.model.name == "tiny-llama-s"


def test_a_run_that_ended_well_outweighs_a_prediction():
    declared = suite(model=("tiny-llama-s",), method=("lora",))
    key = plan(declared, CPU, {}).entries[0].cell.key
    (entry,) = plan(declared, CPU, {key: Counter(ok=1)}, foretell=told({"tiny-llama-s": 0.0})).entries
    assert (entry.action, entry.missing) == ("run", 2)


def test_so_does_one_of_an_earlier_night():
    declared = suite(model=("tiny-llama-s",), method=("lora",))
    key = plan(declared, CPU, {}).entries[0].cell.key
    (entry,) = plan(declared, CPU, {}, durations={key: [9.0]}, foretell=told({"tiny-llama-s": 0.0})).entries
    assert entry.action == "run"


@pytest.mark.parametrize("seed", range(4))
def test_what_may_not_fit_comes_last_in_each_round_and_the_rest_keeps_its_order(seed):
    declared = suite(seed=seed, repeats=2)
    plain = [cell.key for cell in plan(declared, CPU, {}).order]
    doubted = plan(declared, CPU, {}, foretell=told({"tiny-llama-xs": 0.5, "tiny-llama-s": 0.95})).order
    for first in (0, 4):
        names = [cell.workload.model.name for cell in doubted[first : first + 4]]
        assert names == ["tiny-llama-s"] * 2 + ["tiny-llama-xs"] * 2
        sure = [cell.key for cell in doubted[first : first + 2]]
        assert sure == [key for key in plain[first : first + 4] if key in sure]


def test_without_a_capacity_nothing_is_skipped():
    def foretell(cell: Cell) -> Prediction:
        return Prediction(memory=uncalibrated(cell), speed=Speed(), capacity_bytes=None, fit_probability=None)

    planned = plan(suite(), CPU, {}, foretell=foretell)
    assert {entry.action for entry in planned.entries} == {"run"}
    assert [cell.key for cell in planned.order] == [cell.key for cell in plan(suite(), CPU, {}).order]


def test_predictions_stand_in_the_document_and_in_the_lines():
    planned = plan(suite(method=("lora",)), CPU, {}, foretell=told({"tiny-llama-s": 0.95}))
    first, second = planned.to_json()["cells"]
    assert first["predicted"] is None
    assert (second["predicted"]["fits"], second["predicted"]["fit_probability"]) == ("yes", 0.95)
    assert "fits: yes (0.95), 512 tokens/s (256 to 1,020)]" in describe(planned).splitlines()[1]


def test_predicted_steps_tell_how_long_a_plan_takes():
    declared = suite(model=("llama-3.1-8b",), method=("lora",))
    pc = replace(PC, name="pc-rtx-4090")
    (cell,) = {cell.key: cell for cell in plan(declared, pc, {}).order}.values()
    ways = (None, told({"llama-3.1-8b": 1.0}))
    plain, slow = (plan(declared, pc, {}, foretell=foretell).estimates[cell.key] for foretell in ways)
    steps = min(declared.measure.warmup_max_steps, declared.measure.warmup_steps + 3) + declared.measure.steps
    assert slow.duration_s - plain.duration_s == pytest.approx(steps * 4.0 - (plain.duration_s - 15 - 2 * 8_030_261_248 / 1e9))


def test_what_will_not_fit_is_taken_to_end_while_it_loads():
    declared = suite(model=("llama-3.1-8b",), method=("lora",))
    pc = replace(PC, name="pc-rtx-4090")
    planned = plan(declared, pc, {}, foretell=told({"llama-3.1-8b": 0.0}), try_anyway=True)
    (found,) = planned.estimates.values()
    assert found.duration_s == pytest.approx(IMPORT_S + 2 * 8_030_261_248 / 1e9)


def test_why_no_speed_is_predicted_is_said_once():
    def foretell(cell: Cell) -> Prediction:
        speed = Speed(notes=("no rates are known: measure them",))
        return Prediction(memory=uncalibrated(cell), speed=speed, capacity_bytes=None, fit_probability=None)

    lines = describe(plan(suite(), CPU, {}, foretell=foretell)).splitlines()
    assert lines.count("no rates are known: measure them") == 1
    assert "no rates" not in describe(plan(suite(), CPU, {}, foretell=told({"tiny-llama-s": 1.0, "tiny-llama-xs": 1.0})))
