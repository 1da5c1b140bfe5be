"""What a probe found, said in French and Romanian; what a package said stays as it is."""

from __future__ import annotations

import json

import pytest

from bench.report.language import speaking
from bench.report.supported import support_answer, support_reason, support_refusal
from bench.support import ROOT, stored
from bench.techniques import read_techniques

REASONS = {
    "trl:DPOTrainer": "trl:DPOTrainer",
    "padding_free of trl:SFTConfig": "padding_free de trl:SFTConfig",
    "a of b:c is True unless told otherwise": "a de b:c vaut True sauf indication contraire",
    "bitsandbytes.optim:AdamW8bit; the first moment alone": "bitsandbytes.optim:AdamW8bit ; le premier moment seulement",
    "no file of mlx-lm, mlx has the word dpo or grpo; it has supervised fine-tuning alone": (
        "aucun fichier de mlx-lm, mlx ne contient le mot dpo ou grpo ; n'offre que le fine-tuning supervisé"
    ),
    "names of paged optimizers become plain AdamW; one memory has nowhere to page to": (
        "les noms d'optimiseurs paginés deviennent AdamW ordinaire ; une mémoire unique n'a pas où paginer"
    ),
    "it refuses loftq_config": "il refuse loftq_config",
    "not probed: unsloth, mlx not installed in this environment": "non sondé : unsloth, mlx non installé dans cet environnement",
    "not probed: RuntimeError: out of luck": "non sondé : RuntimeError: out of luck",
    "the Metal device has 1,024 bytes of memory, the computer 2,048": (
        "l’appareil Metal a 1 024 octets de mémoire, l’ordinateur 2 048"
    ),
    "what a package of its own says": "what a package of its own says",
}


def plain(text: str) -> str:
    return text.replace("\u202f", " ").replace("\u00a0", " ")


@pytest.mark.parametrize(("reason", "french"), REASONS.items())
def test_a_reason_is_known_by_the_catalogue_or_by_its_shape(reason: str, french: str) -> None:
    assert support_reason(reason) == reason
    with speaking("fr"):
        assert plain(support_reason(reason)) == french


@pytest.mark.parametrize("code", ["fr", "ro"])
def test_no_stored_answer_but_a_mere_name_stays_in_english(code: str) -> None:
    answers = stored(ROOT / "results").answers
    reasons = {each.reason for each in answers if " " in each.reason}
    assert len(reasons) > 40
    with speaking(code):
        assert [reason for reason in reasons if support_reason(reason) == reason] == []


def test_answers_of_every_stored_file_end_as_the_catalogue_says() -> None:
    """Reasons are stored in English: one that the catalogue has changed since would not be known any more."""
    now = {clue.why for technique in read_techniques() for clue in technique.clues.values() if clue.why}
    asked = {(t.id, place): clue for t in read_techniques() for place, clue in t.clues.items()}
    for path in (ROOT / "results" / "machines").glob("*.support.json"):
        for row in json.loads(path.read_text("utf-8"))["answers"]:
            clue = asked[row["technique"], (row["stack"], row["home"])]
            if row["asked"] == clue.probe.asked and "; " in row["reason"]:
                assert any(row["reason"].endswith(why) for why in now), row["reason"]


def test_an_answer_stands_for_evidence() -> None:
    answer = "mlx@metal no: no file of mlx has the word galore; not among its optimizers"
    assert support_answer(answer) == answer
    with speaking("ro"):
        told = "mlx@metal nu: niciun fișier din mlx nu conține cuvântul galore; nu se află printre optimizatoarele sale"
        assert support_answer(answer) == told
        assert support_answer("no answer at all") == "no answer at all"


def test_a_refusal_tells_every_place() -> None:
    why = "wingspan doctor --support, where the stack is installed, finds it out"
    refused = f"unsloth@metal not probed: {why}; mlx@metal not probed: no Metal device here"
    assert support_refusal(refused) == refused
    with speaking("fr"):
        told = "wingspan doctor --support, là où la pile logicielle est installée, le dira"
        assert plain(support_refusal(refused)) == (
            f"unsloth@metal non sondé : {told} ; mlx@metal non sondé : pas d’appareil Metal ici"
        )
        assert support_refusal("") == ""
        assert support_refusal("no such technique, or no stack on that side").startswith("technique inconnue")
