"""What macOS tells without privileges, raw: the lowest seam of the Apple meters, replayed in tests by a fake of the same shape.

In: names of settings, a process number. Out: texts, numbers and the properties of the GPU's clients, as the system gives them;
None where it gives nothing. `command`-like calls (`sysctl`, `pmset`) start a process and belong before and after a run;
`thermal_level` and `gpu_clients` are library calls made while it runs.
"""

from __future__ import annotations

import ctypes
import platform
import plistlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple, Protocol

FRAMEWORKS = "/System/Library/Frameworks"
THERMAL_KEY = b"com.apple.system.thermalpressurelevel"
"""kOSThermalNotificationPressureLevelName of the SDK's libkern/OSThermalNotification.h."""
BINARY_PLIST = 200
"""kCFPropertyListBinaryFormat_v1_0 of CoreFoundation's CFPropertyList.h."""
UTF8 = 0x08000100
"""kCFStringEncodingUTF8 of CoreFoundation's CFString.h."""
COMMAND_TIMEOUT_S = 10.0


class GpuClient(NamedTuple):
    """One connection to the GPU's driver: its number in the I/O registry, which is never used twice before the next start of
    the system, and two properties as they stand there: who made it (`"pid 533, WindowServer"`) and its use, one dictionary a
    programming interface, with `accumulatedGPUTime` in nanoseconds. None for a property that is absent.
    """

    entry_id: int
    creator: Any
    usage: Any


class Mac(Protocol):
    """The readers that the Apple meters need."""

    def is_apple_silicon(self) -> bool:
        """Whether this is macOS on Apple's own processors."""

    def version(self) -> str:
        """The version of macOS, as `26.1`."""

    def sysctl(self, name: str) -> str | None:
        """The value of one kernel setting."""

    def pmset(self) -> str | None:
        """The power settings in use, one a line, as `pmset -g` prints them."""

    def thermal_level(self) -> int | None:
        """The thermal pressure: 0 nominal, 1 moderate, 2 heavy, 3 trapping, 4 sleeping."""

    def gpu_clients(self) -> list[GpuClient] | None:
        """Everybody connected to the GPU; None where the registry cannot be walked or changed under the walk."""

    def family(self, pid: int) -> set[int]:
        """A process and everything below it."""


class RealMac:
    """The readers on a real Mac. Off it, `is_apple_silicon` is False and nothing else may be called."""

    def __init__(self) -> None:
        self._notify: tuple[Any, int] | None = None
        self._registry: Registry | None = None

    def is_apple_silicon(self) -> bool:
        return sys.platform == "darwin" and platform.machine() == "arm64"

    def version(self) -> str:
        return platform.mac_ver()[0]

    def sysctl(self, name: str) -> str | None:
        return _output("/usr/sbin/sysctl", "-n", name)

    def pmset(self) -> str | None:
        return _output("/usr/bin/pmset", "-g")

    def thermal_level(self) -> int | None:
        if self._notify is None:
            self._notify = _register(ctypes.CDLL("/usr/lib/libSystem.B.dylib"))
        library, token = self._notify
        level = ctypes.c_uint64()
        failed = token < 0 or library.notify_get_state(token, ctypes.byref(level))
        return None if failed else int(level.value)

    def gpu_clients(self) -> list[GpuClient] | None:
        if self._registry is None:
            self._registry = Registry(
                ctypes.CDLL(f"{FRAMEWORKS}/IOKit.framework/IOKit"),
                ctypes.CDLL(f"{FRAMEWORKS}/CoreFoundation.framework/CoreFoundation"),
            )
        return self._registry.gpu_clients()

    def family(self, pid: int) -> set[int]:
        import psutil

        try:
            return {pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))}
        except psutil.Error:
            return {pid}


@cache
def this_mac() -> RealMac:
    """The one set of readers of this process: what macOS lends for them is lent once."""
    return RealMac()


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _register(library: Any) -> tuple[Any, int]:
    """Ask notify(3) for the thermal pressure; a token below zero where it refuses. The token lives as long as the process."""
    library.notify_register_check.argtypes = (ctypes.c_char_p, ctypes.c_void_p)
    library.notify_register_check.restype = ctypes.c_uint32
    library.notify_get_state.argtypes = (ctypes.c_int, ctypes.c_void_p)
    library.notify_get_state.restype = ctypes.c_uint32
    token = ctypes.c_int(-1)
    failed = library.notify_register_check(THERMAL_KEY, ctypes.byref(token))
    return library, -1 if failed else token.value


