"""What works on this machine, found by trying.

In: this machine and this environment. Out: the machine, and for every backend and meter whether it works here, why not, and
the remedy; the flags that a run would earn now; and, if asked, which stack has which technique. A backend whose packages and
device are there proves itself: a child process trains one step of a tiny 4-bit model with it, through the very code that
measures. Before that the machine is watched at rest for two seconds a device, and judged as a run is.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.backends.interface import BACKENDS, Backend, load_backend
from bench.catalog import catalogue
from bench.events import Event
from bench.holes import hole
from bench.meters.interface import METERS, Watched, load_meter
from bench.own_rates import Rates, measure
from bench.record import Machine
from bench.spec import Cell, Device, Measure, workload
from bench.support import Matrix, probe_all, table
from bench.sweep.child import Job, watch
from bench.sweep.evidence import judge
from bench.sweep.idle import watch_at_rest
from bench.sweep.interrupt import Interrupt, catch_interrupts
from bench.sweep.lock import hold_machine, lock_path
from bench.sweep.sampling import Recording, sampling
from bench.trust.assessed import Assessed
from bench.trust.disturbance import disturbance
from bench.trust.flags import FLAGS

REST_S = 2.0
PROBE_MODEL = "tiny-llama-xs"
PROBE_TIMEOUT_S = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendCheck:
    """One backend on one device."""

    name: str
    device: str
    available: bool
    reason: str | None = None
    remedy: str | None = None
    versions: dict[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterCheck:
    """One meter."""

    name: str
    scope: str
    available: bool
    reason: str | None = None
    remedy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """A flag that a run on these devices would earn now."""

    flag: str
    reason: str
    remedy: str
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything `doctor` says."""

    machine: Machine
    backends: tuple[BackendCheck, ...]
    meters: tuple[MeterCheck, ...]
    warnings: tuple[Warned, ...] = ()
    rates: tuple[Rates, ...] = ()
    support: Matrix | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def diagnose(machine: Machine, *, calibrate: bool = False, support: bool = False) -> Diagnosis:
    """Try everything: half a minute where real frameworks are installed. `calibrate` measures each device's own rates too,
    `support` looks for every named technique in every stack.

    Raises MachineBusy while a sweep holds the machine, which trying would disturb; KeyboardInterrupt where the user stops it.
    """
    holder = {"pid": os.getpid(), "suite": "(doctor)", "since": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}"}
    with hold_machine(lock_path(), holder), catch_interrupts() as interrupt:
        warnings = warned({device: at_rest(device, interrupt) for device in _apart(machine.devices)})
        backends = tuple(_check(load_backend(name), device, machine, interrupt) for name, device in _pairs(machine))
        rates = tuple(_rates(device, warnings) for device in _apart(machine.devices)) if calibrate else ()
        matrix = probe_all() if support else None
    return Diagnosis(machine, backends, tuple(_check_meter(name) for name in METERS), warnings, rates, matrix)


def _rates(device: Device, warnings: tuple[Warned, ...]) -> Rates:
    """The device's own rates, with what disturbs it at present."""
    return replace(measure(device), disturbed=tuple(each.flag for each in warnings if device in each.devices))


