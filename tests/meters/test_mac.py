"""The Mac's raw readers, each against a C library played in Python."""

import ctypes
import os
import plistlib
from collections.abc import Mapping
from typing import Any

import pytest

from bench.meters.mac import GpuClient, RealMac, Registry, _output, this_mac


class Function:
    """A C function played in Python; ctypes' declarations land on it as attributes and are kept."""

    def __init__(self, play: Any) -> None:
        self.play = play

    def __call__(self, *arguments: Any) -> Any:
        assert len(arguments) == len(self.argtypes), self.play
        return self.play(*arguments)


class FakeIOKit:
    """A registry of one accelerator (object 1) with clients; counts what is lent and not let go. Both libraries in one."""

    def __init__(self, clients: Mapping[int, dict[str, Any]], valid: bool = True) -> None:
        self.clients, self.valid, self.lent, self.queues = clients, valid, 0, {}
        self.objects: dict[int, Any] = {}
        played = {
            "IOServiceMatching": self._matching,
            "IOServiceGetMatchingServices": self._services,
            "IORegistryEntryGetChildIterator": self._children,
            "IOIteratorNext": self._next_item,
            "IOIteratorIsValid": self._is_valid,
            "IOObjectRelease": self._release_object,
            "IORegistryEntryGetRegistryEntryID": self._entry_id,
            "IORegistryEntryCreateCFProperty": self._create_property,
            "CFStringCreateWithCString": self._create_string,
            "CFPropertyListCreateData": self._create_data,
            "CFDataGetBytePtr": self._bytes_of,
            "CFDataGetLength": self._length_of,
            "CFRelease": self._release_value,
        }
        for name, play in played.items():
            setattr(self, name, Function(play))

    def _new(self, content: Any) -> int:
        self.lent += 1
        number = 2**40 + len(self.objects)
        self.objects[number] = content
        return number

    def _iterator(self, pointer: Any, items: list[int]) -> int:
        self.lent += 1
        pointer._obj.value = 1000 + len(self.queues)
        self.queues[pointer._obj.value] = list(items)
        return 0

    def _matching(self, name: bytes) -> int:
        assert name == b"IOAccelerator"
        return 77

    def _services(self, port: int, matching: int, pointer: Any) -> int:
        assert matching == 77
        return self._iterator(pointer, [1])

    def _children(self, entry: int, plane: bytes, pointer: Any) -> int:
        assert (entry, plane) == (1, b"IOService")
        return self._iterator(pointer, list(self.clients))

    def _next_item(self, iterator: Any) -> int:
        queue = self.queues[iterator.value]
        self.lent += bool(queue)
        return queue.pop(0) if queue else 0

    def _is_valid(self, iterator: Any) -> int:
        return int(self.valid)

    def _release_object(self, item: int) -> int:
        assert item
        self.lent -= 1
        return 0

    def _entry_id(self, entry: int, pointer: Any) -> int:
        pointer._obj.value = 2**33 + entry
        return 0

    def _create_property(self, entry: int, key: int, allocator: None, options: int) -> int | None:
        name = self.objects[key]
        return self._new(self.clients[entry][name]) if name in self.clients[entry] else None

    def _create_string(self, allocator: None, text: bytes, encoding: int) -> int:
        number = self._new(text.decode())
        self.lent -= 1  # kept for the life of the reader
        return number

    def _create_data(self, allocator: None, value: int, form: int, options: int, error: None) -> int:
        assert form == 200
        return self._new(ctypes.create_string_buffer(plistlib.dumps(self.objects[value], fmt=plistlib.FMT_BINARY)))

    def _bytes_of(self, data: int) -> int:
        return ctypes.addressof(self.objects[data])

    def _length_of(self, data: int) -> int:
        return len(self.objects[data]) - 1

    def _release_value(self, item: int) -> None:
        self.lent -= 1


