"""What casts doubt on a run: a closed list of flags, each with its cause, its remedy and what it spoils.

In: nothing. Out: `FLAGS`. A flagged run is kept, shown as flagged, and left out of every summary and verdict about the
quantities that the flag spoils: a window too short for the energy counter says nothing against the run's speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Spoilt = Literal["time", "memory", "energy"]
SPOILT: tuple[Spoilt, ...] = get_args(Spoilt)


@dataclass(frozen=True, slots=True)
class Flag:
    """One kind of doubt. `cause` and `remedy` are for people; `spoils` says which figures the doubt falls on."""

    cause: str
    remedy: str
    spoils: tuple[Spoilt, ...]


FLAGS: Mapping[str, Flag] = {
    "unsteady": Flag(
        "step times did not settle before the ceiling of warm-up, or too few were measured for anyone to judge whether they had",
        "close other programs, let the machine cool, or raise steps, warmup_max_steps or steady_spread in [measure]",
        ("time", "energy"),
    ),
    "memory-growing": Flag(
        "peak memory still grew when warm-up was cut short at its ceiling, so its peak was not reached",
        "raise warmup_max_steps in [measure]",
        ("memory",),
    ),
    "untracked-memory": Flag(
        "the framework counted less than half of the memory that the driver or the system saw the process take",
        "judge fit by device_peak_bytes or host_peak_bytes; look at cache_peak_bytes",
        ("memory",),
    ),
    "swapped": Flag(
        "the system swapped during the run: times include the disk's, and resident memory understates what was needed",
        "close other programs, or measure a smaller cell",
        ("time", "memory", "energy"),
    ),
    "growing": Flag(
        "memory still grew in the last half of the steps: so short a run does not show that the cell fits",
        "raise warmup_steps or steps in [measure], until the peak stays",
        ("memory",),
    ),
    "swapping": Flag(
        "the run lives on swap: it works, and at the disk's speed, not the machine's",
        "take a smaller cell for its speed; that it does not fit is a result",
        ("time", "memory", "energy"),
    ),
    "spilled": Flag(
        "the driver moved what the card cannot hold into the computer's memory, as it does under Windows, and steps wait for it",
        "set `CUDA - Sysmem Fallback Policy` to prefer none in NVIDIA's control panel, and measure again",
        ("time", "memory", "energy"),
    ),
    "limited": Flag(
        "the run was held to less memory than there is (memory_limit says how): it shows fit, and its speed is no machine's",
        "measure without --memory-limit and --memory-like for its speed",
        ("time", "energy"),
    ),
    "energy-disagreement": Flag(
        "the energy counter and the integral of power samples differ by more than 5%",
        "measure for longer (steps in [measure]); compare with a wall meter",
        ("energy",),
    ),
    "short-energy-window": Flag(
        "the measured steps lasted less than the 10 s over which an energy counter can be trusted",
        "raise steps in [measure]",
        ("energy",),
    ),
    "idle-drift": Flag(
        "after the run the device did not come back to the idle power that was measured before the sweep",
        "find what else uses the device, let it cool, and measure again",
        ("energy",),
    ),
    "settings-changed": Flag(
        "the device's power limit, clocks or locks changed during the sweep",
        "set them once, before the sweep",
        ("time", "energy"),
    ),
    "throttled": Flag(
        "the driver slowed the device for heat or hardware power in more than 1% of the samples of the measured steps",
        "improve cooling or power supply, or lower the power limit for the whole sweep",
        ("time", "energy"),
    ),
    "thermal-pressure": Flag(
        "macOS reported thermal pressure above nominal during the measured steps",
        "let the machine cool; check its fans",
        ("time", "energy"),
    ),
    "foreign-process": Flag(
        "another process used the device during the run",
        "end it (its number is in the readings' foreign_processes) and measure again",
        ("time", "memory", "energy"),
    ),
    "foreign-unknown": Flag(
        "whether another process used the device cannot be known here, and unknown is not clean",
        "measure on native Linux, outside a container, where the driver lists processes",
        ("time", "energy"),
    ),
    "cpu-contention": Flag(
        "other programs took processor time during the measured steps",
        "close them; on a virtual machine, take one with cores of its own",
        ("time", "energy"),
    ),
    "slept": Flag(
        "the computer slept during the run",
        "keep it awake (the harness asks the system for it where it can)",
        ("time", "energy"),
    ),
    "on-battery": Flag(
        "the computer ran on its battery",
        "connect its power supply",
        ("time", "energy"),
    ),
    "low-disk": Flag(
        "less than 5 GB of disk was left for swap, caches and results",
        "free some space",
        ("time",),
    ),
}


ASKED_FOR = frozenset({"limited"})
"""Flags that the user brought about: they keep a run out of the figures that they spoil, and taint no sweep."""


def doubtful(flags: Iterable[str]) -> bool:
    """Whether any of the flags casts a doubt that nobody asked for."""
    return bool(set(flags) - ASKED_FOR)


def spoils(flags: Iterable[str], what: Spoilt) -> bool:
    """Whether any of the flags spoils that kind of figure; a flag that is unknown here spoils all of them."""
    return any(flag not in FLAGS or what in FLAGS[flag].spoils for flag in flags)
