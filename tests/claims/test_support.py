"""Claims of support, from planted matrices and from the committed one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from claim_rows import MAC, PC, claim

from bench.claims.claim import Claim, Side
from bench.claims.reader import CLAIMS, read_claims
from bench.claims.rules import rule
from bench.claims.support import estimates, places
from bench.support import Answer, Matrix, stored
from bench.techniques import PLACES, read_techniques

HF, CARD, APPLE, MLX = PLACES


def planted(*has: str, probed: bool = True) -> Matrix:
    """A matrix of the technique `it`: `yes`, `no` or `unknown` in each place; a question mark leaves the place out."""
    answers = [
        Answer(
            technique="it",
            stack=stack,
            home=home,
            has=each,  # type: ignore[arg-type]
            probed=probed and each != "unknown",
            reason="because",
            versions={stack: "1.2"},
            asked="it:x",
            source="a document",
        )
        for (stack, home), each in zip(PLACES, has, strict=True)
        if each != "?"
    ]
    return Matrix(tuple(answers))


def two_sides(**fields: Any) -> Claim:
    return claim("support", **{"techniques": ("it",), "sides": (PC, MAC), **fields})


@pytest.mark.parametrize(
    ("has", "value"),
    [
        (("yes", "no", "no", "no"), 1.0),
        (("no", "yes", "no", "no"), 1.0),
        (("yes", "unknown", "no", "no"), 1.0),
        (("no", "no", "yes", "no"), -1.0),
        (("no", "no", "unknown", "yes"), -1.0),
        (("yes", "no", "no", "yes"), 0.0),
        (("no", "no", "no", "no"), 0.0),
        (("yes", "yes", "unknown", "no"), None),
        (("unknown", "no", "no", "yes"), None),
        (("yes", "yes", "?", "no"), None),
        (("?", "?", "?", "?"), None),
    ],
)
def test_one_side_alone_or_both_or_neither(has: tuple[str, ...], value: float | None) -> None:
    (found,) = estimates(two_sides(), planted(*has))
    assert found.value == value
    assert (found.refused is None) == (value is not None)
    assert (found.what, found.who) == ("it", "pc-rtx-4090 against mac-studio-m3-ultra")


def test_the_sides_change_places() -> None:
    matrix = planted("yes", "no", "no", "no")
    (found,) = estimates(two_sides(sides=(MAC, PC)), matrix)
    assert found.value == -1.0


def test_what_it_rests_on_is_named_with_its_versions() -> None:
    (found,) = estimates(two_sides(), planted("yes", "no", "no", "no"))
    assert (found.tier, found.n, found.source) == ("measured", 3, "hf 1.2; unsloth 1.2; mlx 1.2")
    assert found.evidence == ("hf@cuda yes: because", "unsloth@metal no: because", "mlx@metal no: because")


def test_what_a_source_says_is_published_evidence() -> None:
    (found,) = estimates(two_sides(), planted("yes", "no", "no", "no", probed=False))
    assert (found.tier, found.source) == ("published", "a document")


def test_what_is_not_known_says_of_which_stack_and_why() -> None:
    (found,) = estimates(two_sides(), planted("yes", "yes", "unknown", "no"))
    assert (found.refused, found.n) == ("unsloth@metal because", 0)
    (found,) = estimates(two_sides(), planted("?", "?", "?", "?"))
    assert found.refused == "no such technique, or no stack on that side"


def test_one_side_is_answered_stack_by_stack() -> None:
    found = estimates(two_sides(sides=(MAC,)), planted("yes", "yes", "no", "yes"))
    assert [(each.who, each.value) for each in found] == [("unsloth@metal", 0.0), ("mlx@metal", 1.0)]
    assert [each.value for each in estimates(two_sides(sides=(Side(),)), planted("yes", "no", "unknown", "yes"))] == [
        1.0,
        0.0,
        None,
        1.0,
    ]


@pytest.mark.parametrize(
    ("side", "expected"),
    [
        (PC, (HF, CARD)),
        (MAC, (APPLE, MLX)),
        (Side(), PLACES),
        (Side(backends=("mlx", "hf")), (HF, MLX)),
        (Side(machines=("mac-studio-m3-ultra",), backends=("mlx",)), (MLX,)),
        (Side(backends=("unsloth",), devices=("metal",)), (APPLE,)),
        (Side(machines=("pc-rtx-4090", "mac-studio-m3-ultra")), PLACES),
        (Side(machines=("pc-rtx-4090",), backends=("mlx",)), ()),
    ],
)
def test_a_machine_has_the_stacks_that_are_used_on_it(side: Side, expected: tuple[Any, ...]) -> None:
    assert places(side) == expected


def test_the_catalogues_claims_name_techniques_that_there_are() -> None:
    known = {technique.id for technique in read_techniques()}
    named = {name for each in read_claims(CLAIMS) for name in each.techniques}
    assert named <= known, named - known


def test_the_committed_matrix_gives_every_support_claim_of_the_lesson_a_ruling() -> None:
    matrix = stored(Path(__file__).resolve().parents[2] / "results")
    asked = [each for each in read_claims(CLAIMS) if each.kind == "support"]
    assert len(asked) >= 4
    for each in asked:
        usable = [found for found in estimates(each, matrix) if found.value is not None]
        assert rule(each, usable).verdict in ("verified", "refined", "refuted")


def test_adapters_train_in_16_bits_on_hugging_face_alone() -> None:
    matrix = stored(Path(__file__).resolve().parents[2] / "results")
    found = estimates(two_sides(techniques=("adapters-16bit",), sides=(Side(),)), matrix)
    assert {each.who: each.value for each in found} == {
        "hf@cuda": 1.0,
        "unsloth@cuda": 0.0,
        "unsloth@metal": 0.0,
        "mlx@metal": 0.0,
    }
