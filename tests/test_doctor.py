"""The doctor tries what is there, and names the remedy for what is not."""

import json
import os
from collections.abc import Callable
from dataclasses import replace

import pytest
from fake_meters import Clock, PlayedMeter

from bench import doctor
from bench.backends.hf import HuggingFace
from bench.backends.mlx import Mlx
from bench.doctor import BackendCheck, Diagnosis, MeterCheck, Warned, describe, diagnose, warned
from bench.meters.interface import METERS, Meter, Value
from bench.own_rates import Rates
from bench.record import Gpu, Machine
from bench.spec import Cell
from bench.support import Answer, Matrix
from bench.sweep import sampling
from bench.sweep.interrupt import Interrupt
from bench.trust.flags import FLAGS


@pytest.fixture(autouse=True)
def short_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "REST_S", 0.05)


def use(monkeypatch: pytest.MonkeyPatch, *meters: Meter) -> None:
    """The meters by which the machine is watched at rest."""
    monkeypatch.setattr(sampling, "_meters", lambda: iter(meters))


@pytest.fixture
def cpu_only(machine: Machine, monkeypatch: pytest.MonkeyPatch, fake_cell: Callable[..., Cell]) -> Machine:
    """A machine whose real backends are probed by a fake cell, so that no framework is imported here."""
    monkeypatch.setattr(doctor, "_probe_cell", lambda backend, device: fake_cell())
    return machine


def test_what_works_has_been_tried_in_a_child(cpu_only: Machine) -> None:
    found = diagnose(cpu_only)
    assert [(each.name, each.available) for each in found.backends] == [("fake", True)] * 3
    assert all(set(each.versions or {}) == {"numpy"} for each in found.backends)


def test_every_meter_is_named_and_one_that_does_not_work_says_why_and_what_to_do(cpu_only: Machine) -> None:
    found = {each.name: each for each in diagnose(cpu_only).meters}
    assert list(found) == list(METERS)
    assert (found["process-memory"].scope, found["process-memory"].available) == ("process", True)
    assert (found["host"].scope, found["host"].available) == ("machine", True)
    for each in found.values():
        assert each.available or (each.reason and each.remedy)
        assert bool(each.available) == (each.reason is None)


