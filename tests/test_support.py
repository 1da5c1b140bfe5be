"""The support matrix: what children find, what is kept of it, and what a clone without any stack reads."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import support
from bench.backends.probe import Probe
from bench.reading.strict import BadFile
from bench.record import Machine
from bench.support import Answer, Matrix, keep, probe_all, stored, table
from bench.techniques import PLACES, Clue, Place, Technique, read_techniques

SAID = {"en": "A technique", "fr": "Une technique", "ro": "O tehnică"}
HF, CARD, APPLE, MLX = PLACES
FOUND = {"found": "yes", "reason": "there", "versions": {"thing": "1.2"}}
UNTRIED = {"found": "untried", "reason": "thing not installed in this environment", "versions": {}}


def technique(name: str = "one", **clues: Any) -> Technique:
    """By place as `hf_cuda`, what its clue has beside the probe."""
    made = {
        place: Clue(stack=place[0], home=place[1], probe=Probe(look=f"{name}:x"), **clues.get("_".join(place), {}))
        for place in PLACES
    }
    return Technique(id=name, title=SAID, use=SAID, clues=made)


def child(monkeypatch: pytest.MonkeyPatch, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The child answers each probe so; the requests are kept."""
    asked: list[list[dict[str, Any]]] = []

    def run(command: list[str], *, input: str, **rest: Any) -> SimpleNamespace:
        asked.append(json.loads(input))
        return SimpleNamespace(
            returncode=0, stdout="noise\n" + json.dumps([answer(each) for each in asked[-1]]) + "\n", stderr=""
        )

    monkeypatch.setattr(support.subprocess, "run", run)
    return asked


def answer(place: Place = HF, **fields: Any) -> Answer:
    given = {
        "has": "yes",
        "probed": True,
        "reason": "there",
        "versions": {"thing": "1.2"},
        "asked": "one:x",
        "probed_at": "2026-11-30T10:00:00Z",
    }
    return Answer(technique="one", stack=place[0], home=place[1], **{**given, **fields})


def test_every_stack_has_a_child_of_its_own_and_every_place_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = child(monkeypatch, lambda probe: FOUND)
    matrix = probe_all((technique("one"), technique("two")))
    assert [len(each) for each in asked] == [2, 4, 2]
    assert [(each.technique, each.place) for each in matrix.answers if each.has == "yes"] == [
        ("one", HF), ("two", HF), ("one", CARD), ("one", APPLE), ("two", CARD), ("two", APPLE), ("one", MLX), ("two", MLX),
    ]  # fmt: skip
    assert matrix.versions("hf") == {"thing": "1.2"}


def test_a_reason_qualifies_what_is_found_but_not_what_is_doubtful(monkeypatch: pytest.MonkeyPatch) -> None:
    known = technique(hf_cuda={"reason": {"en": "with a catch"}})
    child(monkeypatch, lambda probe: FOUND)
    assert probe_all((known,)).answers[0].reason == "there; with a catch"
    child(monkeypatch, lambda probe: {**FOUND, "found": "unknown"})
    assert (probe_all((known,)).answers[0].has, probe_all((known,)).answers[0].reason) == ("unknown", "there")


def test_what_could_not_be_probed_is_as_the_source_says_or_unknown_and_never_no(monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, lambda probe: UNTRIED)
    said = {"says": "no", "reason": {"en": "it refuses"}, "source": "its files"}
    hf, card, *_ = probe_all((technique(unsloth_cuda=said),)).answers
    assert (hf.has, hf.probed, hf.reason) == ("unknown", False, "not probed: thing not installed in this environment")
    assert (card.has, card.probed, card.reason, card.evidence) == ("no", False, "it refuses", "its files")


def test_a_child_that_hangs_or_dies_leaves_its_stack_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*args: Any, **named: Any) -> None:
        raise subprocess.TimeoutExpired("x", named["timeout"])

    monkeypatch.setattr(support.subprocess, "run", hang)
    assert {each.reason for each in probe_all((technique(),)).answers} == {"not probed: not done after 240 s"}
    ended = SimpleNamespace(returncode=-11, stdout="", stderr="Traceback\nSegmentation fault\n")
    monkeypatch.setattr(support.subprocess, "run", lambda *args, **named: ended)
    told = {(each.has, each.reason) for each in probe_all((technique(),)).answers}
    assert told == {("unknown", "not probed: the probe ended with -11: Segmentation fault")}


