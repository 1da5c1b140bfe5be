"""Advice as JSON: plain numbers with interval, tier and evidence."""

from __future__ import annotations

import json

import pandas as pd
from advised import MAC, PC, asked, question, ran, world

from bench.advise.answer import advise
from bench.advise.document import document


def made(*args, runs=None, **declared):
    found = advise(question(*args, **declared), None if runs is None else pd.DataFrame(runs), world())
    return json.loads(json.dumps(document(found), allow_nan=False))


def test_every_figure_has_its_evidence() -> None:
    runs = ran(PC, asked("8b"), "hf", "cuda", [2000.0, 2010.0])
    content = made("8b", "lora", runs=runs)
    (method,) = content["methods"]
    option = method["options"][0]
    assert (option["machine"], option["backend"], option["fits"], option["fit_tier"]) == (PC, "hf", "yes", "measured")
    assert option["tokens_per_s"]["tier"] == "measured"
    assert option["tokens_per_s"]["evidence"] == [run["run_id"] for run in runs]
    assert option["power_w"] == {
        "value": 400.0, "low": None, "high": None, "tier": "predicted", "scope": "gpu-board", "evidence": ["rules"],
    }  # fmt: skip
    assert [stack["backend"] for stack in option["stacks"]] == ["hf", "unsloth"]
    assert method["workload"]["digest"] == asked("8b").digest
    assert option["headroom_bytes"] == round(option["headroom_share"] * option["capacity_bytes"])


def test_what_is_recommended_and_what_is_possible() -> None:
    content = made("14b", "full", "lora")
    assert content["possible"] == ["lora"]
    assert [each["recommended"] for each in content["methods"]] == [None, MAC]
    assert content["methods"][0]["options"][0]["mends"]["alone"][-1]["changes"] == {"method": "qlora"}
    assert content["unknown"]


def test_energies_of_different_scopes_have_no_ratio() -> None:
    (method,) = made("8b", "lora")["methods"]
    assert method["energy_ratio"] is None
    assert "not compared" in method["energy_note"]
