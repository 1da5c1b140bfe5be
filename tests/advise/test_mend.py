"""What would make a work fit: single changes, combinations, and what is lacking where nothing helps."""

from __future__ import annotations

import pandas as pd
import pytest
from advised import MAC, PC, machine, model, needs, world

from bench.advise.mend import CONTEXT_STEP, Mends, mends
from bench.advise.stack import Known, by_rules
from bench.spec import workload

BASE = {"adapter_dtype": "bfloat16"}


def found(name: str, method: str, where: str = PC, known: Known | None = None, **declared) -> Mends:
    asked = {**BASE, **declared, "model": model(name), "method": method}
    return mends(asked, machine(where), known or Known(pd.DataFrame(), world()))


def changes(mended: Mends) -> list[dict]:
    return [dict(each.changes) for each in mended.alone]


def test_the_longest_context_that_fits_is_found_to_the_step() -> None:
    """At 8B by LoRA and 1e5 bytes a token, 160,000 tokens are too many."""
    (context,) = [each for each in changes(found("8b", "lora", sequence_length=160_000)) if "sequence_length" in each]
    longest = context["sequence_length"]
    room = machine(PC).capacity_bytes / 1.01  # surely: the end of the interval has to be within
    fits = [
        needs(workload(**BASE, model=model("8b"), method="lora", sequence_length=each)) < room
        for each in (longest, longest + CONTEXT_STEP)
    ]
    assert fits == [True, False]


def test_a_batch_in_parts_comes_first_and_keeps_the_step() -> None:
    first = changes(found("8b", "lora", batch_size=128, sequence_length=1024))[0]
    assert first == {"batch_size": 1, "gradient_accumulation": 128}


def test_checkpointing_where_there_is_none() -> None:
    mended = found("8b", "lora", sequence_length=16_384, gradient_checkpointing=False)
    assert changes(mended)[0] == {"gradient_checkpointing": True}
    assert mended.together is None
    assert mended.lacking_bytes is None


def test_every_change_offered_is_predicted_to_fit() -> None:
    for mended in (found("14b", "full"), found("8b", "lora", sequence_length=100_000), found("32b", "lora")):
        offered = [*mended.alone, *([mended.together] if mended.together else [])]
        assert offered
        assert all(each.stack.fit.fits == "yes" for each in offered)


def test_several_changes_together_without_those_that_it_can_do_without() -> None:
    """Each change alone leaves too much, and 8-bit states of adapters save nothing."""
    mended = found("8b", "lora", batch_size=64, gradient_checkpointing=False, sequence_length=8192)
    assert [each for each in changes(mended) if "method" not in each] == []
    assert mended.together.changes == {"batch_size": 1, "gradient_accumulation": 64, "gradient_checkpointing": True}


def test_another_method_is_the_last_resort() -> None:
    assert changes(found("14b", "lora"))[-1] == {"method": "qlora"}
    assert changes(found("8b", "full"))[-2:] == [{"method": "lora"}, {"method": "qlora"}]
    assert all("method" not in each for each in changes(found("8b", "qlora", sequence_length=200_000)))


def test_where_nothing_helps_what_is_lacking_is_told() -> None:
    mended = found("70b", "lora")
    assert (mended.alone, mended.together) == ((), None)
    smallest = workload(**BASE, model=model("70b"), method="qlora", modules="attention", rank=8, sequence_length=128)
    assert mended.lacking_bytes == round(needs(smallest)) - machine(PC).capacity_bytes


def test_a_change_that_no_stack_takes_is_not_offered() -> None:
    """MLX has no 8-bit optimizer."""
    mended = found("14b", "full", MAC)
    assert all("optimizer" not in each for each in changes(mended))


@pytest.mark.parametrize(("name", "method", "where"), [("32b", "qlora", PC), ("14b", "full", MAC), ("8b", "full", PC)])
def test_the_real_rules_find_something_for_what_does_not_surely_fit(name, method, where) -> None:
    mended = found(name, method, where, Known(pd.DataFrame(), by_rules))
    assert mended.alone or mended.together
    assert all(each.enough for each in mended.alone)
