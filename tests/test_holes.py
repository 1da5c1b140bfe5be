"""Why a cell cannot be measured; what a plan makes of it is in test_plan.py."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from bench import holes
from bench.catalog import catalogue
from bench.holes import Hole, hole, preferred_device, refusal
from bench.record import Gpu, Machine
from bench.spec import BackendName, Cell, Device, Method, workload

CPU = Machine(
    name="box",
    machine_id="0",
    system="Linux",
    architecture="x86_64",
    os_version="Test OS",
    chip="Test Chip",
    cpu_cores=2,
    memory_bytes=2**34,
)
PC = replace(CPU, name="pc", gpus=(Gpu("NVIDIA GeForce RTX 4090", 2**34),), devices=("cuda", "cpu"))
MAC = replace(CPU, name="mac", system="Darwin", devices=("metal", "mps", "cpu"))


class Stub:
    """A backend that is there, and serves nothing."""

    devices: tuple[Device, ...] = ("cuda", "cpu")
    extras: Mapping[Device, str] = {"cpu": "cpu"}

    def missing(self, device: Device) -> list[str]:
        return ["torch"] if device == "cpu" else []

    def refuses(self, cell: Cell) -> str | None:
        return "it does not serve" if cell.workload.method == "serve" else None


@pytest.fixture(autouse=True)
def stub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holes, "load_backend", lambda name: Stub())


def cell(device: Device, method: Method = "lora", backend: BackendName = "hf") -> Cell:
    return Cell(workload(model=catalogue().models["tiny-llama-xs"], method=method), backend, device)


@pytest.mark.parametrize(
    ("machine", "device"),
    [
        (CPU, "cpu"),
        (PC, "cuda"),
        (MAC, "cpu"),
        (replace(PC, devices=("cpu", "cuda")), "cuda"),
        (replace(CPU, devices=()), "cuda"),
    ],
)
def test_a_backend_takes_the_device_it_prefers_of_those_there(machine: Machine, device: Device) -> None:
    assert preferred_device("hf", machine) == device


def test_what_can_be_measured_is_no_hole() -> None:
    assert hole(cell("cuda"), PC) is None


def test_what_is_missing_is_told_with_the_extra_that_brings_it_and_only_where_one_does() -> None:
    found = hole(cell("cpu"), CPU)
    assert found == Hole(reason="hf is not installed in this environment: torch is missing", remedy="pip install '.[cpu]'")
    assert refusal(cell("cpu"), CPU) is None, "another environment of that machine may have it"


def test_a_machine_without_the_device_is_no_refusal_of_the_backends() -> None:
    assert refusal(cell("cuda"), CPU) == Hole(reason="box has no cuda; it has cpu")


def test_a_backend_refuses_devices_it_has_not_and_work_it_does_not_do() -> None:
    assert refusal(cell("mps"), MAC) == Hole(reason="hf does not run on mps", remedy="use hf@cuda, hf@cpu", refused=True)
    assert refusal(cell("cuda", "serve"), PC) == Hole(reason="it does not serve", refused=True)


def test_a_hole_reads_as_its_reason_and_the_remedy() -> None:
    assert str(Hole(reason="it is not there", remedy="install it")) == "it is not there; install it"
    assert str(Hole(reason="it is not there")) == "it is not there"
