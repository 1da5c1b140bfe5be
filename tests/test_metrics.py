"""The table of metrics against the record and the flags."""

from __future__ import annotations

import dataclasses

from bench.metrics import CLEAN, METRICS
from bench.record import Run
from bench.trust.flags import SPOILT

COLUMNS = {field.name for field in dataclasses.fields(Run)}


def test_every_metric_and_every_scope_is_a_column_of_the_record() -> None:
    assert set(METRICS) <= COLUMNS
    assert {metric.scope for metric in METRICS.values()} - {None} <= COLUMNS


def test_every_kind_that_flags_spoil_has_its_column() -> None:
    assert set(CLEAN) == set(SPOILT)
    assert {METRICS[name].clean for name in ("tokens_per_s", "host_peak_bytes", "power_w")} == set(CLEAN.values())


def test_bytes_are_memory_and_joules_are_energy() -> None:
    kinds = {metric.unit: metric.kind for metric in METRICS.values()}
    assert (kinds["bytes"], kinds["J"], kinds["W"], kinds["tokens/s"]) == ("memory", "energy", "energy", "time")