USED = {"IOUserClientCreator": "pid 533, WindowServer", "AppUsage": [{"API": "Metal", "accumulatedGPUTime": 123_632_000_000}]}


def test_the_registry_is_walked_and_everything_let_go() -> None:
    iokit = FakeIOKit({5: USED, 6: {"IOUserClientCreator": "pid 7, IOAccel"}})
    registry = Registry(iokit, iokit)
    for _ in range(2):
        assert registry.gpu_clients() == [
            GpuClient(2**33 + 5, "pid 533, WindowServer", USED["AppUsage"]),
            GpuClient(2**33 + 6, "pid 7, IOAccel", None),
        ]
        assert iokit.lent == 0


def test_a_walk_that_was_cut_short_gives_nothing_and_lets_go() -> None:
    iokit = FakeIOKit({5: USED}, valid=False)
    assert Registry(iokit, iokit).gpu_clients() is None
    assert iokit.lent == 0


def test_pointers_keep_their_64_bits() -> None:
    iokit: Any = FakeIOKit({})
    Registry(iokit, iokit)
    for name in ("IOServiceMatching", "IORegistryEntryCreateCFProperty", "CFPropertyListCreateData", "CFDataGetBytePtr"):
        assert getattr(iokit, name).restype is ctypes.c_void_p


class FakeNotify:
    """notify(3), which gives a token and a level, or refuses."""

    def __init__(self, registers: int, level: int) -> None:
        def register(key: bytes, pointer: Any) -> int:
            assert key == b"com.apple.system.thermalpressurelevel"
            pointer._obj.value = 9
            return registers

        def state(token: int, pointer: Any) -> int:
            assert token == 9
            pointer._obj.value = level
            return 0

        self.notify_register_check, self.notify_get_state = Function(register), Function(state)


@pytest.mark.parametrize(("registers", "level", "read"), [(0, 2, 2), (0, 0, 0), (1, 2, None)])
def test_the_level_comes_from_notify(monkeypatch: pytest.MonkeyPatch, registers: int, level: int, read: int | None) -> None:
    monkeypatch.setattr("bench.meters.mac.ctypes.CDLL", lambda path: FakeNotify(registers, level))
    mac = RealMac()
    assert mac.thermal_level() == read
    assert mac.thermal_level() == read


def test_a_command_that_fails_gives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: Any, **__: Any) -> None:
        raise FileNotFoundError("no such command")

    monkeypatch.setattr("bench.meters.mac.subprocess.run", absent)
    assert RealMac().pmset() is None
    assert RealMac().sysctl("iogpu.wired_limit_mb") is None


def test_this_process_is_of_its_own_family() -> None:
    assert os.getpid() in RealMac().family(os.getpid())


@pytest.mark.parametrize(
    ("system", "machine", "is_one"), [("darwin", "arm64", True), ("darwin", "x86_64", False), ("linux", "arm64", False)]
)
def test_only_macos_on_arm_is_apple_silicon(monkeypatch: pytest.MonkeyPatch, system: str, machine: str, is_one: bool) -> None:
    monkeypatch.setattr("bench.meters.mac.sys.platform", system)
    monkeypatch.setattr("bench.meters.mac.platform.machine", lambda: machine)
    assert RealMac().is_apple_silicon() is is_one


def test_a_process_that_is_gone_is_its_own_family() -> None:
    assert RealMac().family(2**22 + 1) == {2**22 + 1}


def test_the_commands_are_the_systems_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.meters.mac._output", lambda *command: " ".join(command))
    assert RealMac().sysctl("iogpu.wired_limit_mb") == "/usr/sbin/sysctl -n iogpu.wired_limit_mb"
    assert RealMac().pmset() == "/usr/bin/pmset -g"


def test_what_a_command_says_is_trimmed() -> None:
    assert _output("/bin/echo", " 73728 ") == "73728"


def test_the_readers_are_one_set_a_process() -> None:
    assert this_mac() is this_mac()