def test_what_is_kept_is_read_again(machine: Machine, tmp_path: Path) -> None:
    path = keep(tmp_path, machine, Matrix((answer(), answer(MLX, has="no"))))
    assert path == tmp_path / "machines" / f"{machine.machine_id}.support.json"
    read = stored(tmp_path, (technique(),))
    assert read.of("one", HF) == answer()
    assert read.of("one", MLX) == answer(MLX, has="no")
    assert [each.has for each in read.answers] == ["yes", "unknown", "unknown", "no"]


def test_an_environment_without_a_stack_leaves_alone_what_another_found(machine: Machine, tmp_path: Path) -> None:
    keep(tmp_path, machine, Matrix((answer(CARD), answer(APPLE, has="no"))))
    lacking = answer(CARD, has="unknown", probed=False, versions={})
    keep(tmp_path, machine, Matrix((answer(HF), lacking, answer(APPLE, probed_at="2026-12-01T00:00:00Z"))))
    read = stored(tmp_path, (technique(),))
    assert [each.has for each in read.answers] == ["yes", "yes", "yes", "unknown"]


def test_of_several_machines_the_latest_probe_counts(machine: Machine, tmp_path: Path) -> None:
    keep(tmp_path, replace(machine, machine_id="a"), Matrix((answer(has="no", probed_at="2026-12-02T00:00:00Z"),)))
    keep(tmp_path, replace(machine, machine_id="b"), Matrix((answer(probed_at="2026-12-01T00:00:00Z"),)))
    assert stored(tmp_path, (technique(),)).answers[0].has == "no"


def test_an_answer_to_another_question_is_none(machine: Machine, tmp_path: Path) -> None:
    keep(tmp_path, machine, Matrix((answer(asked="one:y"),)))
    found = stored(tmp_path, (technique(),)).answers[0]
    assert (found.has, found.probed) == ("unknown", False)
    assert "doctor --support" in found.reason


def test_without_any_file_the_sources_answer(tmp_path: Path) -> None:
    read = stored(tmp_path)
    assert {(each.technique, each.place) for each in read.answers} == {
        (each.id, place) for each in read_techniques() for place in PLACES
    }
    assert not any(each.probed for each in read.answers)
    unified = read.of("unified-memory", MLX)
    assert unified is not None
    assert unified.has == "yes"
    assert read.of("nothing-known", MLX) is None


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"answers": 3}', '{"machine": "m", "answers": [{"technique": "one"}]}', '{"machine": "m", "answers": [7]}'],
)
def test_a_file_that_is_none_of_ours_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "machines" / "x.support.json"
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(BadFile, match=r"x\.support\.json: not written by `doctor --support`"):
        stored(tmp_path)


def test_a_place_that_no_stack_has_is_no_answer_of_ours(machine: Machine, tmp_path: Path) -> None:
    path = keep(tmp_path, machine, Matrix((answer(),)))
    path.write_text(path.read_text().replace('"hf"', '"tf"'))
    with pytest.raises(BadFile):
        stored(tmp_path)


def test_the_table_says_what_was_probed_what_is_said_and_what_is_not_known() -> None:
    said = answer(APPLE, has="no", probed=False, versions={}, source="its files")
    lines = table(Matrix((answer(), said, answer(MLX, has="no"))), (technique(),))
    assert lines[0].split() == ["hf@cuda", "unsloth@cuda", "unsloth@metal", "mlx@metal"]
    assert lines[1].split() == ["A", "technique", "yes", "?", "(no)", "no"]
    assert lines[3:] == ["hf: thing 1.2", "unsloth: nothing probed", "mlx: thing 1.2"]


def test_the_committed_matrix_is_of_todays_questions() -> None:
    """What results/ holds answers the claims in a clone without hardware: hf and unsloth on a card, unsloth and mlx on a Mac."""
    matrix = stored(Path(__file__).resolve().parents[1] / "results")
    unknown = {(each.technique, each.place) for each in matrix.answers if each.has == "unknown"}
    assert unknown <= {("flash-attention", APPLE), ("flash-attention", MLX)}
    assert sum(each.probed for each in matrix.answers) > 100
