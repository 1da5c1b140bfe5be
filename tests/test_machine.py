"""What a computer is: profiles matched, names made, cards read through a simulated driver."""

import sys
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from bench.catalog import machine_profiles
from bench.machine import catalogue_machine, checked_name, devices, machine_id, name_of, nvidia_gpus, this_machine
from bench.record import Gpu
from bench.spec import BadInput

GIB = 2**30
RTX_4090 = Gpu("NVIDIA GeForce RTX 4090", 24_564 * 2**20, "GPU-1", "580.1")


@dataclass
class FakeNvml:
    """A simulated NVIDIA driver at the lowest seam: the functions of pynvml that are used."""

    names: tuple[str, ...] = ("NVIDIA GeForce RTX 4090",)
    loads: bool = True
    gives_memory: bool = True

    class NVMLError(Exception):
        pass

    def nvmlInit(self) -> None:  # noqa: N802 (the driver's own name)
        if not self.loads:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlShutdown(self) -> None:  # noqa: N802
        return None

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        return b"580.1"

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.names)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802
        if not self.gives_memory:
            raise self.NVMLError("Not Supported")
        return SimpleNamespace(total=24_564 * 2**20)

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return self.names[handle]

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return f"GPU-{handle}"


def test_a_card_is_found_through_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    assert nvidia_gpus() == (Gpu("NVIDIA GeForce RTX 4090", 25_757_220_864, "GPU-0", "580.1"),)


def test_a_card_that_does_not_give_its_memory_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(gives_memory=False))
    assert [gpu.memory_bytes for gpu in nvidia_gpus()] == [None]


def test_without_a_driver_there_is_no_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(loads=False))
    assert nvidia_gpus() == ()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvidia_gpus() == ()


NAMES = {
    "mac-studio-m3-ultra": ("Apple M3 Ultra", 96 * GIB, ()),
    "pc-rtx-4090": ("13th Gen Intel(R) Core(TM) i9-13900K", 64 * GIB, (RTX_4090,)),
    "apple-m3-ultra-256gib": ("Apple M3 Ultra", 256 * GIB, ()),
    "intel-xeon-processor-24gib": ("Intel(R) Xeon(R) Processor", 24 * GIB, ()),
    "amd-ryzen-9-64gib-nvidia-geforce-rtx-2080": ("AMD Ryzen 9", 64 * GIB, (Gpu("NVIDIA GeForce RTX 2080", 16 * GIB),)),
}


@pytest.mark.parametrize("expected", NAMES)
def test_hardware_is_named_after_its_profile_or_itself(expected: str) -> None:
    chip, memory_bytes, gpus = NAMES[expected]
    assert name_of(chip, memory_bytes, gpus, machine_profiles()) == expected


def test_devices_stand_fastest_first() -> None:
    assert devices(apple=True, gpus=()) == ("metal", "mps", "cpu")
    assert devices(apple=False, gpus=(RTX_4090,)) == ("cuda", "cpu")
    assert devices(apple=False, gpus=()) == ("cpu",)


def test_two_alike_are_told_apart_by_their_id() -> None:
    other = Gpu(RTX_4090.name, RTX_4090.memory_bytes, "GPU-2", RTX_4090.driver)
    assert machine_id((RTX_4090,)) != machine_id((other,))
    assert machine_id((RTX_4090, other)) == machine_id((other, RTX_4090))


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "machine=x", "é", "x" * 101, "-x", "4090", "2024-01-01", "epoch"])
def test_a_name_that_cannot_be_a_folder_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="machine name"):
        checked_name(name)


def test_this_computer_is_described() -> None:
    found = this_machine("my-machine")
    assert found.name == "my-machine"
    assert "cpu" in found.devices
    assert found.memory_bytes > 2**30
    assert found.cpu_cores >= 1
    assert found.chip
    assert this_machine().machine_id == found.machine_id


def test_a_machine_of_the_catalogue() -> None:
    pc, mac = catalogue_machine("pc-rtx-4090"), catalogue_machine("mac-studio-m3-ultra")
    assert pc.devices == ("cuda", "cpu")
    assert pc.gpus[0].memory_bytes == 25_757_220_864
    assert mac.devices == ("metal", "mps", "cpu")
    assert mac.memory_bytes == 103_079_215_104
    with pytest.raises(BadInput, match=r"--machine: no machine .*use one of .*pc-rtx-4090"):
        catalogue_machine("no-such-machine")
