"""What a probe finds in the packages of an environment, and that what cannot be looked for is never called missing."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from planted_packages import plant

from bench.backends import probe as probing
from bench.backends.probe import Finding, Probe, find, from_json

FILES = {
    "planted/__init__.py": "def works(a, fast=True): ...\nclass Trainer:\n    def __init__(self, bits=8): ...\n",
    "planted/broken.py": "raise OSError('libcuda.so.1: cannot open shared object file')\n",
    "planted/needing.py": "import not_installed_anywhere\n",
    "planted/lazy.py": "def __getattr__(name):\n    raise RuntimeError(f'{name} needs a GPU')\n",
}


@pytest.fixture(autouse=True)
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    plant(tmp_path, monkeypatch, "planted-thing", FILES)
    yield
    for name in [each for each in sys.modules if each.partition(".")[0] == "planted"]:
        del sys.modules[name]


def looked(look: str, **fields: Any) -> Finding:
    return find(Probe(distributions=("planted-thing",), look=look, **fields))


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize(
    ("look", "fields", "found"),
    [
        ("planted:works", {}, "yes"),
        ("planted:Trainer", {"parameter": "bits"}, "yes"),
        ("planted:works", {"parameter": "fast", "default": True}, "yes"),
        ("planted:works", {"parameter": "fast", "default": False}, "no"),
        ("planted:works", {"parameter": "slow"}, "no"),
        ("planted:gone", {}, "no"),
        ("planted:Trainer.gone", {}, "no"),
        ("planted.gone:anything", {}, "no"),
    ],
)
def test_names_and_parameters(look: str, fields: dict[str, Any], found: str, read: bool) -> None:
    seen = looked(look, read=read, **fields)
    assert (seen.found, seen.versions) == (found, {"planted-thing": "1.2"})
    assert seen.reason


@pytest.mark.parametrize(
    ("look", "reason"),
    [
        ("planted.broken:anything", "OSError: libcuda.so.1: cannot open shared object file"),
        ("planted.needing:anything", "ModuleNotFoundError: No module named 'not_installed_anywhere'"),
        ("planted.lazy:Fast", "RuntimeError: Fast needs a GPU"),
    ],
)
def test_what_cannot_be_imported_is_untried_and_never_missing(look: str, reason: str) -> None:
    seen = looked(look)
    assert (seen.found, seen.reason) == ("untried", reason)


def test_a_package_that_is_not_installed_is_untried() -> None:
    seen = find(Probe(distributions=("planted-thing", "planted-other"), look="planted:works"))
    assert (seen.found, seen.reason) == ("untried", "planted-other not installed in this environment")


def test_reading_finds_what_importing_cannot() -> None:
    assert looked("planted.broken:anything", read=True).found == "no"
    assert looked("planted.needing:not_installed_anywhere", read=True).found == "yes"


def test_words_nowhere_mean_no_and_words_somewhere_want_another_look() -> None:
    nowhere = find(Probe(distributions=("planted-thing",), words=("galore", "apollo")))
    assert (nowhere.found, nowhere.reason) == ("no", "no file of planted-thing has the word galore or apollo")
    somewhere = find(Probe(distributions=("planted-thing",), words=("galore", "trainer")))
    assert somewhere.found == "unknown"
    assert somewhere.reason == "planted/__init__.py has “trainer”: look at what it does, then at techniques.toml"


@pytest.mark.parametrize(("outcome", "found"), [(True, "yes"), (False, "no"), (None, "untried")])
def test_a_trial_says_yes_or_no_or_that_it_cannot_be_tried(
    monkeypatch: pytest.MonkeyPatch, outcome: bool | None, found: str
) -> None:
    monkeypatch.setattr(probing, "TRIALS", {"it": lambda: (outcome, "seen")})
    seen = find(Probe(distributions=("planted-thing",), trial="it"))
    assert (seen.found, seen.reason) == (found, "seen")


def test_a_trial_that_fails_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "TRIALS", {"it": lambda: 1 / 0})
    assert find(Probe(trial="it")) == Finding(found="untried", reason="ZeroDivisionError: division by zero", versions={})


def test_nothing_to_look_for_is_untried() -> None:
    assert find(Probe()).found == "untried"


@pytest.mark.parametrize(
    ("probe", "asked"),
    [
        (Probe(), ""),
        (Probe(trial="it"), "trial it"),
        (Probe(look="a:b"), "a:b"),
        (Probe(look="a:b", parameter="c"), "a:b(c)"),
        (Probe(look="a:b", parameter="c", default=False), "a:b(c = False)"),
        (Probe(distributions=("d",), words=("w", "x")), "no “w, x” in d"),
        (Probe(distributions=("d",), words=("w",), within="e/"), "no “w” in e/"),
    ],
)
def test_what_is_looked_for_in_words(probe: Probe, asked: str) -> None:
    assert probe.asked == asked


def test_the_child_answers_in_order_and_on_the_last_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def chatty() -> tuple[bool, str]:
        print("welcome to the framework")
        return True, "seen"

    monkeypatch.setattr(probing, "TRIALS", {"chatty": chatty})
    monkeypatch.setattr(probing, "OFFLINE", {})
    probes = [Probe(distributions=("planted-thing",), look="planted:gone"), Probe(trial="chatty")]
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps([asdict(each) for each in probes])))
    probing.main()
    said = capsys.readouterr()
    assert [each["found"] for each in json.loads(said.out)] == ["no", "yes"]
    assert "welcome" in said.err


def test_a_probe_survives_json() -> None:
    probe = Probe(distributions=("d",), look="a:b", parameter="c", default=0.5, words=("w",), within="e/", read=True)
    assert from_json(json.loads(json.dumps(asdict(probe)))) == probe
