"""Whether cells ran: what all runs of a cell together say of its fit, found once for all claims.

In: prepared runs (`bench.analysis.prepare`). Out: a `Tried` for each cell on each machine, its own or the one whose memory it was
held to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from bench.analysis import HELD
from bench.claims.claim import Tier
from bench.record import FAILED_OUTCOMES
from bench.sweep.evidence import MEMORY_OUTCOMES

PEAKS = ("framework_peak_bytes", "device_peak_bytes")
"""What a run took of its device: by the framework's count, and by the driver's. Main memory beside a card is none of it."""
OWN_PEAK = ("framework_peak_bytes",)
"""The framework's own, as the lesson's arithmetic means it."""
PLACE = ["tier", "machine", "backend", "device", "cell", "workload_digest"]
_TOLD = ("run_id", "outcome", "flags", "share")
NO_FIT_FLAGS = frozenset({"swapping", "spilled"})
UNSURE_FLAGS = frozenset({"growing", "memory-growing"})
SHARED_FLAGS = frozenset({"foreign-process", "foreign-unknown"})
"""Somebody else had, or may have had, part of the device: that memory ended the run says nothing of the work then."""
NAMED_APART = re.compile(r" \[[^\[\] ]{1,6}\]$")
"""What `bench.analysis` puts behind a machine's name where two have one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One cell. `machine` is the one that it speaks of: its own, or the one whose memory it was held to.

    `chance` is 1 where every run that says something ran, 0 where memory ended every one, else the share; None where nothing is
    said. `headroom` is the share of the capacity that the largest peak left. `slow`: some run lived on memory that is not the
    device's. `declared` are the fields of the workload.
    """

    tier: Tier
    machine: str
    who: str
    backend: str
    device: str
    model: str
    method: str
    declared: Mapping[str, Any]
    chance: float | None
    run_ids: tuple[str, ...]
    headroom: float | None
    slow: bool


def tried(frame: pd.DataFrame) -> tuple[Tried, ...]:
    """In the order of `PLACE`."""
    first = frame.drop_duplicates(PLACE).sort_values(PLACE, kind="stable")
    rows = ({str(name): value for name, value in row.items()} for row in first.to_dict("records"))
    groups = frame.assign(share=_shares(frame))[[*PLACE, *_TOLD]].groupby(PLACE, sort=True)
    tried = (_tried(row, group) for row, (_, group) in zip(rows, groups, strict=True))
    return tuple(each for each in tried if each is not None)


def _tried(row: Mapping[str, Any], group: pd.DataFrame) -> Tried | None:
    """Of the runs of a cell, the first of them whole; None where they are neither measured nor a stand-in."""
    spoken_of = stands_for(str(row["tier"]), str(row["machine"]))
    if spoken_of is None:
        return None
    tier, machine = spoken_of
    flags = [frozenset(each) for each in group["flags"]]
    return Tried(
        tier=tier,
        machine=machine,
        who=f"{row['backend']}@{row['device']} on {row['machine']}",
        backend=str(row["backend"]),
        device=str(row["device"]),
        model=str(row["model"]),
        method=str(row["method"]),
        declared=row,
        chance=_chance(group["outcome"].tolist(), flags),
        run_ids=tuple(sorted(group["run_id"].tolist())),
        headroom=None if group["share"].isna().all() else float(1 - group["share"].max()),
        slow=any(NO_FIT_FLAGS & each for each in flags),
    )


def stands_for(tier: str, machine: str) -> tuple[Tier, str] | None:
    """The tier and the machine that runs speak of: their own, or the one whose memory they were held to. None: of neither."""
    kind, held, limit = tier.partition(HELD)
    if kind == "measured" and not held:
        return "measured", machine_named(machine)
    return ("stand-in", limit.partition(" as ")[2]) if held and kind in ("measured", "stand-in") else None


def machine_named(name: str) -> str:
    """The machine's name, without what tells two of one name apart."""
    return NAMED_APART.sub("", name)


def _chance(outcomes: list[str], flags: list[frozenset[str]]) -> float | None:
    said = [_ran(outcome, each) for outcome, each in zip(outcomes, flags, strict=True)]
    known = [each for each in said if each is not None]
    return sum(known) / len(known) if known else None


def _ran(outcome: str, flags: frozenset[str]) -> bool | None:
    if outcome in MEMORY_OUTCOMES:
        return None if flags & SHARED_FLAGS else False
    if flags & NO_FIT_FLAGS:
        return False
    if outcome != "ok" or flags & UNSURE_FLAGS or outcome in FAILED_OUTCOMES:
        return None
    return True


def _shares(frame: pd.DataFrame) -> pd.Series[float]:
    """Of the capacity, what each run's larger peak took; NaN where its memory is not known, or a flag spoils it."""
    known = frame["clean_memory"] & (frame["capacity_bytes"] > 0)
    return frame[list(PEAKS)].max(axis=1).div(frame["capacity_bytes"]).where(known)
