"""The table [frontier] of a suite: what it becomes, and what is wrong with it beside the rest of the file."""

from pathlib import Path

import pytest

from bench.spec import Frontier, Span, Suite
from bench.suite import SuiteError, read_suite

HEAD = 'question = "Where is the edge?"\n[sweep]\nmodel = ["1b", "8b"]\nmethod = ["lora"]\nbackend = ["hf"]\n'
LENGTHS = "sequence_length = {from = 256, to = 4096, step = 256}\n"


def suite(folder: Path, *tables: str) -> Suite:
    path = folder / "probe.toml"
    path.write_text(HEAD + "".join(tables))
    return read_suite(path)


def faults(folder: Path, *tables: str) -> list[str]:
    with pytest.raises(SuiteError) as caught:
        suite(folder, *tables)
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


def test_a_suite_without_the_table_asks_no_edge(tmp_path: Path) -> None:
    assert suite(tmp_path).frontier is None


def test_spans_in_the_order_of_the_fields(tmp_path: Path) -> None:
    declared = suite(tmp_path, "[frontier]\nmodel = true\nconfirm_steps = 5\nbatch_size = {from = 1, to = 8}\n", LENGTHS)
    spans = (Span("sequence_length", 256, 4096, 256), Span("batch_size", 1, 8, 1))
    assert declared.frontier == Frontier(spans=spans, model=True, confirm_steps=5)
    assert suite(tmp_path, "[frontier]\n", LENGTHS).frontier == Frontier(spans=spans[:1])


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        (
            ("[frontier]\nconfirm_steps = 5\n",),
            "frontier: searches nothing; give sequence_length, prompt_tokens, batch_size a span, or say model = true",
        ),
        (
            ("batch_size = [1, 2]\n[frontier]\nbatch_size = {from = 1, to = 8}\n",),
            "frontier.batch_size: is swept too; a field is either swept or searched",
        ),
        (
            ("[frontier]\nprompt_tokens = {from = 1, to = 8}\n",),
            "frontier.prompt_tokens: no method here uses it (lora); remove it, or add a method that does",
        ),
        (
            ("[frontier]\nmodel = false\n",),
            "frontier: searches nothing; give sequence_length, prompt_tokens, batch_size a span, or say model = true",
        ),
        (
            ("[frontier]\nbatch_size = {from = 1, to = 9, step = 4096}\n",),
            "frontier.batch_size.step: 4096 leads beyond to, 9, at once: 1 alone would be tried",
        ),
        (("[frontier]\nbatch_size = {from = 1}\n",), "frontier.batch_size.to: missing; say between which values to search"),
        (("[frontier]\nbatch_size = {from = 9, to = 8}\n",), "frontier.batch_size.to: 8 is less than from, 9"),
        (
            ("[frontier]\nsequence_length = {from = 200000, to = 300000}\n",),
            "frontier.sequence_length.from: 200000 exceeds the max_position_embeddings of llama-3.2-1b (131072), "
            "llama-3.1-8b (131072)",
        ),
        (("[frontier]\nbatch_size = {from = 0, to = 8}\n",), "frontier.batch_size.from: 0 is out of range: must be at least 1"),
        (
            ("[frontier]\nbatch_size = {from = 1, to = 8, stop = 2}\n",),
            'frontier.batch_size.stop: unknown key; did you mean "step"?',
        ),
        (("[frontier]\nmodel = true\nrank = 8\n",), "frontier.rank: unknown key; it belongs in [sweep] or [fixed]"),
    ],
)
def test_each_fault_is_named_with_its_remedy(tmp_path: Path, tables: tuple[str, ...], expected: str) -> None:
    assert expected in faults(tmp_path, *tables)


def test_one_model_has_no_largest(tmp_path: Path) -> None:
    path = tmp_path / "probe.toml"
    path.write_text(HEAD.replace('["1b", "8b"]', '["1b"]') + "[frontier]\nmodel = true\n")
    with pytest.raises(SuiteError, match=r"frontier\.model: the largest of one model is itself"):
        read_suite(path)
