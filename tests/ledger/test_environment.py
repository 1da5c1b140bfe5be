"""The environment of a night in words, of which two nights differ by what changed."""

from __future__ import annotations

import difflib

from nightly_rows import NEW, OLD

from bench.ledger.environment import describe

KNOWN = {each.digest: each for each in (OLD, NEW)}
ROW = {
    "backend": "hf",
    "device": "cuda",
    "environment_digest": OLD.digest,
    "versions": {"python": "3.11.7", "driver": "570.1", "torch": "2.13.0"},
    "os_version": "Test OS 1",
    "device_settings": {"power_limit_w": "450", "performance_state_now": "P2"},
    "source_revision": "abc",
}


def test_everything_that_belongs_to_it_is_told() -> None:
    assert describe("box", [ROW], KNOWN).splitlines() == [
        *("machine box", "", "[hf@cuda]", f"environment {OLD.digest}", "python 3.11.7", "system Test OS 1", "driver 570.1"),
        *("harness abc", "power_limit_w 450", "alpha==1.0", "beta==2.0"),
    ]


def test_without_the_list_the_runs_own_versions_must_do() -> None:
    assert describe("box", [ROW], {}).splitlines()[-1] == "torch==2.13.0"


def test_backends_of_one_environment_share_a_block() -> None:
    other = {**ROW, "backend": "mlx", "environment_digest": NEW.digest}
    text = describe("box", [ROW, {**ROW, "backend": "unsloth"}, other], KNOWN)
    assert [line for line in text.splitlines() if line.startswith("[")] == ["[hf@cuda, unsloth@cuda]", "[mlx@cuda]"]


def test_the_last_run_tells_best() -> None:
    before, after = (describe("box", [ROW, {**ROW, "environment_digest": digest}], KNOWN) for digest in KNOWN)
    changed = [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]
    assert changed == [f"- environment {OLD.digest}", f"+ environment {NEW.digest}", "- alpha==1.0", "+ alpha==1.1"]


def test_nothing_known_is_nothing_told() -> None:
    row = {"backend": "hf", "device": "cpu", "environment_digest": None, "versions": None, "device_settings": float("nan")}
    assert describe("box", [row], KNOWN) == "machine box\n\n[hf@cpu]\n\n"
