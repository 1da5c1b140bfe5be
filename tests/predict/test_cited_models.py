"""Printed names lead to architectures of the right size."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import cited
from bench.catalog import CATALOG
from bench.predict.cited_models import cited_models, model_named
from bench.reading.strict import BadFile

ROOT = Path(__file__).resolve().parents[2]


def test_every_named_model_has_the_size_that_its_rows_print() -> None:
    models = cited_models()
    sized = {row.model: row.params_b for row in cited.read(ROOT / "results") if row.model in models and row.params_b}
    assert len(sized) > 40
    for name, billions in sized.items():
        assert (models[name or ""].parameters or 0) / 1e9 == pytest.approx(billions, rel=0.02), name


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("meta-llama/Meta-Llama-3-8B", "llama-3.1-8b"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "llama-3.1-8b"),
        ("llama3.1:8b", "llama-3.1-8b"),
        ("mlx-community/Qwen2.5-7B-Instruct-4bit", "cited-qwen2.5-7b"),
        ("Qwen/Qwen3-14B-Base", "qwen3-14b"),
        ("google/gemma-2-9b-it", "cited-gemma-2-9b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b"),
        ("mistralai/Mistral-7B-Instruct-v0.1", "cited-mistral-7b-v0.1"),
        ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "cited-tinyllama-1.1b"),
        ("Llama-3.3-70B Q4_K_M", "llama-3.3-70b"),
    ],
)
def test_owner_variant_and_format_of_a_name_are_looked_past(printed: str, name: str) -> None:
    found = model_named(printed)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("printed", ["", "gpt2", "7B class", "Qwen3-30B-A3B", "tiiuae/falcon-7b", "Llama-3.1-9B"])
def test_what_is_no_known_model_is_none(printed: str) -> None:
    assert model_named(printed) is None


def test_every_known_name_finds_its_own_model() -> None:
    assert all(model_named(name) == model for name, model in cited_models().items())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[model]]\nnames = ["a"]\n', "give `is`"),
        ('[[model]]\nnames = ["a"]\nis = "nothing"\n', "no model"),
        ('[[model]]\nnames = ["a"]\nlike = "llama-2-7b"\n', "source missing"),
        ('[[model]]\nnames = ["a", "a"]\nis = "llama-2-7b"\n', "stands twice"),
        ('[[model]]\nname = ["a"]\n', "unknown key"),
    ],
)
def test_a_faulty_row_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "published.toml").write_text(text)
    with pytest.raises(BadFile) as caught:
        cited_models(tmp_path)
    assert message in str(caught.value)


def test_the_catalogue_holds_the_file() -> None:
    assert (CATALOG / "published.toml").exists()
