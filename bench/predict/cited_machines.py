"""The machines of published measurements: a printed name -> a profile.

In: a `Cited` row. Out: `Hardware`: the profile, the memory that one device has, how many devices the printed rate is of; or why
the row cannot be compared with one device. A name is matched by its chip and memory, however it is spelt (`spelling`). A class
of cards ("24 GB class GPU") and a card that the catalogue lacks have a capacity and no rates; a Mac of a known chip with other
memory has the chip's rates and its own capacity.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from bench.catalog import MachineProfile, machine_profiles
from bench.cited import Cited
from bench.predict.spelling import APPLE, Printed, is_apple, machine_parts
from bench.spec import Device

COPIED = re.compile(r"\bDDP\b|data[- ]parallel", re.IGNORECASE)
"""Several cards, each with the whole model: what a row of one card says, and the rate of all together."""
SPREAD_OUT = re.compile(r"FSDP|ZeRO|deepspeed|tensor[- ]parallel|pipeline[- ]parallel|shard", re.IGNORECASE)
UNNAMED = re.compile(r"^\s*(unstated|unknown|unnamed|not stated|n/?a\b)|vendor", re.IGNORECASE)
CLASS = re.compile(r"\b\d+ ?GB (?:class )?GPU\b", re.IGNORECASE)
CONSUMER = re.compile(r"\b[RG]TX *\d{4}", re.IGNORECASE)
"""Cards whose usable share of memory is that of the 24 GB ones: no error correction takes a part."""
USABLE = 23.6 / 24
"""Of a card's nominal GiB, what out-of-memory messages call its total: 23.5 to 23.65 GiB of 24 (results/published/README.md)."""
APPLE_SHARE = 0.75
"""Of a Mac's memory, what macOS gave the GPU where it was read: 72 of 96 GiB on an M2 Max, 144 of 192 on an M2 Ultra."""
NEAR = 0.08
"""A card's memory as the driver counts it and as it is sold differ by as much (48 GB of an L40S: 46,068 MiB)."""
LARGER = "a100-80gb"
"""An A100 of unnamed size is one of 80 GB: products run at one rate, and its rows give no capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """One device, and over how many of them the printed rate goes."""

    profile: MachineProfile | None = None
    capacity_bytes: int | None = None
    count: int = 1
    refused: str | None = None


def hardware_of(row: Cited, device: Device = "cuda") -> Hardware:
    """By the printed name; without one there is a peak to compare, and no rate and no capacity. `device` is that of the stack."""
    name, notes = row.hardware or "", row.notes or ""
    if UNNAMED.search(name):
        return Hardware()
    printed = _printed(name, row.memory_gb)
    if printed.count > 1 and SPREAD_OUT.search(notes):
        return Hardware(refused="sharded over several cards")
    if printed.count > 1 and not COPIED.search(notes):
        return Hardware(refused="several cards, and nothing says whether each has the whole model")
    found = _found(printed)
    if name and _is_apple(name, found) == (device == "cuda"):
        return Hardware(
            refused=f"a {device} stack on {'Apple silicon' if device == 'cuda' else 'a graphics card'}: no rules here"
        )
    if found is None:
        return Hardware(capacity_bytes=_class_bytes(name, printed), count=printed.count)
    return Hardware(profile=found, capacity_bytes=_capacity_bytes(found, printed), count=printed.count)


def machine_of(name: str, memory_gb: float | None = None) -> MachineProfile | None:
    """The profile that a printed name means; None where the catalogue lacks the chip."""
    return None if UNNAMED.search(name) else _found(_printed(name, memory_gb))


def _printed(name: str, memory_gb: float | None) -> Printed:
    """The first part of the name that names a known chip: `Intel PC + RTX 4090`, `g5.xlarge (A10G)`; else the whole of it."""
    whole = machine_parts(name)
    parts = [machine_parts(re.sub(r"\(.*?(\)|$)", " ", name)), *map(machine_parts, re.split(r"[+,()]", name))]
    known = next((part for part in (whole, *parts) if part.chip in _by_chip()), whole)
    return replace(known, count=whole.count, memory_gb=whole.memory_gb or memory_gb, cores=whole.cores)


def _found(printed: Printed) -> MachineProfile | None:
    profiles = _by_chip().get(printed.chip, ())
    if not profiles:
        return None
    if profiles[0].chip is not None:
        return _mac(profiles, printed)
    named = [each for each in profiles if printed.memory_gb and _near(each.memory_bytes, printed.memory_gb)]
    return next(iter([*named, *(each for each in profiles if each.name == LARGER), *profiles]))


def _mac(profiles: Iterable[MachineProfile], printed: Printed) -> MachineProfile:
    """A profile of the chip: of the same cores and memory if there is one, else with the memory that is named."""
    ranked = sorted(profiles, key=lambda each: (each.gpu_cores == printed.cores, each.gpu_cores or 0), reverse=True)
    if printed.memory_gb is None:
        return ranked[0]
    same = [each for each in ranked if _near(each.memory_bytes, printed.memory_gb)]
    if same:
        return same[0]
    memory_bytes = round(printed.memory_gb * 2**30)
    name = f"{(ranked[0].chip or '').lower().replace(' ', '-')}-{printed.memory_gb:.0f}gb"
    return replace(ranked[0], name=name, memory_bytes=memory_bytes, capacity_bytes=round(APPLE_SHARE * memory_bytes))


def _capacity_bytes(found: MachineProfile, printed: Printed) -> int | None:
    """None where the name leaves open which of several sizes it is, or names one that the catalogue lacks."""
    if printed.memory_gb is not None:
        return found.capacity_bytes if _near(found.memory_bytes, printed.memory_gb) else None
    return found.capacity_bytes if len({each.memory_bytes for each in _by_chip()[printed.chip]}) == 1 else None


def _is_apple(name: str, found: MachineProfile | None) -> bool:
    return found.chip is not None if found else is_apple(name)


def _class_bytes(name: str, printed: Printed) -> int | None:
    if printed.memory_gb is None:
        return None
    if APPLE.search(name):
        return round(printed.memory_gb * APPLE_SHARE * 2**30)
    if not (CLASS.search(name) or CONSUMER.search(name)):
        return None
    return round(printed.memory_gb * USABLE * 2**30)


def _near(memory_bytes: int, memory_gb: float) -> bool:
    return abs(memory_bytes / (memory_gb * 2**30) - 1) < NEAR


@cache
def _by_chip() -> Mapping[str, tuple[MachineProfile, ...]]:
    """The catalogue's profiles by chip, in one form; a board of the PCI Express bus beside that of its socket."""
    chips: dict[str, tuple[MachineProfile, ...]] = {}
    for profile in machine_profiles():
        for chip in _chips(profile):
            chips[chip] = (*chips.get(chip, ()), profile)
    return chips


def _chips(profile: MachineProfile) -> Iterator[str]:
    """An A100 on the PCI Express bus multiplies as fast as one in a socket (datasheet); an H100 there is another board."""
    chip = machine_parts(profile.gpu or profile.chip or "").chip
    yield chip
    if chip == "a100":
        yield "a100pcie"
