"""Limits on memory: what a run may have at most, and what a machine has to give.

In: `--memory-limit 24GB` or `--memory-like MACHINE`, and this machine. Out: a `Limit` in bytes with the tier of evidence that
runs under it are, or one clear refusal; and the capacity of a device where no limit was set. How a limit is kept is the
backends' matter (`Backend.limit_memory`).
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bench.catalog import MachineProfile, machine_profiles
from bench.reading.strict import meant, shown
from bench.record import Machine
from bench.spec import BadInput, Device

UNITS: Mapping[str, int] = {
    **{f"{prefix}B": 1000**power for power, prefix in enumerate("kMGT", start=1)},
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", start=1)},
}
"""GB is 10^9 bytes and GiB 2^30 (IEC 80000-13). They differ by 7%, which decides whether a model fits, so neither is guessed."""
MOST_BYTES = 10**15
"""A petabyte."""
UNIFIED: tuple[Device, ...] = ("metal", "mps")


@dataclass(frozen=True, slots=True)
class Limit:
    """What a run may have. `like` names the catalogue's machine that it stands in for; None: a bare number of bytes."""

    capacity_bytes: int
    like: str | None = None

    @property
    def tier(self) -> Literal["measured", "stand-in"]:
        """A run made like another machine is evidence of that machine's fit, and of nothing else."""
        return "measured" if self.like is None else "stand-in"

    def to_json(self) -> dict[str, Any]:
        return {"capacity_bytes": self.capacity_bytes, "like": self.like}


def size_bytes(text: str) -> int:
    """Bytes of a size such as `24GB`, `22GiB` or `1.5 GiB`. Raises BadInput with the remedy for anything else."""
    found = re.fullmatch(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)\s*", text)
    number, unit = found.groups() if found else ("", "")
    if found and not unit:
        raise BadInput(f"{shown(text)} has no unit: write {number}GB for 10^9 bytes each, or {number}GiB for 2^30")
    if unit not in UNITS:
        raise BadInput(f"{shown(text)} is no size of memory: give a number and one of {', '.join(UNITS)}, such as 24GB or 22GiB")
    size = round(float(number) * UNITS[unit])
    if size < 1:
        raise BadInput(f"{shown(text)} is no limit: nothing runs in it")
    if size > MOST_BYTES:
        raise BadInput(f"{shown(text)} is more than any machine has: leave the limit out")
    return size


def limit_of(memory_limit_bytes: int | None, memory_like: str | None) -> Limit | None:
    """The limit that the two options make; None without either.

    Raises BadInput where both are given, and for a machine that the catalogue lacks.
    """
    if memory_limit_bytes is not None and memory_like is not None:
        raise BadInput("--memory-limit and --memory-like both set the limit: give one of them")
    if memory_like is None:
        return None if memory_limit_bytes is None else Limit(memory_limit_bytes)
    profile = profile_of(memory_like)
    if profile is None:
        names = [each.name for each in machine_profiles()]
        advice = meant(memory_like, names)
        raise BadInput(f"--memory-like: no machine {shown(memory_like)} in suites/catalog/machines.toml; {advice}")
    return Limit(profile.capacity_bytes, memory_like)


def refuse_above_capacity(limit: Limit, machine: Machine, devices: Iterable[Device]) -> None:
    """Raises BadInput where one of the devices has less than the limit: memory that is not there can't be stood in for."""
    for device in sorted(set(devices)):
        there_bytes = capacity_bytes(machine, device)
        if there_bytes is not None and limit.capacity_bytes > there_bytes:
            option = "--memory-limit" if limit.like is None else f"--memory-like {limit.like}"
            raise BadInput(
                f"{option} asks for {limit.capacity_bytes:,} bytes, and {device} of {machine.name} has {there_bytes:,}: "
                "give less, or leave it out"
            )


def capacity_bytes(machine: Machine, device: Device) -> int | None:
    """What the device has to give, in bytes; None where it is not known.

    A graphics card: its memory as the driver says it. Apple silicon: the GPU's share as the user set it (`iogpu.wired_limit_mb`,
    zero where it was not set), else as the catalogue has it for this kind of machine. The CPU: physical memory.
    """
    if device == "cuda":
        return machine.gpus[0].memory_bytes if machine.gpus else None
    if device not in UNIFIED:
        return machine.memory_bytes
    profile = profile_of(machine.name)
    return wired_limit_bytes() or (profile.capacity_bytes if profile else None)


def wired_limit_bytes() -> int | None:
    """The memory that the GPU of Apple silicon may wire, where somebody set it; None where nobody did, or elsewhere."""
    try:
        command = ("sysctl", "-n", "iogpu.wired_limit_mb")
        text = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
        return int(text) * 2**20 or None
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def profile_of(name: str) -> MachineProfile | None:
    """The catalogue's machine of that name; None where it has none."""
    return next((profile for profile in machine_profiles() if profile.name == name), None)
