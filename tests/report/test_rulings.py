"""What judges say, in other languages: every sentence that they have is known by its shape."""

from dataclasses import replace
from pathlib import Path

import pytest
from judgements import claim, estimate, winner_claim

from bench.claims import gather
from bench.claims.claim import Expected, Side
from bench.claims.judge import judge
from bench.claims.reader import CLAIMS, read_claims
from bench.claims.rules import rule
from bench.report import rulings
from bench.report.language import speaking

RESULTS = Path(__file__).parents[2] / "results"
RATIO = claim("ratio", kind="ratio", quantity="tokens_per_s", unit="×", expected=Expected(2.0, 4.0))
ORDER = claim("order", kind="order", quantity="parts_over_rest", unit="×", expected=Expected(1.0, None), tolerance=0.0)
SUPPORT = claim(
    "support", kind="support", quantity=None, unit=None, expected=None, techniques=("nf4",),
    sides=(Side(machines=("pc",)), Side(machines=("mac",), backends=("mlx",))),
)  # fmt: skip
ENGLISH = {"say", "says", "lie", "lies", "claim's", "the", "that", "intervals", "wins", "neither", "known", "claimed", "on"}
FIT = claim("fit", kind="fit", quantity=None, unit=None, expected=None, fits="yes", headroom=0.2)


def reasons() -> list[str]:
    """By planted evidence, every way in which the rules end."""
    found = [
        rule(claim(), [estimate()]),
        rule(claim(), [estimate(), estimate(value=18e9, low=17e9, high=19e9)]),
        rule(claim(), [estimate(value=18e9, low=17e9, high=19e9)]),
        rule(claim(), [estimate(value=1e9, low=0.9e9, high=1.1e9)]),
        rule(claim(), [estimate(low=None, high=None)]),
        rule(claim(), [estimate(low=11e9, high=25e9)]),
        rule(claim(), []),
        rule(RATIO, [estimate(value=0.5, low=0.4, high=0.6)]),
        *(
            rule(FIT, [estimate(value=value, headroom=room)])
            for value, room in ((1.0, 0.3), (1.0, 0.1), (0.0, None), (0.5, None))
        ),
        *(rule(claim("f", kind="fit", fits=fits), [estimate(value=1.0, headroom=0.5)]) for fits in ("no", "crash", "tight")),
        rule(claim("f", kind="fit", fits="slow"), [estimate(value=0.0)]),
        *(
            rule(winner_claim(), [estimate(value=value, low=value / 1.1, high=value * 1.1) for value in values])
            for values in ((2.0,), (0.5,), (2.0, 0.5), (2.0, 1.05))
        ),
        rule(winner_claim(), [estimate(value=float("nan"), low=None, high=None), estimate(value=float("inf"))]),
        rule(replace(winner_claim(), winner="tie", methods=("full", "lora")), [estimate(value=2.0, low=1.9, high=2.1)]),
        *(rule(ORDER, [estimate(value=value, low=value / 1.1, high=value * 1.1)]) for value in (2.0, 0.5)),
        rule(replace(ORDER, expected=Expected(2.0, None)), [estimate(value=1.0, low=0.9, high=1.1)]),
        rule(replace(ORDER, expected=Expected(2.0, None)), [estimate(value=3.0, low=2.9, high=3.1)]),
        rule(RATIO, [estimate(value=3.0, low=2.9, high=3.1)]),
        rule(RATIO, [estimate(value=9.0, low=8.9, high=9.1), estimate(value=0.5, low=0.4, high=0.6)]),
        rule(replace(RATIO, expected=Expected(0.9, 1.1)), [estimate(value=9.0, low=8.9, high=9.1)]),
        rule(claim(tolerance=0), [estimate(value=18e9, low=18e9, high=18e9)]),
        *(
            rule(RATIO, [estimate(tier="predicted", value=9.0, low=low, high=12.0) for low in lows])
            for lows in ((3.0,), (3.0, 8.0))
        ),
        rule(SUPPORT, [estimate(value=1.0), estimate(value=0.0)]),
        rule(replace(SUPPORT, sides=SUPPORT.sides[:1]), [estimate(value=1.0)]),
    ]
    return [each.reason for each in found]


