"""Names of parties and workloads, and the order of rows."""

from __future__ import annotations

import pandas as pd

from bench.report import labels


def test_a_workload_is_named_without_its_method_and_with_its_digest_where_the_name_is_not_enough() -> None:
    frame = pd.DataFrame(
        {
            "work": ["m/lora", "m/lora", "n/lora/batch_size=4"],
            "method": ["lora"] * 3,
            "workload_digest": ["abcdef99", "123456ff", "ffffff00"],
        }
    )
    assert list(labels.work_names(frame)) == ["m #abcdef", "m #123456", "n/batch_size=4"]


def test_rows_go_by_method_then_size_unknown_last() -> None:
    frame = pd.DataFrame(
        {
            "method": ["lora", "full", "lora", "lora"],
            "parameters": [9e9, 5.0, None, 1e9],
            "work": list("abcd"),
            "workload_digest": "",
        }
    )
    assert list(labels.in_order(frame)["work"]) == ["b", "d", "a", "c"]


def test_a_party_is_a_backend_on_a_device_of_a_machine() -> None:
    frame = pd.DataFrame({"above_backend": ["hf"], "above_device": ["cuda"], "above_machine": ["pc"]})
    assert list(labels.party_names(frame, "above_")) == ["hf@cuda on pc"]
