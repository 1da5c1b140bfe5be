"""Edges of fit by command, predicted and found."""

import json
from collections.abc import Callable
from pathlib import Path

from commanded import wingspan


def test_a_predicted_frontier_starts_nothing(tmp_path: Path) -> None:
    asked = ("frontier", "frontier", "--predicted", "--results", tmp_path / "results", "--only", "llama-3.1-8b/qlora/*")
    result = wingspan(*asked, "--machine", "pc-rtx-4090", "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    edges = {(edge["backend"], edge["axis"]): edge for edge in document["edges"]}
    assert set(edges) == {(backend, axis) for backend in ("hf", "unsloth", "mlx") for axis in ("sequence_length", "batch_size")}
    length = edges["hf", "sequence_length"]
    assert (length["status"], length["held"], length["run_ids"]) == ("predicted", {"batch_size": 1}, [])
    assert length["predicted"]["low"] <= length["predicted"]["likely"] <= length["predicted"]["high"]
    assert not (tmp_path / "results").exists()
    assert "--memory-like" in wingspan("frontier", "frontier", "--machine", "pc-rtx-4090").stderr


def test_a_frontier_is_found_and_told(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite, results = write_suite({"a": {"fits_tokens": 16}}), tmp_path / "results"
    suite.write_text(suite.read_text() + "[frontier]\nconfirm_steps = 5\nbatch_size = {from = 1, to = 3}\n")
    result = wingspan("frontier", suite, "--results", results, "--json")
    assert result.exit_code == 0, result.stderr
    (edge,) = json.loads(result.stdout)["edges"]
    assert (edge["last"], edge["first"], edge["status"], edge["predicted"]) == (2, 3, "confirmed", None)
    assert "a/lora/fake@cpu: batch_size at sequence_length=8: 2 runs, 3 does not (confirmed)" in result.stderr
    again = wingspan("frontier", suite, "--results", results)
    assert again.stdout.strip() == "a/lora/fake@cpu: batch_size at sequence_length=8: 2 runs, 3 does not (confirmed)"


def test_a_suite_that_asks_no_edge_exits_2(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    result = wingspan("frontier", write_suite({"a": {}}), "--results", tmp_path / "results")
    assert result.exit_code == 2
    assert "asks for no edge: give it a table [frontier]" in result.stderr
