"""What the device's memory came to, and whether the framework's own count can be believed.

In: a run's readings, the peaks that the worker told of, and why meters are silent. Out: the device's peak with its scope, or the
reason why there is none, and the flag `untracked-memory`.

The framework counts what its allocator handed out; the outside figure is what the driver or the system saw. On a graphics
card that is the device's peak. Where processor and device share one memory it is the process's own peak (on Apple silicon its
`phys_footprint`, which counts what the GPU maps as well), less what the process had before anything was built, for the
interpreter and the libraries are no part of what the framework allocates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.record import Reading
from bench.spec import Device
from bench.trust.assessed import Assessed

ALLOWANCE_BYTES = 1_000_000_000
"""How far the framework may fall short of the outside figure however small it is: the runtime's context, code and libraries
take some hundred megabytes, and with a tiny model they are most of what there is."""

UNTRACKED_SHARE = 0.5
"""The framework's peak below this share of the outside peak is no account of the run."""

PER_PROCESS, WHOLE_DEVICE = "process", "device-less-before"
UNIFIED: tuple[Device, ...] = ("metal", "mps")
NO_DEVICE = "the CPU computes in main memory: see host_peak_bytes"
NO_READINGS = "no meter of the device gave readings of its memory"
NO_HOST_PEAK = "the system gave no peak of the process, which is the device's peak where the two share one memory"


def memory(
    readings: Sequence[Reading],
    device: Device,
    framework_peak_bytes: int | None,
    host_peak_bytes: int | None,
    host_base_bytes: int | None,
    missing: Mapping[str, str],
) -> Assessed:
    """The columns `device_peak_bytes` and `device_peak_scope`, and the flag `untracked-memory`.

    `readings` cover the whole run, the first of them taken before the worker touched the device. `framework_peak_bytes` is None
    where the framework has no counter (torch on the CPU): then nothing is flagged. `missing` maps a meter, or `<meter>
    <quantity>`, to the reason why it gave nothing.
    """
    peak_bytes, scope = _device_peak(readings, device, host_peak_bytes)
    outside_bytes = peak_bytes if device == "cuda" else _above(host_peak_bytes, host_base_bytes)
    flags = ("untracked-memory",) if _untracked(framework_peak_bytes, outside_bytes) else ()
    if peak_bytes is None:
        return Assessed(flags=flags, not_measured={"device_peak_bytes": _reason(device, missing)})
    return Assessed({"device_peak_bytes": peak_bytes, "device_peak_scope": scope}, flags)


def _device_peak(readings: Sequence[Reading], device: Device, host_peak_bytes: int | None) -> tuple[int | None, str]:
    """The peak and its scope: the driver's for the process; else the whole device's, less what was in use before."""
    if device in UNIFIED:
        return host_peak_bytes, PER_PROCESS
    if device == "cpu":
        return None, PER_PROCESS
    of_process = _values(readings, "memory_of_process")
    if any(of_process):  # a driver that lists the process without its memory may say 0 throughout
        return int(max(of_process)), PER_PROCESS
    used = _values(readings, "memory_used")
    return (int(max(used) - used[0]) if used else None), WHOLE_DEVICE


def _values(readings: Sequence[Reading], quantity: str) -> list[float]:
    """The values of one quantity, in order of time."""
    wanted = (reading for reading in readings if reading.quantity == quantity and reading.value is not None)
    return [reading.value for reading in sorted(wanted, key=lambda reading: reading.t_s) if reading.value is not None]


def _above(peak_bytes: int | None, base_bytes: int | None) -> int | None:
    """What was added to the base; None where either is unknown, for a guess at the base would raise flags by itself."""
    return None if peak_bytes is None or base_bytes is None else peak_bytes - base_bytes


def _untracked(framework_bytes: int | None, outside_bytes: int | None) -> bool:
    if framework_bytes is None or outside_bytes is None:
        return False
    gap_bytes = outside_bytes - framework_bytes
    return framework_bytes < UNTRACKED_SHARE * outside_bytes and gap_bytes > ALLOWANCE_BYTES


def _reason(device: Device, missing: Mapping[str, str]) -> str:
    """Why there is no device peak: the driver's words where a meter has them, the more particular first."""
    if device == "cpu":
        return NO_DEVICE
    if device in UNIFIED:
        return missing.get("process-memory", NO_HOST_PEAK)
    said = (missing.get(name) for name in ("nvml memory_of_process", "nvml memory_used", "nvml"))
    return next((reason for reason in said if reason), NO_READINGS)
