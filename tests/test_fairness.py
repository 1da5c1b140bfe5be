"""Two sides that may or may not be divided by one another."""

from __future__ import annotations

from dataclasses import replace

from bench.fairness import Side, refusal

KEY = {"tier": "measured", "machine": "one", "backend": "mlx", "device": "cpu", "implementation": "", "work": "m/lora"}
SIDE = Side(
    key={**KEY, "workload_digest": "w1"},
    parameters=1000.0,
    declared={"batch_size": 1.0, "modules": None},
    values=(1.0,),
    outcomes="1 ok",
    tokens_digests=("t1",),
    trainable_parameters=(64.0,),
    step_counts=(10.0,),
)


def test_equal_work_is_not_refused() -> None:
    assert refusal(SIDE, replace(SIDE, key={**SIDE.key, "backend": "hf"})) is None


def test_every_declared_difference_is_named() -> None:
    other = replace(SIDE, key={**SIDE.key, "workload_digest": "w2"}, declared={"batch_size": 4.0, "modules": "q_proj"})
    assert refusal(SIDE, other) == "the work differs: batch_size 1 against 4; modules None against q_proj"


def test_unequal_work_is_the_first_reason_given() -> None:
    other = replace(SIDE, key={**SIDE.key, "workload_digest": "w2"}, values=(), tokens_digests=())
    assert (refusal(SIDE, other) or "").startswith("the work differs")


def test_a_side_without_trainable_parameters_at_all_is_no_ground_to_divide() -> None:
    assert refusal(SIDE, replace(SIDE, trainable_parameters=(0.0,))) == "trainable parameters differ by 100.00% (0 against 64)"
    assert refusal(replace(SIDE, trainable_parameters=(0.0,)), replace(SIDE, trainable_parameters=(0.0,))) is None


def test_of_serving_no_trainable_parameters_are_asked_for_and_requests_are_counted() -> None:
    served = replace(SIDE, key={**SIDE.key, "method": "serve"}, trainable_parameters=())
    assert refusal(served, replace(served, trainable_parameters=(0.0,))) is None
    assert refusal(served, replace(served, tokens_digests=("t2",))) == "they were given different tokens"
    other = replace(served, step_counts=(2.0,))
    assert refusal(served, other) == "they took different numbers of measured requests (10 against 2)"


def test_other_numbers_of_measured_steps_are_refused() -> None:
    def refused(*counts: float) -> str | None:
        return refusal(SIDE, replace(SIDE, step_counts=counts))

    assert refused(10.0) is None
    assert refused(2.0) == "they took different numbers of measured steps (10 against 2)"
    assert refused(2.0, 10.0) == "mlx@cpu on one: its runs took different numbers of measured steps (2, 10)"
    assert refused() == "mlx@cpu on one: its measured steps were not recorded"


def test_figures_of_other_scopes_are_refused() -> None:
    def refused(above: tuple[str, ...], below: tuple[str, ...]) -> str | None:
        return refusal(replace(SIDE, scopes=above), replace(SIDE, scopes=below))

    assert refused(("soc",), ("soc",)) is None
    assert refused(("soc",), ("gpu-board",)) == "the figures cover different things (soc against gpu-board)"
    assert refused(("soc", "wall"), ("soc",)) == "mlx@cpu on one: its figures cover different things (soc, wall)"
    assert refused(("soc",), ()) == "mlx@cpu on one: what its figures cover was not recorded"


def test_a_party_is_named_by_backend_device_and_machine() -> None:
    assert SIDE.who == "mlx@cpu on one"
    assert SIDE.party == ("measured", "one", "mlx", "cpu", "")
