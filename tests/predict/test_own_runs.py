"""Our own runs become observations of the very cell that ran."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench import store
from bench.model import model_from_config
from bench.predict.own_runs import own_runs
from bench.record import Run, workload_columns
from bench.spec import workload

Make = Callable[..., Run]
GOOD = {
    "machine": "pc-rtx-4090",
    "device": "cuda",
    "tier": "measured",
    "tokens_per_s": 1234.5,
    "framework_peak_bytes": 5 * 10**9,
    "implementation": {"attention": "flash", "optimizer_kernel": "foreach", "loss": "trl", "compile": "false"},
}


def test_the_cell_comes_back_with_its_figures(tmp_path: Path, make_run: Make) -> None:
    store.append(tmp_path, make_run(**GOOD))
    (found,) = own_runs(tmp_path).observations
    (cell,) = found.cells
    assert cell.workload.digest == make_run().workload_digest
    assert (cell.implementation.attention, cell.implementation.optimizer_kernel, cell.implementation.compile) == (
        "flash",
        "foreach",
        False,
    )
    assert (found.stated, found.meter, found.peak_bytes, found.tokens_per_s) == (True, "allocated", 5 * 10**9, 1234.5)
    assert (found.family, found.machine and found.machine.name) == ("own-0123", "pc-rtx-4090")


def test_rates_of_stand_ins_of_processors_and_of_spoilt_runs_are_not_used(tmp_path: Path, make_run: Make) -> None:
    for number, change in enumerate(({"tier": "stand-in"}, {"device": "cpu"}, {"flags": ("thermal-throttle",)})):
        store.append(tmp_path, make_run(f"run-{number}", **{**GOOD, **change}))
    own = own_runs(tmp_path)
    assert [found.tokens_per_s for found in own.observations] == [None, None, None]
    assert ("rate", "flagged thermal-throttle") in own.unused
    assert ("rate", "tier stand-in: evidence of memory alone") in own.unused
    assert ("peak", "hf on the cpu counts no peak of its own") in own.unused


def test_of_a_nightly_cell_the_last_night_counts(tmp_path: Path, make_run: Make) -> None:
    for night in ("2026-03-01", "2026-03-02", None):
        store.append(tmp_path, make_run(f"run-{night}", **GOOD, night=night))
    own = own_runs(tmp_path)
    assert [found.id for found in own.observations] == ["run-2026-03-02", "run-None"]
    assert (own.unused, own.runs) == ((("run", "an earlier night of its cell: the last one counts"),), 3)


def test_a_flag_spoils_its_own_figure_alone(tmp_path: Path, make_run: Make) -> None:
    store.append(tmp_path, make_run("run-1", **{**GOOD, "flags": ("unsteady", "cpu-contention")}))
    store.append(tmp_path, make_run("run-2", **{**GOOD, "flags": ("growing",)}))
    unsteady, growing = own_runs(tmp_path).observations
    assert (unsteady.peak_bytes, unsteady.tokens_per_s) == (5 * 10**9, None)
    assert (growing.peak_bytes, growing.tokens_per_s) == (None, 1234.5)


def test_a_run_out_of_memory_says_that_it_does_not_fit(tmp_path: Path, make_run: Make) -> None:
    store.append(tmp_path, make_run(**{**GOOD, "outcome": "oom_device", "capacity_bytes": 24 * 10**9}))
    (found,) = own_runs(tmp_path).observations
    assert (found.outcome, found.peak_bytes, found.tokens_per_s, found.capacity_bytes) == ("oom", None, None, 24 * 10**9)


def test_other_outcomes_and_the_fake_prove_nothing(tmp_path: Path, make_run: Make) -> None:
    store.append(tmp_path, make_run("run-1", **{**GOOD, "outcome": "crashed"}))
    store.append(tmp_path, make_run("run-2", **{**GOOD, "backend": "fake"}))
    own = own_runs(tmp_path)
    assert (own.observations, own.runs) == ((), 2)
    assert own.unused == (("run", "outcome crashed: no measurement"), ("run", "backend fake: it does not train"))


def test_serving_has_a_peak_and_no_rate_of_a_step(tmp_path: Path, make_run: Make) -> None:
    config = model_from_config("m", make_config())
    work = workload(model=config, method="serve")
    store.append(tmp_path, make_run(**{**GOOD, "workload": workload_columns(work)}))
    (found,) = own_runs(tmp_path).observations
    assert found.peak_bytes is not None
    assert found.tokens_per_s is None


def make_config() -> dict[str, object]:
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 256}
    return {"model_type": "llama", **sizes}
