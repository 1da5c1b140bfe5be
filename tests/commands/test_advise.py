"""Advice by command, and questions that cannot be answered."""

import json
from pathlib import Path

import pytest
from commanded import wingspan


def test_advice_in_words_and_as_json(tmp_path: Path) -> None:
    asked = ("advise", "--model", "14b", "--tokens", 10_000_000, "--price-per-kwh", 0.2, "--results", tmp_path / "none")
    told = wingspan(*asked)
    assert told.exit_code == 0
    assert "qwen3-14b on 10,000,000 tokens; possible: lora, qlora" in told.stdout
    document = json.loads(wingspan(*asked, "--method", "qlora", "--machine", "pc-rtx-4090", "--json").stdout)
    assert (document["machines"], document["possible"], document["price_per_kwh"]) == (["pc-rtx-4090"], ["qlora"], 0.2)
    (option,) = document["methods"][0]["options"]
    assert {"fits", "headroom_bytes", "duration_s", "energy_j", "cost", "peak_bytes", "stacks"} <= option.keys()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "8c", "--tokens", 1), "8c"),
        (("--model", "8b", "--tokens", 1, "--machine", "h2000"), "--machine: no machine"),
        (("--model", "8b", "--tokens", 1, "--price-per-kwh", "nan"), "--price-per-kwh: nan is no price"),
        (("--model", "8b", "--tokens", 1, "--sequence-length", 500_000), "--sequence-length: llama-3.1-8b has 131072"),
    ],
)
def test_advice_that_cannot_be_given_exits_2_with_one_message(arguments: tuple[str, ...], message: str) -> None:
    done = wingspan("advise", *arguments)
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert message in done.stderr
