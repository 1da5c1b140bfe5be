"""This computer's own rates: measured in a child by `doctor --calibrate`, kept in results/machines/, read as a profile.

In: the machine and its devices. Out: `Rates` by device, as JSON beside the runs; a `MachineProfile` made of them for a machine
that the catalogue does not have, so that speed can be predicted there too; and the `Share` that torch takes of its card.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ConfigDict, ValidationError

from bench.catalog import MachineProfile
from bench.files import atomic
from bench.meters.interface import DeviceLost, Unavailable, Watched, load_meter
from bench.reading.strict import BadFile, printable, problems_of, read_json
from bench.record import Machine
from bench.spec import Device, Dtype

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What one device reached: products a second by dtype, bytes a second of a copy (read and written), seconds a small kernel.

    Of a CUDA card also what torch takes beside its tensors, in bytes: `context_bytes` of the driver, `workspace_bytes` for
    products by dtype; and the `versions` with which it was so. `disturbed` are flags that a run would have earned meanwhile.
    Where it could not be measured, only `reason` says something.
    """

    device: str
    framework: str | None = None
    matrix_flops_per_s: dict[str, float] | None = None
    memory_bytes_per_s: float | None = None
    launch_s: float | None = None
    context_bytes: int | None = None
    workspace_bytes: dict[str, int] | None = None
    versions: dict[str, str] | None = None
    disturbed: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What torch takes of this computer's card beside its tensors: the context, and cuBLAS's workspaces for a dtype."""

    context_bytes: int
    workspace_bytes: int
    versions: dict[str, str]


_PerSecond = Annotated[float, Ge(1e6), Le(1e18)]


class _Row(BaseModel):
    """One device as it is stored; bounds between which every device of these decades lies."""

    model_config = ConfigDict(extra="forbid")

    device: Device
    framework: str | None = None
    matrix_flops_per_s: dict[Dtype, _PerSecond] | None = None
    memory_bytes_per_s: _PerSecond | None = None
    launch_s: Annotated[float, Gt(0), Le(1)] | None = None
    context_bytes: Annotated[int, Ge(0), Le(2**40)] | None = None
    workspace_bytes: dict[Dtype, Annotated[int, Ge(0), Le(2**40)]] | None = None
    versions: dict[str, str] | None = None
    disturbed: tuple[str, ...] = ()
    reason: str | None = None


class _Stored(BaseModel):
    model_config = ConfigDict(extra="ignore")

    machine: str
    rates: list[_Row]


def measure(device: Device) -> Rates:
    """In a child process, by MLX on Metal and by torch elsewhere, or whichever is installed."""
    wanted = ("mlx",) if device == "metal" else ("torch",)
    framework = next((name for name in wanted if find_spec(name)), None)
    if framework is None:
        return Rates(device=device, reason=f"{wanted[0]} is not installed in this environment")
    command = [sys.executable, "-P", "-m", "bench.backends.rates", framework, device]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    held_before = card_held_bytes() if device == "cuda" else None
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment)
    except subprocess.TimeoutExpired:
        return Rates(device=device, framework=framework, reason=f"not done after {TIMEOUT_S:.0f} s")
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or ["no message"])[-1]
        return Rates(device=device, framework=framework, reason=f"exit {ended.returncode}: {last[:200]}")
    found = json.loads(ended.stdout.splitlines()[-1])
    return Rates(device=device, framework=framework, **_beside_tensors(found.pop("card_share", None), held_before), **found)


def card_held_bytes() -> int | None:
    """What everybody holds of the card that a child calls `cuda:0`, by the driver; None where it does not say."""
    try:
        gauge = load_meter("nvml").open(Watched(device="cuda"))
    except Unavailable:
        return None
    try:
        return next((int(each.value) for each in gauge.read() if each.quantity == "memory_used"), None)
    except DeviceLost:
        return None
    finally:
        gauge.close()


def _beside_tensors(share: dict[str, Any] | None, held_before: int | None) -> dict[str, Any]:
    """The child's share of the card is what is held while it computes, less what was held before; of that, torch's own apart.

    Both counts, the driver's before and CUDA's after, leave out what the driver keeps back for itself.
    """
    if share is None:
        return {}
    context = None if held_before is None else share["held_bytes"] - held_before - share["reserved_bytes"]
    return {"context_bytes": context, "workspace_bytes": share["workspace_bytes"], "versions": share["versions"]}


def keep(results: Path, machine: Machine, found: tuple[Rates, ...]) -> Path:
    """Store them, in the place of earlier ones; a device that could not be measured keeps those that it had.

    Raises OSError naming the file.
    """
    path = _path(results, machine.machine_id)
    try:
        earlier = {each.device: each for each in _kept(results, machine)}
    except BadFile:  # what cannot be understood is written anew
        earlier = {}
    rates = [earlier.get(each.device, each) if each.reason else each for each in found]
    content = json.dumps({"machine": machine.name, "rates": [asdict(each) for each in rates]}, indent=2)
    with atomic.staged(path, (content + "\n").encode()) as staged:
        atomic.republish(staged, path)
    return path


def own_profile(
    results: Path, machine: Machine, device: Device, capacity_bytes: int, framework: str = "torch"
) -> MachineProfile | None:
    """A profile of this computer's device from its own rates, as that framework reached them; None where none were measured.

    The rates are those of one large product and copy, which a training step does not reach all the time either.
    Raises BadFile for a file that cannot be understood.
    """
    whole = (each for each in _kept(results, machine) if each.matrix_flops_per_s and each.memory_bytes_per_s)
    found = next((each for each in whole if each.device == device and each.framework in (None, framework)), None)
    return None if found is None else _profile(machine, found, capacity_bytes)


def own_shares(results: Path, machine: Machine) -> dict[str, Share]:
    """What torch takes of this computer's card beside its tensors, by the dtype of products; empty where it was not measured.

    Nor does it tell where another torch is installed now than was then. Raises BadFile for a file that cannot be understood.
    """
    return {
        dtype: Share(context_bytes=each.context_bytes, workspace_bytes=workspace_bytes, versions=each.versions)
        for each in _kept(results, machine)
        if each.context_bytes is not None and each.versions and each.versions.get("torch") == _torch_version()
        for dtype, workspace_bytes in (each.workspace_bytes or {}).items()
    }


def _torch_version() -> str | None:
    try:
        return version("torch")
    except PackageNotFoundError:
        return None


def _kept(results: Path, machine: Machine) -> list[Rates]:
    path = _path(results, machine.machine_id)
    return rates_of(path)[1] if path.exists() else []


def rates_of(path: Path) -> tuple[str, list[Rates]]:
    """The machine's name and its rates. Raises BadFile with every fault of the file."""
    try:
        stored = _Stored.model_validate(read_json(path))
    except ValidationError as error:
        raise BadFile(problems_of(error, printable(str(path)), lambda _: "run `wingspan doctor --calibrate` again")) from None
    return stored.machine, [Rates(**row.model_dump()) for row in stored.rates]


def _profile(machine: Machine, found: Rates, capacity_bytes: int) -> MachineProfile:
    flops: dict[str, Any] = found.matrix_flops_per_s or {}
    source = "measured on this computer by doctor --calibrate"
    if found.disturbed:
        source += f", disturbed ({', '.join(found.disturbed)}): run it again while nothing else does"
    return MachineProfile(
        name=machine.name,
        title=machine.chip,
        chip=machine.chip,
        memory_bytes=machine.memory_bytes,
        capacity_bytes=capacity_bytes,
        source=source,
        peak_flops_per_s=flops.get("bfloat16"),
        peak_flops_source=source,
        float32_flops_per_s=flops.get("float32"),
        float32_flops_source=source,
        memory_bytes_per_s=found.memory_bytes_per_s,
        memory_rate_source=source,
        launch_s=found.launch_s,
        launch_source=source,
    )


def _path(results: Path, machine_id: str) -> Path:
    return results / "machines" / f"{machine_id}.json"
