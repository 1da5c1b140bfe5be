"""What we saw: machines, steps, readings, runs.

In: nothing (no I/O, no framework). Out: frozen values, and the names and types of the stored columns. `None` always means "not
measured"; zero is a measurement.

Schema history (a column is added, never renamed or reused; older files stay readable):
  1  first schema
  2  what makes a number believable: memory before building, power and energy by counter and by integral, device settings, the
     rule by which warm-up ended, outlying steps, why a column is empty; per step the process's CPU time and resident peak
  3  serving, real weights and limits: time to first token, the revision of weights, how a memory limit was kept, and how far a
     run came that failed
  4  what was predicted of the device before the run, by which it was said to fit or not
  5  the night that a run belongs to, and the digest of the environment that it was made in, settings of the device with it
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

from bench.spec import WORKLOAD_FIELDS, BadInput, Device, Workload

if TYPE_CHECKING:
    pass

SCHEMA_VERSION = 5

Outcome = Literal[
    "ok",
    "oom_device",
    "oom_host",
    "over_limit",
    "timeout",
    "crashed",
    "device_lost",
    "machine_lost",
    "invalid",
    "unsupported",
    "skipped",
    "interrupted",
]
Tier = Literal["measured", "stand-in", "published", "predicted"]
StepPhase = Literal["warmup", "measured", "prefill", "decode"]

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
FINAL_OUTCOMES: frozenset[Outcome] = frozenset({"ok", "oom_device", "oom_host", "over_limit", "unsupported", "skipped"})
"""Outcomes that answer the question; a cell with enough of them is done."""
FAILED_OUTCOMES: frozenset[Outcome] = frozenset({"crashed", "timeout", "invalid", "device_lost", "machine_lost"})
"""Outcomes that answer nothing; the cell is tried again, `MAX_FAILURES` times in all."""
MAX_FAILURES = 2


@dataclass(frozen=True, slots=True)
class Gpu:
    """One accelerator as its driver describes it. `memory_bytes` is the whole board's, or None on unified memory."""

    name: str
    memory_bytes: int | None
    uuid: str | None = None
    driver: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One computer. `machine_id` is a hash of the hardware's own identifier; `memory_bytes` is physical main memory."""

    name: str
    machine_id: str
    system: str
    architecture: str
    os_version: str
    chip: str
    cpu_cores: int
    memory_bytes: int
    gpus: tuple[Gpu, ...] = ()
    devices: tuple[Device, ...] = ("cpu",)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One optimizer step, from the synchronised end of the step before to its own; of serving, one part of a request.

    A batch of requests is two rows of one `step`: `prefill` (the prompts go forward and the first token of each is picked;
    `tokens` are the prompts') and `decode` (the tokens after the first, one by one; `tokens` are all but each
    sequence's first). Both are called `warmup` where they belong to it. Processor time is told with the decode, for both.

    `step` counts from 1. `start_s` counts from the start of training. `tokens` are all positions that went forward,
    `loss_tokens` those that entered the loss; `loss` is their mean. `tokens_digest` is taken over the ids and the mask that
    the framework was really given. `framework_peak_bytes` is the framework's own peak since training began, `host_peak_bytes`
    the process's peak resident memory since then; `cpu_s` the processor time that the process took in this step, over all its
    threads. `outlier` marks a measured step whose duration stands apart from the others of its run (`bench.trust.outliers`).
    """

    step: int
    phase: StepPhase
    start_s: float
    duration_s: float
    tokens: int
    loss_tokens: int
    loss: float | None
    framework_peak_bytes: int | None = None
    tokens_digest: str | None = None
    host_peak_bytes: int | None = None
    cpu_s: float | None = None
    outlier: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One value of one meter, `t_s` seconds after the start of training (before it: negative). `scope` says what it covers.

    `energy` counts up from an arbitrary start; quantities and units are those of `bench.meters.interface`.
    """

    t_s: float
    meter: str
    scope: str
    quantity: str
    unit: str
    value: float | None


def checked_night(text: str) -> str:
    """A night's label, if that is a date as ISO 8601 writes it in full. Raises BadInput with the remedy otherwise."""
    with suppress(ValueError):
        if date.fromisoformat(text).isoformat() == text:
            return text
    raise BadInput(f"{text!r} is no night: give the date on which it began, in UTC, such as 2026-11-30")


def last_night(today: date) -> str:
    """The last night that can have begun by `today`, a date in UTC: tomorrow's, as a day's grace for labels of local dates."""
    return (today + timedelta(days=1)).isoformat()


def begun_night(text: str, today: date) -> str:
    """A night's label, if that night can have begun by `today`, a date in UTC. Raises BadInput with the remedy otherwise.

    One night of a distant date would be the last of its cells until then, whatever is measured meanwhile.
    """
    night, last = checked_night(text), last_night(today)
    if night > last:
        raise BadInput(f"{night} is a night to come: give one up to {last}, or set this computer's clock if that is wrong (UTC)")
    return night


WORKLOAD_COLUMNS: tuple[str, ...] = ("model", "architecture", "parameters", *WORKLOAD_FIELDS[1:])
"""The columns of `runs` that declare the work."""


def workload_columns(workload: Workload) -> dict[str, Any]:
    """A workload as columns of `runs`: every field by its name, and the model as its name, architecture and parameter count."""
    model = workload.model
    columns = {"model": model.name, "architecture": model.architecture, "parameters": model.parameters}
    return columns | {name: getattr(workload, name) for name in WORKLOAD_FIELDS[1:]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One process that ran one cell once: a row of `runs`. `workload` and `implementation` hold the columns of those names.

    `machine` names the partition. Rates count all token positions per median measured step. `*_peak_bytes` cover the
    training phase. `warmup_steps` of all `steps` came before the measured ones. Fields that no meter filled are None, and
    `not_measured` says why, by column, or by flag where nothing could judge one.

    Power and energy cover the window of the measured steps, `energy_window_s` long, in `power_scope`. `energy_j` is the counter's
    where there is one, else the integral of power samples; both are kept. `*_above_idle*` has `idle_power_w` taken off. `wall_*`
    are a wall meter's. `host_cpu_share` is processor seconds of the worker per second of measured steps, 1.0 being one core;
    `others_cpu_share` that of everything but this run. `device_peak_scope` says whether `device_peak_bytes` is the driver's
    figure for the process (`process`) or the whole device's use less its use before (`device-less-before`). `flags` are those of
    `bench.trust.flags`.

    Of serving, `tokens_per_s` is the rate of decoding and `prefill_tokens_per_s` that of the prompts, `time_to_first_token_s` the
    median prefill, `step_s_median` the median batch of requests from its start to its last token, and joules are per generated
    token. `capacity_bytes` is the memory that the run could have had: the device's, or the limit that it was held to, by the
    means that `memory_limit` names. `failed_at` says how far a run came that ended for memory: `load`, `first step`, `later
    step`.

    `night` is the night that a run was made for, as `2026-11-30`, None for a run that is no night's. Runs of equal
    `epoch_digest` were made in the same environment, with the device set the same (`bench.epochs`); 16 hex digits.
    """

    run_id: str
    started_at: datetime
    machine: str
    machine_id: str
    suite: str
    cell: str
    cell_key: str
    workload_digest: str
    workload: Mapping[str, Any]
    backend: str
    device: str
    outcome: Outcome
    implementation: Mapping[str, str] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION
    question: str | None = None
    tier: Tier = "measured"
    reason: str | None = None
    tokens_per_s: float | None = None
    prefill_tokens_per_s: float | None = None
    loss_tokens_per_s: float | None = None
    step_s_median: float | None = None
    framework_peak_bytes: int | None = None
    reserved_peak_bytes: int | None = None
    cache_peak_bytes: int | None = None
    device_peak_bytes: int | None = None
    host_peak_bytes: int | None = None
    host_cpu_share: float | None = None
    swap_growth_bytes: int | None = None
    capacity_bytes: int | None = None
    power_w: float | None = None
    power_scope: str | None = None
    energy_j: float | None = None
    idle_power_w: float | None = None
    j_per_token: float | None = None
    import_s: float | None = None
    load_s: float | None = None
    first_step_s: float | None = None
    warmup_steps: int | None = None
    steps: int | None = None
    trainable_parameters: int | None = None
    loss_first: float | None = None
    loss_last: float | None = None
    tokens_digest: str | None = None
    predicted_peak_bytes: int | None = None
    predicted_tokens_per_s: float | None = None
    parent_cpu_share: float | None = None
    flags: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    environment_digest: str | None = None
    source_revision: str | None = None
    chip: str | None = None
    accelerator: str | None = None
    memory_bytes: int | None = None
    os_version: str | None = None
    host_base_bytes: int | None = None
    device_peak_scope: str | None = None
    build_s: float | None = None
    compile_s: float | None = None
    warmup_rule: str | None = None
    outlier_steps: int | None = None
    peak_power_w: float | None = None
    energy_counter_j: float | None = None
    energy_integral_j: float | None = None
    energy_above_idle_j: float | None = None
    j_per_token_above_idle: float | None = None
    energy_window_s: float | None = None
    wall_power_w: float | None = None
    wall_energy_j: float | None = None
    others_cpu_share: float | None = None
    time_to_first_token_s: float | None = None
    memory_limit: str | None = None
    failed_at: str | None = None
    predicted_held_bytes: int | None = None
    device_settings: Mapping[str, str] = field(default_factory=dict)
    not_measured: Mapping[str, str] = field(default_factory=dict)
    night: str | None = None
    epoch_digest: str | None = None
