"""Predictions by command, and questions that cannot be answered."""

import json

import pytest
from commanded import wingspan


def test_a_prediction_in_words_and_as_json() -> None:
    asked = ("predict", "--model", "8b", "--method", "qlora", "--machine", "pc-rtx-4090", "--batch-size", 2)
    told = wingspan(*asked)
    assert told.exit_code == 0
    assert "llama-3.1-8b/qlora/hf@cuda on pc-rtx-4090: 2 × 2048 tokens" in told.stdout
    document = json.loads(wingspan(*asked, "--no-gradient-checkpointing", "--json").stdout)
    assert {
        *("peak_bytes", "peak_low_bytes", "peak_high_bytes", "reserved_bytes", "parts", "capacity_bytes", "fits", "how"),
        *("fit_probability", "tokens_per_s", "tokens_per_s_low", "tokens_per_s_high", "power_w", "j_per_token"),
    } <= document.keys()
    assert document["fits"] == "no"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "8c", "--method", "lora", "--machine", "h200"), "8c"),
        (("--model", "8b", "--method", "lora", "--machine", "h2000"), "--machine: no machine"),
        (("--model", "8b", "--method", "lora", "--machine", "h200", "--backend", "mlx@metal"), "--backend: mlx@metal"),
        (("--model", "8b", "--method", "lora", "--machine", "h200", "--modules", "x"), "--modules: unknown module"),
        (("--model", "8b", "--method", "full", "--machine", "h200", "--backend", "unsloth", "--how", "trace"), "be traced"),
    ],
)
def test_a_question_that_cannot_be_answered_exits_2_with_one_message(arguments: tuple[str, ...], message: str) -> None:
    done = wingspan("predict", *arguments)
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert message in done.stderr
