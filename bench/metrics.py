"""The columns of `runs` that can be summarised and compared.

In: nothing. Out: `METRICS`, each with its unit, the better direction, the kind of flags that spoil it, and where figures of
different scope share the column, the column that tells the scope.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.trust.flags import Spoilt

CLEAN: Mapping[Spoilt, str] = {"time": "clean", "memory": "clean_memory", "energy": "clean_energy"}
"""The column of prepared runs (`bench.analysis.prepare`) that tells whether a run's figures of that kind count."""


@dataclass(frozen=True, slots=True)
class Metric:
    """What a figure is called, its unit, which direction is the better one, and which flags spoil it.

    `scope` names the column that says what the figure covers: values of different scopes are neither pooled nor divided.
    """

    label: str
    unit: str
    higher_is_better: bool
    kind: Spoilt
    scope: str | None = None

    @property
    def clean(self) -> str:
        """The column of prepared runs that says whether this figure counts."""
        return CLEAN[self.kind]


METRICS: Mapping[str, Metric] = {
    "tokens_per_s": Metric("training rate, all tokens; of serving, decode rate", "tokens/s", True, "time"),
    "loss_tokens_per_s": Metric("training rate, loss tokens", "tokens/s", True, "time"),
    "prefill_tokens_per_s": Metric("prefill rate, prompt tokens", "tokens/s", True, "time"),
    "time_to_first_token_s": Metric("time to the first token of every sequence", "s", False, "time"),
    "step_s_median": Metric("median step, or batch of requests", "s", False, "time"),
    "load_s": Metric("time until the model stood", "s", False, "time"),
    "build_s": Metric("time to make or read its weights", "s", False, "time"),
    "compile_s": Metric("time of the framework's compiler", "s", False, "time"),
    "first_step_s": Metric("first step", "s", False, "time"),
    "host_cpu_share": Metric("processor time of the worker", "cores", False, "time"),
    "framework_peak_bytes": Metric("peak by the framework's counter", "bytes", False, "memory"),
    "reserved_peak_bytes": Metric("peak reserved by the framework", "bytes", False, "memory"),
    "cache_peak_bytes": Metric("peak of the framework's cache", "bytes", False, "memory"),
    "device_peak_bytes": Metric("peak on the device by its driver", "bytes", False, "memory", "device_peak_scope"),
    "host_peak_bytes": Metric("peak resident memory of the process", "bytes", False, "memory"),
    "power_w": Metric("mean power", "W", False, "energy", "power_scope"),
    "j_per_token": Metric("energy per token, of serving per generated token", "J", False, "energy", "power_scope"),
    "j_per_token_above_idle": Metric("energy per token above idle, as above", "J", False, "energy", "power_scope"),
}
