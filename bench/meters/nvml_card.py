"""One NVIDIA card through its driver's library, asked in a way that tells "not given" from a value.

In: the module `pynvml`, a value of CUDA_VISIBLE_DEVICES. Out: a `Card` whose `ask` returns what the driver said, raises
`NotGiven` with the reason where this card or this driver does not give it, and raises DeviceLost where the driver says that the
card is gone. Error codes are those of nvml.h (`nvmlReturn_t`); the module has them as `NVMLError.value`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.meters.interface import DeviceLost, Unavailable

NOT_FOUND = 6
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
NO_SUCH_FUNCTION = 13
UNKNOWN = 999
LOST = (DRIVER_NOT_LOADED, 15, 16)
"""Once the library is open: no driver any more, GPU is lost, GPU needs a reset."""
NEVER = (2, 3, 4, NO_SUCH_FUNCTION, 25)
"""Invalid argument, not supported, no permission, no such function, a structure's version unknown: asking again is vain."""
INSTANT_POWER_FIELD = 186
"""NVML_FI_DEV_POWER_INSTANT, in scope 0: the GPU board, where scope 1 is a whole module such as Grace Hopper's."""
MEMORY_VERSION_2 = 0x02000028
"""nvmlMemory_v2: the structure that tells `reserved` apart."""


class NotGiven(Exception):
    """The driver does not give this; the message is the reason. `code` is NVML's, None where it is not an error of NVML."""

    def __init__(self, reason: str, code: int | None = None) -> None:
        super().__init__(reason)
        self.code = code

    @property
    def for_good(self) -> bool:
        """Whether asking again is vain."""
        return self.code in NEVER


@dataclass(frozen=True, slots=True)
class Card:
    """A card of the open library `module`."""

    module: Any
    handle: Any

    def ask(self, *functions: str, arguments: tuple[Any, ...] = ()) -> Any:
        """What the first of these functions that exists here says. Raises NotGiven, DeviceLost.

        A function is absent where the module is older (AttributeError), where the driver is (FunctionNotFound), or where both
        differ in a function without a version in its name (NVMLLibraryMismatchError of nvidia-ml-py).
        """
        for function in functions:
            try:
                return getattr(self.module, function)(self.handle, *arguments)
            except AttributeError:
                continue
            except self.module.NVMLError as error:
                if error.value != NO_SUCH_FUNCTION:
                    raise _translated(function, error) from error
            except self._mismatch():
                continue
        raise NotGiven(f"this driver, or its Python module, is too old for {functions[0]}", NO_SUCH_FUNCTION)

    def power_instant_mw(self) -> int:
        """Power at this moment. Raises NotGiven, DeviceLost."""
        (field,) = self.ask("nvmlDeviceGetFieldValues", arguments=([INSTANT_POWER_FIELD],))
        if field.nvmlReturn:
            raise NotGiven(
                f"the driver does not give field 186, power at this moment (error {field.nvmlReturn})", field.nvmlReturn
            )
        return int(field.value.uiVal)

    def memory_used_bytes(self) -> int:
        """Memory in use by everybody. Raises NotGiven, DeviceLost.

        What driver and firmware keep back is left out where version 2 of the structure tells it apart; version 1 counts it as
        used. Whether `used` of version 2 holds it is documented both ways (R525: yes; R590: silent; drivers seen: no), so it is
        reckoned from the other three.
        """
        try:
            info = self.ask("nvmlDeviceGetMemoryInfo", arguments=(MEMORY_VERSION_2,))
            return int(info.total - info.free - info.reserved)
        except NotGiven as without:
            if not without.for_good:
                raise
        return int(self.ask("nvmlDeviceGetMemoryInfo").used)

    def _mismatch(self) -> tuple[type[Exception], ...]:
        kind: type[Exception] | None = getattr(self.module, "NVMLLibraryMismatchError", None)
        return (kind,) if kind is not None else ()


def _translated(function: str, error: Any) -> Exception:
    if error.value in LOST:
        return DeviceLost(f"{function}: {error}")
    return NotGiven(f"{function}: {error}", error.value)


def chosen_card(module: Any, visible: str | None) -> Card:
    """The card that a worker calls `cuda:0`: the first entry of CUDA_VISIBLE_DEVICES, or card 0 without it.

    An entry is an index in the order of the PCI bus (the worker gets CUDA_DEVICE_ORDER=PCI_BUS_ID), the beginning of a GPU's
    UUID, or a MIG device's UUID (CUDA C++ Programming Guide, "CUDA Environment Variables"). Raises Unavailable.
    """
    first = "0" if visible is None else visible.split(",")[0].strip()
    try:
        if first.isdigit() and int(first) < module.nvmlDeviceGetCount():
            return Card(module, module.nvmlDeviceGetHandleByIndex(int(first)))
        if first.startswith("MIG-"):
            return Card(module, module.nvmlDeviceGetHandleByUUID(first))
        if first.startswith("GPU-"):
            handles = [module.nvmlDeviceGetHandleByIndex(index) for index in range(module.nvmlDeviceGetCount())]
            (handle,) = (handle for handle in handles if text(module.nvmlDeviceGetUUID(handle)).startswith(first))
            return Card(module, handle)
    except (module.NVMLError, ValueError) as error:
        raise Unavailable(f"CUDA_VISIBLE_DEVICES names {first!r}, and the driver has not one such card: {error}") from error
    if visible is None:
        raise Unavailable("the driver sees no card")
    raise Unavailable(f"CUDA_VISIBLE_DEVICES is {visible!r}, which leaves no card visible")


def text(value: str | bytes) -> str:
    """A string of the driver's; older modules give bytes."""
    return value.decode() if isinstance(value, bytes) else value
