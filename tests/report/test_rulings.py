"""What judges say, in other languages: every sentence that they have is known by its shape."""

from pathlib import Path

import pytest
from judgements import claim, estimate, winner_claim

from bench.claims import gather
from bench.claims.claim import Expected
from bench.claims.judge import judge
from bench.claims.reader import CLAIMS, read_claims
from bench.claims.rules import rule
from bench.report import rulings
from bench.report.language import speaking

RESULTS = Path(__file__).parents[2] / "results"
RATIO = claim("ratio", kind="ratio", quantity="tokens_per_s", unit="×", expected=Expected(2.0, 4.0))
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
    ]
    return [each.reason for each in found]


@pytest.mark.parametrize("reason", sorted(set(reasons())))
def test_every_ruling_is_said_in_french_and_romanian(reason: str) -> None:
    for code in ("fr", "ro"):
        with speaking(code):
            said = rulings.reruled(reason)
        assert said != reason
        assert not {"say", "says", "claim's", "the", "that", "intervals"} & set(said.split()), said
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


def test_what_a_source_says_stays_as_it_is() -> None:
    with speaking("fr"):
        assert rulings.condition("LoRA r=8; 512 tokens") == "LoRA r=8; 512 tokens"
        assert rulings.refusal("whatever it is") == "whatever it is"
        assert rulings.condition("workload 0123") != "workload 0123"
        assert rulings.refusal("under other conditions: rank 8") != "under other conditions: rank 8"
        assert rulings.party("hf@cuda ÷ mlx@metal") == "hf@cuda ÷ mlx@metal"
        assert rulings.party("axolotl on an unknown machine") != "axolotl on an unknown machine"