def _apart(devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """The devices without `mps` beside `metal`, which is the same GPU by another name."""
    return tuple(device for device in devices if device != "mps" or "metal" not in devices)


def at_rest(device: Device, interrupt: Interrupt) -> Assessed:
    """What disturbs the device while nothing is measured on it. Raises KeyboardInterrupt where the user stops it."""
    with sampling(Watched(device=device)) as sampler:
        watch_at_rest(sampler, interrupt, REST_S)
        sampler.finish()
    if interrupt.requested:
        raise KeyboardInterrupt
    return _judged(sampler.recording, device)


def _judged(recording: Recording, device: Device) -> Assessed:
    """The rest as if it were the measured steps of a run."""
    times_s = [reading.t_s for reading in recording.readings]
    return disturbance(
        recording.readings,
        (min(times_s), max(times_s)) if times_s else None,
        device,
        recording.missing,
        settings_before=recording.settings_before,
        settings_after=recording.settings_after,
        idle_settings={},
    )


def warned(found: Mapping[Device, Assessed]) -> tuple[Warned, ...]:
    """The flags raised, each with the devices on which it was, and what was seen of it."""
    devices: dict[tuple[str, str], list[str]] = {}
    for device, assessed in found.items():
        for flag in assessed.flags:
            devices.setdefault((flag, FLAGS[flag].cause + _seen(flag, assessed)), []).append(device)
    return tuple(
        Warned(
            flag=flag,
            reason=f"a run on {' or '.join(where)} would be flagged now: {cause}",
            remedy=FLAGS[flag].remedy,
            devices=tuple(where),
        )
        for (flag, cause), where in devices.items()
    )


def _seen(flag: str, assessed: Assessed) -> str:
    if flag == "cpu-contention":
        return f" ({assessed.columns['others_cpu_share']:.2f} cores at rest)"
    if flag == "foreign-unknown":
        return f" ({assessed.not_measured['foreign-process']})"
    return ""


def _pairs(machine: Machine) -> Iterator[tuple[Any, Device]]:
    """Every backend with each of its devices that this machine has; with its first device where the machine has none."""
    for name in BACKENDS:
        if name == "fake":
            continue
        backend = load_backend(name)
        here = [device for device in backend.devices if device in machine.devices]
        for device in here or backend.devices[:1]:
            yield name, device


def _check(backend: Backend, device: Device, machine: Machine, interrupt: Interrupt) -> BackendCheck:
    cell = _probe_cell(backend, device)
    missing = hole(cell, machine)
    if missing is not None:
        return BackendCheck(name=backend.name, device=device, available=False, reason=missing.reason, remedy=missing.remedy)
    return _try(cell, interrupt)


def _probe_cell(backend: Backend, device: Device) -> Cell:
    """One step of 4-bit training on the smallest model of the catalogue."""
    declared = workload(model=catalogue().models[PROBE_MODEL], method="qlora", sequence_length=16, rank=4)
    return Cell(declared, backend.name, device)


def _try(cell: Cell, interrupt: Interrupt) -> BackendCheck:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        measure = asdict(Measure(warmup_steps=0, warmup_max_steps=0, steps=1))
        job = Job(cell=cell.to_json(), measure=measure, event_timeout_s=PROBE_TIMEOUT_S, log=log)
        trace, ending, _ = watch(job, interrupt, _ignore)
    if interrupt.requested:
        raise KeyboardInterrupt
    outcome, reason = judge(trace, ending)
    versions = dict(trace.started.versions) if trace.started else None
    if outcome == "ok":
        return BackendCheck(name=cell.backend, device=cell.device, available=True, versions=versions)
    remedy = "reinstall the extra in a fresh environment; the reason is the framework's own"
    return BackendCheck(
        name=cell.backend, device=cell.device, available=False, reason=f"{outcome}: {reason}", remedy=remedy, versions=versions
    )


def _ignore(event: Event) -> None:
    return None


def _check_meter(name: str) -> MeterCheck:
    meter = load_meter(name)
    found = meter.availability()
    return MeterCheck(name=name, scope=meter.scope, available=found.available, reason=found.reason, remedy=found.remedy)


def describe(found: Diagnosis) -> str:
    """The diagnosis for a reader."""
    machine = found.machine
    gpus = ", ".join(f"{gpu.name} ({_gb(gpu.memory_bytes)})" for gpu in machine.gpus) or "none"
    lines = [
        f"machine   {machine.name} (id {machine.machine_id})",
        f"chip      {machine.chip}, {machine.cpu_cores} cores, {_gb(machine.memory_bytes)} memory",
        f"gpu       {gpus}",
        f"system    {machine.os_version}; devices: {', '.join(machine.devices)}",
    ]
    lines += [_line(f"{each.name}@{each.device}", each) for each in found.backends]
    lines += [_line(f"{each.name} ({each.scope})", each) for each in found.meters]
    lines += [_rates_line(each) for each in found.rates]
    lines += [f"support   {line}" for line in table(found.support)] if found.support else []
    lines += [f"WARNING   {each.flag}: {each.reason}; remedy: {each.remedy}" for each in found.warnings]
    return "\n".join(lines)


def _line(title: str, check: BackendCheck | MeterCheck) -> str:
    if check.available:
        return f"works     {title}{_versions(check)}"
    return f"MISSING   {title}: {check.reason}" + (f"; remedy: {check.remedy}" if check.remedy else "")


def _rates_line(found: Rates) -> str:
    if found.matrix_flops_per_s is None or found.memory_bytes_per_s is None or found.launch_s is None:
        return f"MISSING   rates of {found.device}: {found.reason}"
    products = ", ".join(f"{rate / 1e12:.2f} TFLOPS in {dtype}" for dtype, rate in found.matrix_flops_per_s.items())
    moved, started = f"{found.memory_bytes_per_s / 1e9:.0f} GB/s", f"{found.launch_s * 1e6:.1f} µs a kernel"
    return f"rates     {found.device}: {products}; {moved}; {started}{_beside_line(found)}"


def _beside_line(found: Rates) -> str:
    """What torch takes of a card beside its tensors."""
    if found.workspace_bytes is None:
        return ""
    context = "unknown" if found.context_bytes is None else f"{found.context_bytes / 1e6:.0f} MB"
    kept = ", ".join(f"{size / 1e6:.1f} MB in {dtype}" for dtype, size in found.workspace_bytes.items())
    return f"; context {context}, cuBLAS workspaces {kept}"


def _versions(check: BackendCheck | MeterCheck) -> str:
    versions = check.versions if isinstance(check, BackendCheck) else None
    return f": {', '.join(f'{name} {version}' for name, version in versions.items())}" if versions else ""


def _gb(value: int | None) -> str:
    return "memory not given" if value is None else f"{value / 1e9:.1f} GB"
