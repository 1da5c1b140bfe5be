"""Rows and contests from the predictor, our runs and what others published."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from advised import MAC, PC, asked, machine, model, needs, ran, world
from observed import BASE, observation

from bench import cited
from bench.advise.stack import Known, by_rules, memory_by_rules
from bench.analysis import prepare
from bench.claims.published import prepared
from bench.frontier.reach import SUITE, reaches
from bench.predict.capacity import fit_probability
from bench.refine import gather
from bench.refine.memory import Rule, rules
from bench.refine.winners import Flip
from bench.suite import read_suite

WORLD = Known(pd.DataFrame(), world())


def test_predicted_rows_give_back_the_worlds_line() -> None:
    rows = gather.predicted_rows(WORLD, [model(name) for name in ("1b", "8b", "32b")], methods=("qlora",))
    found = {(each.group.backend, each.group.optimizer, each.group.gradient_checkpointing): each for each in rules(rows)}
    assert set(found) == {
        *((stack, "adamw", on) for stack in ("hf", "unsloth", "mlx") for on in (True, False)),
        *((stack, "adamw_8bit", True) for stack in ("hf", "unsloth")),
    }
    plain = found["hf", "adamw", True]
    assert (plain.fixed.value, plain.per_parameter.value, plain.per_token.value) == pytest.approx((1e9, 0.6, 1e5), rel=1e-3)


def test_rows_stand_once_whichever_machine_has_the_stack() -> None:
    twice = gather.predicted_rows(WORLD, [model()], machines=(machine(PC), machine(PC)))
    assert twice == gather.predicted_rows(WORLD, [model()], machines=(machine(PC),))


def test_measured_rows_are_of_clean_training_runs_on_the_machine_itself() -> None:
    work = asked("8b", batch_size=2)
    runs = [
        *ran(PC, work, "hf", "cuda", [1.0]),
        *ran(PC, work, "unsloth", "cuda", [1.0], flags=["spilled"]),
        *ran(MAC, work, "mlx", "metal", [1.0], framework_peak_bytes=None),
        *ran("h200", work, "hf", "cuda", [1.0], tier="stand-in", flags=["limited"]),
    ]
    (row,) = gather.measured_rows(prepare(pd.DataFrame(runs)))
    assert (row.parameters, row.tokens, row.peak_bytes) == (8_030_261_248, 4096, 15e9)
    assert (row.group.tier, row.group.backend, row.group.gradient_checkpointing) == ("measured", "hf", True)
    assert row.evidence == runs[0]["run_id"]
    assert gather.measured_rows(prepare(pd.DataFrame())) == []


def test_published_rows_state_everything() -> None:
    good = observation(peak_bytes=20_000_000_000)
    bad = [
        replace(good, missing=("rank",)),
        replace(good, own=False),
        replace(good, meter="device_used"),
        replace(good, varied=True),
        replace(good, cells=BASE.cells * 2),
        observation(),
    ]
    (row,) = gather.published_rows([good, *bad])
    assert (row.peak_bytes, row.evidence, row.group.tier) == (20e9, "a-1", "published")


def test_what_is_stored_of_others_makes_lines() -> None:
    rows = gather.published_rows(prepared(cited.read(Path("results"))).observed)
    assert len(rows) > 20
    assert all(each.rms_share < 0.5 for each in rules(rows))


def test_the_map_of_the_made_up_world_flips_where_the_card_is_full() -> None:
    """8B by LoRA: 1e5 bytes a token fill what 17.9 GB leave of the card."""
    found = gather.gathered_map(WORLD, [model("8b"), model("14b")], (2048, 131_072))
    (flip,) = [
        each
        for each in found.flips
        if each.axis == "sequence_length" and each.below.method == "lora" and "8b" in each.below.model
    ]
    full = 2048 + (machine(PC).capacity_bytes - needs(asked("8b"))) / 1e5
    assert flip.below.sequence_length <= full <= flip.above.sequence_length
    assert flip.above.sequence_length - flip.below.sequence_length <= gather.EDGE_TOKENS
    assert flip.about == flip.below.sequence_length
    assert (flip.below.winner, flip.above.winner) == (PC, MAC)


def test_the_map_and_the_frontier_tell_one_edge() -> None:
    """Where the last of the two ceases to win, the fit frontier says that it ceases to fit."""
    suite = read_suite(SUITE)
    assert suite.frontier is not None
    assert [span.step for span in suite.frontier.spans if span.field == "sequence_length"] == [gather.EDGE_TOKENS]
    found = gather.gathered_map(Known(pd.DataFrame(), by_rules), [model("8b"), model("70b")])
    ends = {(each.below.winner, each.below.method, each.below.model): each.about for each in found.flips if is_end(each)}
    edges = {
        (each.machine, each.method, each.model): each.likely
        for profile in gather.lesson_machines()
        for each in reaches(profile)
        if each.axis == "sequence_length"
    }
    assert (MAC, "full", model("8b").name) in ends
    assert (MAC, "qlora", model("70b").name) in ends
    assert ends == {key: edges[key] for key in ends}


def is_end(flip: Flip) -> bool:
    return flip.axis == "sequence_length" and flip.above.winner is None


def test_what_does_not_fit_by_any_stack_lacks_more_the_longer_the_sequence() -> None:
    """The stack that needs least is told of, and not by chances of which all are next to none another one at each length."""
    known = Known(pd.DataFrame(), by_rules)
    contexts = (512, 1024, 2048, 4096, 8192, 32_768)
    found = gather.gathered_map(known, [model("14b")], contexts).contests
    fits = [each.stacks[0].fit for each in found if each.method == "lora"]
    assert {each.fits for each in fits if each} == {"no"}
    rooms = [each.headroom for each in fits if each and each.headroom is not None]
    assert rooms == sorted(rooms, reverse=True)
    assert len(rooms) == len(contexts)


def test_a_winner_between_two_contexts_is_not_passed_over() -> None:
    """At 6e5 bytes a token the card is full at 12,500 tokens and the Mac at 99,000: two flips between 2,048 and 131,072."""
    plain = world()

    def foretell(cell, profile):
        found = plain(cell, profile)
        held = found.memory.held_bytes + round(5e5 * cell.workload.sequence_length)
        ends = {"held_low_bytes": round(held / 1.01), "held_high_bytes": round(held * 1.01)}
        memory = replace(found.memory, held_bytes=held, **ends)
        return replace(found, memory=memory, fit_probability=fit_probability(memory, profile.capacity_bytes))

    found = gather.gathered_map(Known(pd.DataFrame(), foretell), [model("8b")], (2048, 131_072))
    lora = [each for each in found.flips if each.below.method == "lora"]
    assert [(each.below.winner, each.above.winner) for each in lora] == [(PC, MAC), (MAC, None)]
    assert [each.about for each in lora] == pytest.approx([12_530, 99_000], rel=0.03)


def test_no_context_longer_than_the_models_positions() -> None:
    found = gather.gathered_map(WORLD, [model("14b")], (2048, 65_536))
    assert {each.sequence_length for each in found.contests} == {2048}


def test_the_lessons_own_map_by_the_real_rules() -> None:
    """At 2,048 tokens: the card wins what fits it, LoRA at 14B is the Mac's, a full fine-tune at 14B nobody's."""
    found = gather.gathered_map(Known(pd.DataFrame(), by_rules), contexts=(2048,))
    winners = {(each.method, each.model): each.winner for each in found.contests}
    assert winners["lora", "llama-3.1-8b"] == winners["qlora", "qwen3-14b"] == PC
    assert winners["lora", "qwen3-14b"] == winners["qlora", "llama-3.3-70b"] == MAC
    assert winners["full", "qwen3-14b"] is None


def test_measured_rates_go_into_the_map() -> None:
    runs = ran(MAC, asked("8b"), "mlx", "metal", [20_000.0, 20_100.0])
    found = gather.gathered_map(Known(prepare(pd.DataFrame(runs)), world()), [model("8b")], (2048,))
    (lora,) = [each for each in found.contests if each.method == "lora"]
    assert (lora.winner, lora.tiers) == (MAC, ("measured", "predicted"))


def test_the_rules_of_the_page_are_described_where_their_residuals_say_so() -> None:
    """Every group of the page: with checkpointing a line says it, without it activations grow with width times length."""
    found = rules(gather.predicted_rows(Known(prepare(pd.DataFrame()), memory_by_rules), gather.lesson_models()))
    badly = {(each.group.method, each.group.backend) for each in found if not each.describes}
    assert all(each.describes for each in found if each.group.gradient_checkpointing)
    assert badly == {
        *(("full", "mlx"), ("lora", "hf"), ("lora", "mlx")),
        *(("qlora", stack) for stack in ("hf", "unsloth", "mlx")),
    }
    assert all(each.told_apart for each in found)
    assert {each_group(each) for each in found if each.level} == {
        ("full", stack, optimizer, True) for stack in ("hf", "unsloth") for optimizer in ("adamw", "adamw_8bit")
    }


def each_group(found: Rule) -> tuple[str, str, str, bool]:
    group = found.group
    return group.method, group.backend, group.optimizer, group.gradient_checkpointing
