"""A cell on a machine, answered: memory, fit, speed.

In: a cell, the machine's profile, and how to find its memory: by rules, in about a millisecond, or from the step itself
(`trace`: hf under fake tensors, MLX's own graph), in a child process that imports the framework. Out: a `Prediction`.

`place` says what is known of a machine's device: the catalogue's profile, or this computer's own rates. `foreteller` predicts the
cells of a plan or a sweep there, each once: what was predicted before a run is what its row says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from bench.backends.interface import UnsupportedError
from bench.catalog import MachineProfile
from bench.limits import Limit, capacity_bytes, profile_of
from bench.own_rates import Share, own_profile, own_shares
from bench.predict import rules
from bench.predict.capacity import fit_probability
from bench.predict.own_share import with_share
from bench.predict.prediction import Memory, Prediction, Speed
from bench.predict.shape import shape_of
from bench.predict.speed import speed
from bench.reading.strict import BadFile
from bench.record import Machine
from bench.spec import BackendName, BadInput, Cell, Device

Means = Literal["rules", "trace"]
Foreteller = Callable[[Cell], Prediction | None]
Chances = Callable[[Cell], float | None]
ROOT = Path(__file__).resolve().parents[2]
CHILD_S = 900.0
"""A trace takes seconds; importing a framework on a slow disk, a minute."""
FAILED, UNABLE = 1, 2
"""The child's exit codes beside 0: it broke; the cell cannot be traced, and the last line of its messages says why."""
NO_RATES = "no rates of this computer's {device} are known, so no speed is predicted: `wingspan doctor --calibrate` measures them"
OWN_RATES = (
    "speed: from rates measured here, of which work is taken to reach the share seen on GPUs; a CPU may reach a third of that"
)
"""Llama-3.2-1B and Qwen3-0.6B on hf@cpu: 0.25 to 0.53 of the tokens/s predicted so, in four runs flagged for contention."""
MLX_ON_CPU = "no speed is predicted of MLX on a CPU: its kernels there reach no fixed share of what the CPU can do"
"""Qwen3-0.6B full and Llama-3.2-1B QLoRA trained at 0.3 and 0.03 tokens a second where torch's did at 3.0 and 2.3."""
CATALOGUES = "profile-"
"""How the id of a machine begins that is not this computer but a profile of the catalogue (`bench.machine.catalogue_machine`)."""


def predict(
    cell: Cell,
    profile: MachineProfile | None,
    how: Means = "rules",
    *,
    capacity: int | None = None,
    share: Share | None = None,
) -> Prediction:
    """What the cell needs on that machine (None: on none in particular).

    `capacity` is what a process can have, in bytes, where it is not the profile's; `share` what torch takes of the card beside
    its tensors, where that was measured. Raises BadInput for a configuration that names no sizes, and, with `trace`,
    UnsupportedError where the step cannot be had.
    """
    memory = rules.memory(cell) if how == "rules" else traced(cell)
    memory = memory if share is None else with_share(memory, share)
    there = capacity if capacity is not None else profile_capacity(profile, cell.device)
    fits = None if there is None else fit_probability(memory, there)
    return Prediction(memory=memory, speed=_speed(cell, profile), capacity_bytes=there, fit_probability=fits)


def _speed(cell: Cell, profile: MachineProfile | None) -> Speed:
    """None of a mixture of experts: what is counted is a step through all its weights, and a token takes few of them."""
    if shape_of(cell.workload.model).experts > 1:
        return Speed(notes=("no speed is predicted of a mixture of experts: which of them a token takes is not counted",))
    return speed(cell, profile)


def profile_capacity(profile: MachineProfile | None, device: Device) -> int | None:
    """What a profile says of a device: a card's, or unified memory; of a computer's main memory beside a card it says nothing."""
    if profile is None or (device == "cpu" and profile.gpu is not None):
        return None
    return profile.capacity_bytes if device != "cpu" else profile.memory_bytes


@dataclass(frozen=True, slots=True)
class Place:
    """A device of a machine: its profile (None: no rates are known), and the bytes that a process can have of it.

    `note` says what a reader of the speed has to know: where the rates are this computer's own, or how they would become known.
    `shares` are what torch was measured to take of this computer's card beside its tensors, by the dtype of products.
    """

    profile: MachineProfile | None
    capacity_bytes: int | None
    note: str | None = None
    shares: Mapping[str, Share] = field(default_factory=dict)


