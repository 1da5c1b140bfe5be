"""techniques.toml is read strictly: each fault is one line that names the file, the technique's key and the remedy."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.reading.strict import BadFile
from bench.techniques import LANGUAGES, PLACES, TECHNIQUES, Language, Technique, read_techniques

ROW = """
[[technique]]
id = "nf4"
title = {en = "NF4", fr = "NF4", ro = "NF4"}
use = {en = "small", fr = "petit", ro = "mic"}
hf = [{of = ["bitsandbytes"], look = "bitsandbytes.nn:LinearNF4"}]
unsloth = [
    {on = ["cuda"], of = ["unsloth"], look = "unsloth.kernels.nf4:dequantize_nf4"},
    {on = ["metal"], says = "no", reason = {en = "not so", fr = "non", ro = "nu"}, source = "its files"},
]
mlx = [{of = ["mlx"], words = ["nf4"], says = "no", reason = {en = "no", fr = "non", ro = "nu"}, source = "its manual"}]
"""


def faults(folder: Path, text: str) -> list[str]:
    path = folder / "t.toml"
    path.write_text(text)
    try:
        read_techniques(path)
    except BadFile as error:
        return [str(problem).removeprefix(f"{path}: ") for problem in error.problems]
    finally:
        read_techniques.cache_clear()
    return []


def test_the_catalogues_techniques_have_a_clue_in_every_place_and_three_languages() -> None:
    known = read_techniques()
    assert len(known) >= 25
    assert len({technique.id for technique in known}) == len(known)
    for technique in known:
        assert tuple(technique.clues) == PLACES
        assert tuple(technique.title) == tuple(technique.use) == LANGUAGES


def test_each_clue_can_be_answered_and_what_is_only_said_has_its_source() -> None:
    for technique in read_techniques():
        for clue in technique.clues.values():
            assert clue.probe.asked or clue.says, technique.id
            assert not clue.says or (clue.reason and clue.source), technique.id
            assert not clue.probe.asked or clue.probe.distributions, technique.id


def _reasons(technique: Technique) -> list[Mapping[Language, str]]:
    return [clue.reason for clue in technique.clues.values() if clue.reason]


def test_romanian_is_written_with_a_comma_below_and_french_with_its_accents() -> None:
    texts = [each for known in read_techniques() for each in (known.title, known.use, *_reasons(known))]
    said = {language: " ".join(text[language] for text in texts) for language in LANGUAGES}
    assert not set("şţŞŢ") & set(said["ro"])
    assert set("ășțâî") <= set(said["ro"])
    assert set("éèà") <= set(said["fr"])


def test_a_sound_row_has_no_fault(tmp_path: Path) -> None:
    assert faults(tmp_path, ROW) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('id = "nf4"', 'id = "NF 4"', "\"NF 4\".id: use small letters, digits and '-' only"),
        (', ro = "mic"', "", "technique[0].use.ro: missing; say it in en, fr and ro"),
        (', ro = "nu"', "", "technique[0].unsloth[1].reason.ro: missing; say it in en, fr and ro"),
        ('on = ["metal"]', 'on = ["cuda"]', '"nf4".unsloth: 2 clues for cuda; give one'),
        ('on = ["metal"]', 'on = ["cuda"]', '"nf4".unsloth: no clues for metal; give one'),
        ('on = ["metal"]', 'on = ["tpu"]', "technique[0].unsloth[1].on[0]: unknown on"),
        ("hf = [{of", 'hf = [{on = ["cuda", "metal"], of', '"nf4".hf.on: hf has no metal here; it has cuda'),
        (', source = "its files"', "", '"nf4".unsloth[1].source: missing: says means nothing without it'),
        (
            'says = "no", reason = {en = "not so"',
            'reason = {en = "not so"',
            '"nf4".unsloth[1].look: missing: give look, trial or words, or says',
        ),
        ('words = ["nf4"], says = "no"', 'words = ["nf4"], says = "yes"', '"nf4".mlx[0].says: words that stand nowhere show'),
        (
            'words = ["nf4"]',
            'words = ["nf4"], look = "mlx.core:a"',
            '"nf4".mlx[0].words: beside look: a clue looks for one thing',
        ),
        ('{of = ["bitsandbytes"], look', "{look", '"nf4".hf[0].of: missing: name the distributions'),
        (
            "bitsandbytes.nn:LinearNF4",
            "bitsandbytes.nn.LinearNF4",
            '"nf4".hf[0].look: expected module:name, got "bitsandbytes.nn.Lin',
        ),
        (
            'look = "bitsandbytes.nn:LinearNF4"',
            'trial = "hf-adaptors"',
            '"nf4".hf[0].trial: no trial "hf-adaptors"; did you mean "hf-',
        ),
        ('LinearNF4"}', 'LinearNF4", default = true}', '"nf4".hf[0].parameter: missing: default means nothing without it'),
        ('of = ["unsloth"]', 'of = ["peft"]', '"nf4".unsloth[0].of: name unsloth or unsloth_zoo too'),
        (
            'hf = [{of = ["bitsandbytes"], ',
            'hf = [{off = 1, of = ["bitsandbytes"], ',
            "technique[0].hf[0].off: unknown key; the rows of",
        ),
    ],
)
def test_a_fault_is_told_in_one_line(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in ROW
    assert any(line.startswith(told) for line in faults(tmp_path, ROW.replace(old, new))), faults(tmp_path, ROW.replace(old, new))


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    found = faults(tmp_path, ROW.replace('id = "nf4"', 'id = "N"').replace("LinearNF4", "") + ROW + ROW)
    assert [line.partition(":")[0] for line in found] == ['"N".id', '"N".hf[0].look', '"nf4"']
    assert found[-1] == '"nf4": stands twice'


WRONG = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=2))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_a_value_is_replaced_by_only_a_bad_file_is_raised(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    row: dict[str, Any] = copy.deepcopy(tomllib.loads(ROW)["technique"][0])
    key = data.draw(st.sampled_from(sorted(row)))
    value = data.draw(WRONG.filter(lambda each: each is not None))
    clue = data.draw(st.sampled_from(["of", "look", "says", "words", "on", "default", "parameter", "within"]))
    if isinstance(row[key], list) and data.draw(st.booleans()):
        row[key][0][clue] = value
    else:
        row[key] = value
    text = f"[[technique]]\n{_toml(row)}"
    for line in faults(tmp_path_factory.mktemp("t"), text):
        assert "\n" not in line


def _toml(row: dict[str, Any]) -> str:
    return "\n".join(f"{key} = {_value(value)}" for key, value in row.items())


def _value(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return (
                '"' + "".join(f"\\U{ord(each):08x}" if ord(each) < 0xD800 or ord(each) > 0xDFFF else "" for each in value) + '"'
            )
        case list():
            return f"[{', '.join(_value(each) for each in value)}]"
        case dict():
            return "{" + ", ".join(f"{key} = {_value(each)}" for key, each in value.items()) + "}"
        case _:
            return str(value)


def test_the_file_is_the_catalogues() -> None:
    assert TECHNIQUES.is_file()