@pytest.mark.parametrize("reason", sorted(set(reasons())))
def test_every_ruling_is_said_in_french_and_romanian(reason: str) -> None:
    for code in ("fr", "ro"):
        with speaking(code):
            said = rulings.reruled(reason)
        assert said != reason
        assert not ENGLISH & set(said.split()), said
    assert rulings.reruled(reason) == reason


def test_the_rulings_on_the_lesson_are_said_in_french() -> None:
    found = gather.trial(RESULTS).judged
    with speaking("fr"):
        left = [each.reason for each in found if rulings.reruled(each.reason) == each.reason]
    assert left == []


def test_names_of_works_and_stacks_stay() -> None:
    reason = (
        "2 of 9 say another number than the claim's, in its direction: a lora by hf@cuda on pc, b lora by mlx@metal and 3 more"
    )
    with speaking("fr"):
        said = rulings.reruled(reason)
    for part in ("a lora", "hf@cuda sur pc", "b lora", "mlx@metal"):
        assert part in said


def test_untested_claims_say_why() -> None:
    lesson = next(each for each in read_claims(CLAIMS) if each.id == "pc.wall")
    for made in (judge(lesson, ()), judge(claim(), (lambda _: [estimate(refused="another trainer (x)")],))):
        with speaking("ro"):
            assert rulings.reruled(made.reason) != made.reason


def test_every_reason_against_the_evidence_of_the_lesson_is_said_in_french_and_romanian() -> None:
    """Of a joined reason each part; what packages have is said elsewhere (`bench.report.supported`)."""
    found = gather.trial(RESULTS).judged
    refused = {other.refused or "" for each in found if each.claim.kind != "support" for other in each.others}
    assert any("; " in reason for reason in refused)
    for code, stays in (("fr", "another "), ("ro", "another ")):
        with speaking(code):
            said = {reason: rulings.refusal(reason) for reason in refused}
        assert [reason for reason, other in said.items() if other == reason or stays in other or "not stated" in other] == []


def test_joined_reasons_are_said_one_by_one() -> None:
    with speaking("fr"):
        said = rulings.refusal("another model (a); several cards (2x b); another machine (not stated)")
        assert said == "un autre modèle (a)\u202f; plusieurs cartes (2x b)\u202f; une autre machine (non indiqué)"


def test_what_a_source_says_stays_as_it_is() -> None:
    with speaking("fr"):
        assert rulings.condition("LoRA r=8; 512 tokens") == "LoRA r=8; 512 tokens"
        assert rulings.refusal("whatever it is") == "whatever it is"
        assert rulings.condition("workload 0123") != "workload 0123"
        assert rulings.refusal("under other conditions: rank 8") != "under other conditions: rank 8"
        assert rulings.party("hf@cuda ÷ mlx@metal") == "hf@cuda ÷ mlx@metal"
        assert rulings.party("axolotl on an unknown machine") != "axolotl on an unknown machine"


def test_what_a_source_leaves_open_and_what_this_project_noted_of_it_is_said_in_the_readers_language() -> None:
    assert rulings.left_open("sequence length") == "sequence length"
    noted = "2 GPUs, FSDP, CPU offload of weights; 450 s for 1024 dummy samples; something else"
    assert rulings.condition(noted) == noted
    with speaking("ro"):
        assert rulings.left_open("sequence length") == "lungimea secvenței"
        assert rulings.left_open("whatever") == "whatever"
        first, second, third = rulings.condition(noted).split("; ")
        assert first == "2 GPU-uri, FSDP, ponderi mutate în memoria CPU-ului"
        assert second == "450\u00a0s pentru 1024 exemple fictive"
        assert third == "something else"


def test_every_condition_that_a_claim_may_leave_open_is_known() -> None:
    names = {name.replace("_", " ") for each in read_claims(CLAIMS) for name in each.conditions}
    with speaking("ro"):
        assert {name for name in names if rulings.left_open(name) == name} <= {"gradient checkpointing"}


@pytest.mark.parametrize(
    "told", ["one answer was found, and cannot be used: {}", "2 answers were found, and none can be used: {}"]
)
def test_answers_that_cannot_be_used_are_told_with_the_reason(told: str) -> None:
    with speaking("ro"):
        said = rulings.reruled(told.format("under other conditions: rank 8"))
    assert "utilizabil" in said
    assert said.endswith("rank 8")
    assert "under other conditions" not in said