def place(
    machine: Machine, backend: BackendName, device: Device, results: Path | None = None, limit: Limit | None = None
) -> Place:
    """What is known of a machine's device, for a backend's work, under a limit or none.

    Rates are those of the catalogue's profile, else those that `doctor --calibrate` measured here and left in `results`; of a CPU
    only the latter tell, and only to the framework that measured them. Capacity is the limit's, else what the profile or the
    driver says of the device; the CPU's is the main memory. Raises BadFile for measured rates that cannot be understood.
    """
    profile = profile_of((limit.like if limit else None) or machine.name)
    there = limit.capacity_bytes if limit else _capacity_bytes(machine, profile, device)
    if machine.machine_id.startswith(CATALOGUES):
        return Place(profile, there)
    shares = own_shares(results, machine) if results and device == "cuda" and backend != "mlx" else {}
    if profile is not None and device != "cpu":
        return Place(profile, there, shares=shares)
    framework = "mlx" if backend == "mlx" or device == "metal" else "torch"
    if framework == "mlx" and device == "cpu":
        return Place(profile, there, MLX_ON_CPU)
    own = own_profile(results, machine, device, there or machine.memory_bytes, framework) if results else None
    if own is None:
        return Place(profile, there, NO_RATES.format(device=device), shares)
    return Place(own, there, f"{OWN_RATES} ({own.source})", shares)


def predict_at(cell: Cell, where: Place, how: Means = "rules") -> Prediction:
    """As `predict`, with what is to be known of the place among the notes."""
    share = where.shares.get(cell.workload.weights_dtype)
    found = predict(cell, where.profile, how, capacity=where.capacity_bytes, share=share)
    if where.note is None or shape_of(cell.workload.model).experts > 1:
        return found
    if found.speed.tokens_per_s is None:
        return replace(found, speed=Speed(notes=(where.note,)))
    return replace(found, speed=replace(found.speed, notes=(*found.speed.notes, where.note)))


def foreteller(machine: Machine, limit: Limit | None = None, results: Path | None = None) -> Foreteller:
    """Predictions by rules for a machine's cells, each made once. None where there is nothing to predict: fake work.

    `results` is where this computer's own rates may lie. Raises BadFile, when asked, where they cannot be understood.
    """

    @cache
    def at(backend: BackendName, device: Device) -> Place:
        return place(machine, backend, device, results, limit)

    @cache
    def foretell(cell: Cell) -> Prediction | None:
        if cell.backend == "fake":
            return None
        where = at(cell.backend, cell.device)
        try:
            return predict_at(cell, where)
        except BadFile:  # a fault of the calibration: to be told, not to be taken for a model without sizes
            raise
        except BadInput:  # a configuration without sizes: it can run, and nothing can be said before
            return None

    return foretell


def chances(machine: Machine, limit: Limit | None = None) -> Chances:
    """The probability that a cell fits, by the rules of memory alone: half the time of a whole prediction. None: not known."""
    profile = profile_of((limit.like if limit else None) or machine.name)

    @cache
    def there(device: Device) -> int | None:
        return limit.capacity_bytes if limit else _capacity_bytes(machine, profile, device)

    def chance(cell: Cell) -> float | None:
        capacity = there(cell.device)
        if cell.backend == "fake" or capacity is None:
            return None
        try:
            return fit_probability(rules.memory(cell), capacity)
        except BadFile:  # a fault of the calibration
            raise
        except BadInput:  # a configuration without sizes
            return None

    return chance


def _capacity_bytes(machine: Machine, profile: MachineProfile | None, device: Device) -> int | None:
    known = profile_capacity(profile, device)
    if machine.machine_id.startswith(CATALOGUES) or (known is not None and device != "cpu"):
        return known
    return capacity_bytes(machine, device)


def traced(cell: Cell) -> Memory:
    """The cell's memory from its own step, found in a child. Raises UnsupportedError, with the reason, where it cannot be had."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
    lifeline, held = os.pipe()  # closed by the system when this process ends, however it ends
    try:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "bench.predict.child", str(lifeline)],
            input=json.dumps(cell.to_json()),
            env=environment,
            pass_fds=(lifeline,),
            capture_output=True,
            text=True,
            timeout=CHILD_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnsupportedError(f"the trace took longer than {CHILD_S:.0f} s; --how rules answers at once") from None
    finally:
        os.close(lifeline)
        os.close(held)
    if ended.returncode < 0:
        why = f"the tracing process was ended by signal {-ended.returncode}, perhaps for want of memory"
        raise UnsupportedError(f"--how trace: {why}; --how rules predicts it")
    if ended.returncode:
        why = (ended.stderr.strip().splitlines() or ["no reason given"])[-1]
        if ended.returncode != UNABLE:
            raise UnsupportedError(f"the trace failed: {why}; --how rules answers at once")
        raise UnsupportedError(why if "rules" in why else f"--how trace: {why}; --how rules predicts it")
    return memory_of(json.loads(ended.stdout.splitlines()[-1]))


def memory_of(stored: dict[str, Any]) -> Memory:
    """The inverse of `dataclasses.asdict` after JSON."""
    return Memory(**{**stored, "notes": tuple(stored["notes"])})
