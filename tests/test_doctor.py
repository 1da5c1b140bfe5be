"""The doctor tries what is there, and names the remedy for what is not."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from bench import doctor
from bench.backends.hf import HuggingFace
from bench.backends.mlx import Mlx
from bench.doctor import BackendCheck, Diagnosis, MeterCheck, describe, diagnose
from bench.record import Gpu, Machine
from bench.spec import Cell


@pytest.fixture
def cpu_only(machine: Machine, monkeypatch: pytest.MonkeyPatch, fake_cell: Callable[..., Cell]) -> Machine:
    """A machine whose real backends are probed by a fake cell, so that no framework is imported here."""
    monkeypatch.setattr(doctor, "_probe_cell", lambda backend, device: fake_cell())
    return machine


def test_what_works_has_been_tried_in_a_child(cpu_only: Machine) -> None:
    found = diagnose(cpu_only)
    assert [(each.name, each.available) for each in found.backends] == [("fake", True), ("fake", True)]
    assert all(set(each.versions or {}) == {"numpy"} for each in found.backends)
    assert [(each.name, each.scope, each.available) for each in found.meters] == [("process-memory", "process", True)]


def test_what_fails_says_why(machine: Machine, monkeypatch: pytest.MonkeyPatch, fake_cell: Callable[..., Cell]) -> None:
    monkeypatch.setattr(doctor, "_probe_cell", lambda backend, device: fake_cell(fail="exit", fail_at_step=0))
    (first, _) = diagnose(machine).backends
    assert not first.available
    assert first.reason is not None
    assert first.reason.startswith("crashed: the process ended by exit code 7")
    assert first.remedy


def test_the_document_has_the_contracts_keys(cpu_only: Machine) -> None:
    document = json.loads(json.dumps(diagnose(cpu_only).to_json()))
    assert set(document) == {"machine", "backends", "meters"}
    assert {"name", "device", "available", "reason", "remedy"} <= set(document["backends"][0])
    assert {"name", "scope", "available", "reason", "remedy"} <= set(document["meters"][0])


def test_a_missing_package_is_named_with_its_extra(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HuggingFace, "missing", lambda self, device: ["peft", "trl"])
    monkeypatch.setattr(Mlx, "missing", lambda self, device: ["mlx_lm"])
    found = {each.name: each for each in diagnose(machine).backends}
    assert found["hf"].reason == "hf is not installed in this environment: peft, trl are missing"
    assert found["hf"].remedy == "pip install '.[cpu]'"
    assert found["mlx"].remedy == "pip install '.[cpu]'"


def test_the_diagnosis_in_words(machine: Machine) -> None:
    card = replace(machine, gpus=(Gpu("NVIDIA GeForce RTX 4090", 25_757_220_864), Gpu("Other", None)))
    backends = (
        BackendCheck(name="hf", device="cuda", available=True),
        BackendCheck(name="mlx", device="cpu", available=False, reason="gone", remedy="bring it back"),
    )
    told = describe(Diagnosis(card, backends, (MeterCheck(name="m", scope="process", available=True),)))
    assert "NVIDIA GeForce RTX 4090 (25.8 GB), Other (memory not given)" in told
    assert "works     hf@cuda" in told
    assert "MISSING   mlx@cpu: gone; remedy: bring it back" in told
    assert "works     m (process)" in told
