"""What a suite would measure, told."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from commanded import wingspan

from bench.claims import answerable


def test_plan_json_has_the_contracts_keys(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    document = json.loads(wingspan("plan", write_suite({"a": {}}), "--results", tmp_path, "--json").stdout)
    assert set(document) == {"cells", "totals"}
    (cell,) = document["cells"]
    assert {"cell", "model", "method", "backend", "device", "action", "reason", "predicted"} <= set(cell)
    assert (cell["action"], cell["predicted"]) == ("run", None)


def test_a_plan_for_a_machine_of_the_catalogue(tmp_path: Path) -> None:
    document = json.loads(wingspan("plan", "lesson", "--machine", "pc-rtx-4090", "--results", tmp_path, "--json").stdout)
    actions = {(cell["backend"], cell["device"]): set() for cell in document["cells"]}
    for cell in document["cells"]:
        actions[cell["backend"], cell["device"]].add(cell["action"])
    assert actions["hf", "cuda"] == {"run", "skip"}
    assert len(document["cells"]) == 72


def test_the_lessons_whole_grid_is_predicted_by_one_command() -> None:
    done = wingspan("plan", "lesson", "--machine", "pc-rtx-4090", "--json")
    cells = json.loads(done.stdout)["cells"]
    assert all(cell["predicted"]["peak_bytes"] for cell in cells)
    skipped = {cell["cell"] for cell in cells if (cell["reason"] or "").startswith("needs about")}
    assert {"qwen3-14b/lora/hf@cuda", "llama-3.1-8b/full/hf@cuda"} <= skipped
    assert all(cell["predicted"]["fits"] == "no" for cell in cells if cell["cell"] in skipped)


def test_a_nights_plan_is_what_that_night_would_run(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite, results = write_suite({"a": {}}), tmp_path / "results"

    def actions(*night: str) -> list[str]:
        return [
            cell["action"] for cell in json.loads(wingspan("plan", suite, "--results", results, "--json", *night).stdout)["cells"]
        ]

    assert wingspan("run", suite, "--results", results, "--night", "2020-11-30").exit_code == 0
    assert actions("--night", "2020-11-30") == ["done"]
    assert actions("--night", "2020-12-01") == actions() == ["run"]


def test_a_claim_that_no_suite_can_answer_is_an_error(
    write_suite: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = write_suite({"a": {}})
    monkeypatch.setattr(answerable, "SUITES", suite.parent)
    done = wingspan("plan", suite, "--results", tmp_path)
    assert done.exit_code == 2
    assert "memory.table.full.8b: no suite in suites/ has a cell that could answer it" in done.output
    assert "; add its work to one, or mend the claim" in done.output
