"""Why there is no ratio, in the reader's language."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from bench import fairness, ladder
from bench.fairness import Side, refusal
from bench.report.language import speaking
from bench.report.reasons import resaid

THIN = "\u202f"
KEY = {
    "tier": "measured", "machine": "pc", "backend": "hf", "device": "cuda", "implementation": "", "cell": "c", "work": "w",
    "workload_digest": "d", "method": "lora",
}  # fmt: skip
SIDE = Side(KEY, 1e9, {"rank": 16}, (400.0,), "1 ok", ("t",), (1e6,), (10.0,), ("gpu-board",))


def keyed(side: Side, **key: str) -> Side:
    return replace(side, key={**side.key, **key})


REFUSED = [
    (SIDE, replace(keyed(SIDE, workload_digest="e"), declared={"rank": 8})),
    (SIDE, keyed(SIDE, workload_digest="e")),
    (SIDE, keyed(SIDE, tier="stand-in, held to 24 GB as pc-rtx-4090")),
    (SIDE, replace(SIDE, values=(), outcomes="2 crashed, 1 out of memory (device)")),
    (SIDE, replace(SIDE, tokens_digests=("t", "u"))),
    (SIDE, replace(SIDE, tokens_digests=())),
    (SIDE, replace(SIDE, tokens_digests=("u",))),
    (SIDE, replace(SIDE, trainable_parameters=())),
    (SIDE, replace(SIDE, trainable_parameters=(1.1e6,))),
    (SIDE, replace(SIDE, step_counts=())),
    (SIDE, replace(SIDE, step_counts=(10.0, 20.0))),
    (SIDE, replace(SIDE, step_counts=(20.0,))),
    (keyed(SIDE, method="serve"), replace(keyed(SIDE, method="serve"), step_counts=(20.0,))),
    (SIDE, replace(SIDE, scopes=())),
    (SIDE, replace(SIDE, scopes=("soc", "wall"))),
    (SIDE, replace(SIDE, scopes=("wall",))),
]
OF_RUNGS = [
    "2-sdpa: its runs were done in 2 different ways",
    "the version of torch was not recorded on both sides",
    "the versions of torch differ (2.13.0 against 2.14.0)",
    "tokens_per_s is not above zero in every run",
]


@pytest.mark.parametrize("code", ["fr", "ro"])
def test_every_reason_is_known(code: str) -> None:
    reasons = [reason for pair in REFUSED if (reason := refusal(*pair))]
    assert len(reasons) == len(REFUSED) == len(set(reasons))
    for reason in [*reasons, *OF_RUNGS]:
        assert resaid(reason) == reason, "English is as it was"
        with speaking(code):
            said = resaid(reason)
        assert said != reason
        assert not {"the", "its", "were", "was", "against", "different", "on", "has", "no"} & set(said.split()), said


def test_the_reasons_above_have_every_sentence_that_fairness_and_ladder_word() -> None:
    """Whoever adds a reason there adds an example here, which is then found to have no translation."""
    reasons = [str(refusal(*pair)) for pair in REFUSED] + OF_RUNGS
    for module in (fairness, ladder):
        worded = sentences(Path(module.__file__).read_text("utf-8"))
        assert len(worded) > 2
        assert {text for text in worded if not any(text in reason for reason in reasons)} == set()


def sentences(source: str) -> set[str]:
    """The pieces of text of more than one word in a module, without what documents it."""
    tree = ast.parse(source)
    documents = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node not in documents]
    return {piece for node in texts if isinstance(node.value, str) and " " in (piece := node.value.strip(" ():,"))}


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (
            "hf@cuda on pc has no clean run (2 crashed, 1 ok)",
            f"hf@cuda sur pc n’a aucune exécution propre (plantage{THIN}: 2, ok{THIN}: 1)",
        ),
        (
            "trainable parameters differ by 1.20% (1,000 against 1,012)",
            f"les paramètres entraînables diffèrent de 1,20{THIN}% (1{THIN}000 contre 1{THIN}012)",
        ),
        (
            "the work differs: rank 8 against 16; seed 0 against 1",
            f"le travail diffère{THIN}: rank 8 contre 16{THIN}; seed 0 contre 1",
        ),
        (
            "hf@cuda on pc: its runs took different numbers of measured steps (10, 20)",
            f"hf@cuda sur pc{THIN}: ses exécutions ont des nombres différents de pas mesurés (10, 20)",
        ),
        ("out of memory: what a program said on its own", "out of memory: what a program said on its own"),
        ("", ""),
    ],
)
def test_reasons_in_french(reason: str, said: str) -> None:
    with speaking("fr"):
        assert resaid(reason) == said