class Registry:
    """The I/O registry through IOKit's C interface (IOKitLib.h). The GPU's clients are no registered services, so they are
    found as children of the accelerator.
    """

    def __init__(self, iokit: Any, core: Any) -> None:
        self._iokit, self._core = _declared(iokit, core)
        self._creators: dict[int, Any] = {}
        self._creator_key = core.CFStringCreateWithCString(None, b"IOUserClientCreator", UTF8)
        self._usage_key = core.CFStringCreateWithCString(None, b"AppUsage", UTF8)

    def gpu_clients(self) -> list[GpuClient] | None:
        """Every client of every accelerator; None where the registry changed under the walk, which would have left some out."""
        iterator = ctypes.c_uint32()
        matching = self._iokit.IOServiceMatching(b"IOAccelerator")  # given up to the next call, which releases it
        if self._iokit.IOServiceGetMatchingServices(0, matching, ctypes.byref(iterator)):
            return None
        with self._listed(iterator) as accelerators:
            found = [self._clients(accelerator) for accelerator in accelerators or ()]
        if not found or None in found:
            return None
        return [client for clients in found for client in clients or ()]

    def _clients(self, accelerator: int) -> list[GpuClient] | None:
        iterator = ctypes.c_uint32()
        if self._iokit.IORegistryEntryGetChildIterator(accelerator, b"IOService", ctypes.byref(iterator)):
            return None
        with self._listed(iterator) as children:
            return None if children is None else [self._client(child) for child in children]

    @contextmanager
    def _listed(self, iterator: ctypes.c_uint32) -> Iterator[list[int] | None]:
        """The objects of an iterator, let go afterwards with it; None where the registry changed before the last of them."""
        items: list[int] = []
        try:
            while item := self._iokit.IOIteratorNext(iterator):
                items.append(item)
            yield items if self._iokit.IOIteratorIsValid(iterator) else None
        finally:
            for item in (*items, iterator.value):
                self._iokit.IOObjectRelease(item)

    def _client(self, entry: int) -> GpuClient:
        number = ctypes.c_uint64()
        self._iokit.IORegistryEntryGetRegistryEntryID(entry, ctypes.byref(number))
        if number.value not in self._creators:
            self._creators[number.value] = self._property(entry, self._creator_key)
        return GpuClient(number.value, self._creators[number.value], self._property(entry, self._usage_key))

    def _property(self, entry: int, key: int) -> Any:
        """One property as Python values: CoreFoundation writes it as a property list, which Python's own library reads."""
        value = self._iokit.IORegistryEntryCreateCFProperty(entry, key, None, 0)
        if not value:
            return None
        data = self._core.CFPropertyListCreateData(None, value, BINARY_PLIST, 0, None)
        self._core.CFRelease(value)
        if not data:
            return None
        text = ctypes.string_at(self._core.CFDataGetBytePtr(data), self._core.CFDataGetLength(data))
        self._core.CFRelease(data)
        return plistlib.loads(text)


def _declared(iokit: Any, core: Any) -> tuple[Any, Any]:
    """The C signatures: ctypes would otherwise cut pointers down to 32 bits."""
    port, pointer, text, index = ctypes.c_uint32, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_long
    for function, result, arguments in (
        (iokit.IOServiceMatching, pointer, (text,)),
        (iokit.IOServiceGetMatchingServices, ctypes.c_int, (port, pointer, pointer)),
        (iokit.IORegistryEntryGetChildIterator, ctypes.c_int, (port, text, pointer)),
        (iokit.IORegistryEntryGetRegistryEntryID, ctypes.c_int, (port, pointer)),
        (iokit.IORegistryEntryCreateCFProperty, pointer, (port, pointer, pointer, ctypes.c_uint32)),
        (iokit.IOIteratorNext, port, (port,)),
        (iokit.IOIteratorIsValid, ctypes.c_int, (port,)),
        (iokit.IOObjectRelease, ctypes.c_int, (port,)),
        (core.CFStringCreateWithCString, pointer, (pointer, text, ctypes.c_uint32)),
        (core.CFPropertyListCreateData, pointer, (pointer, pointer, index, ctypes.c_ulong, pointer)),
        (core.CFDataGetBytePtr, pointer, (pointer,)),
        (core.CFDataGetLength, index, (pointer,)),
        (core.CFRelease, None, (pointer,)),
    ):
        function.restype, function.argtypes = result, arguments
    return iokit, core