def test_what_would_flag_a_run_is_told_beforehand(cpu_only: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [Value("on_battery", 1), Value("disk_free", 2e9), Value("asleep", 0)]
    use(monkeypatch, PlayedMeter(Clock(), lambda since_s: values, "host", devices=("cpu",)))
    document = diagnose(cpu_only).to_json()
    assert [each["flag"] for each in document["warnings"]] == ["on-battery", "low-disk"]
    assert all({"flag", "reason", "remedy"} <= set(each) for each in document["warnings"])
    assert document["warnings"][0]["reason"] == f"a run on cpu would be flagged now: {FLAGS['on-battery'].cause}"


def test_a_machine_at_peace_warns_of_nothing(cpu_only: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [Value("on_battery", 0), Value("disk_free", 2e12), Value("asleep", 0), Value("swap_used", 1e9)]
    use(monkeypatch, PlayedMeter(Clock(), lambda since_s: values, "host", devices=("cpu",)))
    assert diagnose(cpu_only).warnings == ()


def test_load_by_others_and_unknown_others_say_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others take a core of the two; nobody can tell who uses the card."""
    clock = Clock()

    def play(since_s: float) -> list[Value]:
        clock.now_s += 1.0  # each reading a second after the last
        return [Value("cpu_busy", 50.0 + since_s), Value("cpu_of_run", 7.0)]

    host = PlayedMeter(clock, play, "host", settings={"cpu_cores": "2"})
    card = PlayedMeter(clock, lambda since_s: [], "nvml", devices=("cuda",), refuses="no driver")
    use(monkeypatch, host, card)
    real = sampling.sampling
    monkeypatch.setattr(doctor, "sampling", lambda watched: real(watched, clock))
    found = {device: doctor.at_rest(device, _silent()) for device in ("cuda", "cpu")}
    told = {each.flag: each for each in warned(found)}
    assert told["cpu-contention"].devices == ("cpu",)
    assert told["cpu-contention"].reason.endswith("(1.00 cores at rest)")
    assert told["foreign-unknown"].devices == ("cuda",)
    assert told["foreign-unknown"].reason.endswith("(no driver)")
    assert told["foreign-unknown"].remedy == FLAGS["foreign-unknown"].remedy
    assert all(each.pid is None for each in host.opened)


def _silent() -> Interrupt:
    """An interrupt that never comes: nobody writes to its pipe."""
    return Interrupt(os.pipe()[0])


def test_a_warning_of_several_devices_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    host = PlayedMeter(Clock(), lambda since_s: [Value("on_battery", 1)], "host", devices=("cuda", "cpu"))
    use(monkeypatch, host)
    (told,) = [each for each in warned({d: doctor.at_rest(d, _silent()) for d in ("cuda", "cpu")}) if each.flag == "on-battery"]
    assert told.devices == ("cuda", "cpu")
    assert told.reason.startswith("a run on cuda or cpu would be flagged now: ")


def test_a_rest_that_the_user_stops_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)
    reading, writing = os.pipe()
    os.write(writing, b"!")
    monkeypatch.setattr(doctor, "REST_S", 60)
    with pytest.raises(KeyboardInterrupt):
        doctor.at_rest("cpu", Interrupt(reading, [2]))
    os.close(reading)
    os.close(writing)


def test_the_same_gpu_is_not_watched_twice() -> None:
    assert doctor._apart(("metal", "mps", "cpu")) == ("metal", "cpu")
    assert doctor._apart(("cuda", "cpu")) == ("cuda", "cpu")


def test_what_fails_says_why(machine: Machine, monkeypatch: pytest.MonkeyPatch, fake_cell: Callable[..., Cell]) -> None:
    monkeypatch.setattr(doctor, "_probe_cell", lambda backend, device: fake_cell(fail="exit", fail_at_step=0))
    first = diagnose(machine).backends[0]
    assert not first.available
    assert first.reason is not None
    assert first.reason.startswith("crashed: the process ended by exit code 7")
    assert first.remedy


def test_the_document_has_the_contracts_keys(cpu_only: Machine) -> None:
    document = json.loads(json.dumps(diagnose(cpu_only).to_json()))
    assert set(document) == {"machine", "backends", "meters", "warnings", "rates", "support"}
    assert {"name", "device", "available", "reason", "remedy"} <= set(document["backends"][0])
    assert {"name", "scope", "available", "reason", "remedy"} <= set(document["meters"][0])


def test_rates_are_measured_only_when_asked_for(cpu_only: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.doctor.measure", lambda device: Rates(device=device, launch_s=1.0))
    assert diagnose(cpu_only).rates == ()
    assert [each.device for each in diagnose(cpu_only, calibrate=True).rates] == list(cpu_only.devices)


def test_techniques_are_looked_for_only_when_asked_for(cpu_only: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer(
        technique="nf4", stack="hf", home="cuda", has="yes", probed=True, reason="there", versions={"thing": "1.2"}, asked="a:b"
    )
    monkeypatch.setattr("bench.doctor.probe_all", lambda: Matrix((answer,)))
    assert diagnose(cpu_only).support is None
    found = diagnose(cpu_only, support=True)
    assert found.to_json()["support"]["answers"][0]["technique"] == "nf4"
    told = describe(found).splitlines()
    assert "support   hf: thing 1.2" in told
    assert [line.split()[-4:] for line in told if "NF4 base weights" in line] == [["yes", "?", "?", "?"]]


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
        BackendCheck(name="hf", device="cuda", available=True, versions={"torch": "2.13.0", "trl": "1.16.0"}),
        BackendCheck(name="mlx", device="cpu", available=False, reason="gone", remedy="bring it back"),
        BackendCheck(name="unsloth", device="cuda", available=False, reason="no card"),
    )
    warnings = (Warned(flag="on-battery", reason="it runs on its battery", remedy="plug it in", devices=("cpu",)),)
    rates = (
        Rates(device="cuda", matrix_flops_per_s={"bfloat16": 1.5e14}, memory_bytes_per_s=9e11, launch_s=4e-6),
        Rates(device="cpu", reason="torch is not installed in this environment"),
    )
    told = describe(Diagnosis(card, backends, (MeterCheck(name="m", scope="process", available=True),), warnings, rates))
    assert "rates     cuda: 150.00 TFLOPS in bfloat16; 900 GB/s; 4.0 µs a kernel" in told
    assert "MISSING   rates of cpu: torch is not installed in this environment" in told
    assert "NVIDIA GeForce RTX 4090 (25.8 GB), Other (memory not given)" in told
    assert "works     hf@cuda: torch 2.13.0, trl 1.16.0" in told
    assert "WARNING   on-battery: it runs on its battery; remedy: plug it in" in told
    assert "MISSING   mlx@cpu: gone; remedy: bring it back" in told
    assert "MISSING   unsloth@cuda: no card" in told.splitlines(), "of what nothing mends here no remedy is named"
    assert "works     m (process)" in told


@pytest.mark.parametrize(("context_bytes", "said"), [(412_000_000, "context 412 MB"), (None, "context unknown")])
def test_what_torch_takes_of_a_card_is_said_with_its_rates(machine: Machine, context_bytes: int | None, said: str) -> None:
    rates = Rates(
        device="cuda",
        matrix_flops_per_s={"bfloat16": 1.5e14},
        memory_bytes_per_s=9e11,
        launch_s=4e-6,
        context_bytes=context_bytes,
        workspace_bytes={"bfloat16": 17_039_360},
    )
    told = describe(Diagnosis(machine, (), (), (), (rates,)))
    assert f"4.0 µs a kernel; {said}, cuBLAS workspaces 17.0 MB in bfloat16" in told
