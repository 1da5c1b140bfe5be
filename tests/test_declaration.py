import json
import tomllib
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import get_type_hints

import pytest

from bench.declaration import BACKEND_ENTRIES, declared, fields, schema
from bench.spec import IMPLEMENTATION_FIELDS, WORKLOAD_FIELDS, Implementation, Measure, Workload

SCHEMA = Path(__file__).parents[1] / "suites" / "schema.json"
GOOD = """
question = "Q?"
[sweep]
model = ["8b"]
method = ["lora"]
backend = ["hf"]
"""


def read(text: str):
    said, problems = declared(tomllib.loads(text), "s.toml", Path())
    return said, [str(problem) for problem in problems]


def test_every_field_of_work_and_implementation_may_be_declared():
    assert {*fields()} == {*WORKLOAD_FIELDS, *IMPLEMENTATION_FIELDS, "backend"}


def test_the_schema_file_is_fresh():
    """To write it anew: python -c 'import json; from bench.suite import schema; print(json.dumps(schema(), indent=2))'."""
    assert SCHEMA.read_text() == json.dumps(schema(), indent=2) + "\n"


def test_the_schema_takes_bounds_and_choices_from_the_dataclasses():
    tables = schema()["$defs"]
    assert tables["Fixed"]["properties"]["batch_size"] == {
        "title": "Batch Size",
        "type": "integer",
        "minimum": 1,
        "maximum": 4096,
    }
    assert tables["Sweep"]["properties"]["backend"]["items"]["enum"] == list(BACKEND_ENTRIES)
    assert {*tables["Measure"]["properties"]} == {field.name for field in dataclass_fields(Measure)}
    assert tables["Exclude"]["required"] == ["reason"]
    assert "null" not in json.dumps(schema())


def test_what_is_right_keeps_the_order_of_the_file():
    said, problems = read(GOOD + "rank = [8, 4]\nbatch_size = [1]\n[fixed]\nseed = 1\nalpha = 16\n[measure]\nsteps = 4\n")
    assert problems == []
    assert list(said.sweep) == ["model", "method", "backend", "rank", "batch_size"]
    assert said.sweep["rank"] == [8, 4]
    assert said.fixed == {"seed": 1, "alpha": 16.0}
    assert isinstance(said.fixed["alpha"], float)
    assert said.measure == {"steps": 4}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("[fixed]\nbatch_size = '1'", 'fixed.batch_size: expected a whole number, got "1"; remove the quotes'),
        ("[fixed]\nbatch_size = true", "fixed.batch_size: expected a whole number, got true"),
        ("[fixed]\nbatch_size = 1.0", "fixed.batch_size: expected a whole number, got 1.0"),
        ("[fixed]\nbatch_size = 5000", "fixed.batch_size: 5000 is out of range: must be at most 4096"),
        ("[fixed]\nsequence_length = 1", "fixed.sequence_length: 1 is out of range: must be at least 2"),
        ("[fixed]\nalpha = 0", "fixed.alpha: 0 is out of range: must be above 0"),
        ("[fixed]\ndropout = 1", "fixed.dropout: 1 is out of range: must be below 1"),
        ("[fixed]\nlearning_rate = nan", "fixed.learning_rate: expected a finite number, got nan"),
        ("[fixed]\nlearning_rate = '1e-4'", 'fixed.learning_rate: expected a number, got "1e-4"; remove the quotes'),
        ("[fixed]\ngradient_checkpointing = 1", "fixed.gradient_checkpointing: expected true or false, got 1"),
        ("[fixed]\nweights_dtype = 'bf16'", 'fixed.weights_dtype: unknown weights_dtype "bf16"; did you mean "bfloat16"?'),
        ("[fixed]\noptimizer = 'adam'", 'fixed.optimizer: unknown optimizer "adam"; did you mean "adamw"?'),
        ("[fixed]\nquantization_bits = 3", "fixed.quantization_bits: expected one of 4, 8, got 3"),
        (
            "[fixed]\nmodules = 'q_prj'",
            "fixed.modules: unknown module 'q_prj': use all, attention, or names among "
            "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj",
        ),
        ("[fixed]\nrank = [4, 8]", "fixed.rank: expected a whole number, got a list; several values make a list in [sweep]"),
        ("[fixed]\nseed = 1979-05-27", "fixed.seed: expected a whole number, got 1979-05-27"),
        ("[fixed]\nlerning_rate = 1", 'fixed.lerning_rate: unknown key; did you mean "learning_rate"?'),
        ("[fixed]\nsteps = 1", "fixed.steps: unknown key; it belongs in [measure]"),
        ("[fixed]\nminutes = 1", "fixed.minutes: unknown key; it belongs in [budget]"),
        ("[fixed]\nrepeats = 1", "fixed.repeats: unknown key; it belongs in the top of the file, above the first [table]"),
        ("[measure]\nseed = 1", "measure.seed: unknown key; it belongs in [sweep] or [fixed]"),
        ("[mesure]\nsteps = 1", 'mesure: unknown key; did you mean "measure"?'),
        ("[measure]\nsteps = 0", "measure.steps: 0 is out of range: must be at least 1"),
        ("[budget]\nminutes = -1", "budget.minutes: -1 is out of range: must be above 0"),
        ("[budget]\nhours = 2", "budget.hours: unknown key; use minutes"),
        ("[exclude]\nmethod = 'full'", "exclude: expected a list, got a table"),
        (
            "[[exclude]]\nmethod = ['full']\nreason = 'x'",
            "exclude[0].method: expected one of full, lora, qlora, serve, got a list; repeat [[exclude]] for each",
        ),
        ("[[exclude]]\nreason = ''", "exclude[0].reason: empty"),
    ],
)
def test_a_faulty_field_is_one_line_with_file_path_fault_and_remedy(line, fault):
    said, problems = read(f"{GOOD}\n{line}\n")
    assert problems == [f"s.toml: {fault}"]
    assert said.question == "Q?"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("rank = 16", "sweep.rank: expected a list, got 16; write a list, or move it to [fixed]"),
        ("rank = []", "sweep.rank: empty; give a value, or remove the key"),
        ("rank = [8, '16']", 'sweep.rank[1]: expected a whole number, got "16"; remove the quotes'),
        ("rank = [[8]]", "sweep.rank[0]: expected a whole number, got a list"),
        ('"a\\nb" = 1', 'sweep."a\\nb": unknown key; use one of model, method, backend, modules, '),
        ('"\\u001b[2J" = 1', 'sweep."\\x1b[2J": unknown key; use one of model, method, backend, modules, '),
    ],
)
def test_a_faulty_sweep_is_one_line(line, fault):
    _, problems = read(GOOD + line)
    assert len(problems) == 1
    assert problems[0].startswith(f"s.toml: {fault}")


def test_models_methods_and_backends_are_answered_with_what_was_meant():
    text = GOOD.replace('"8b"', '"8b", "8bb"').replace('"lora"', '"lroa"').replace('"hf"', '"hg", "mlx@cuad", "hf@cuda"')
    said, problems = read(text)
    assert problems == [
        's.toml: sweep.model[1]: unknown model "8bb"; did you mean "8b"?',
        's.toml: sweep.method[0]: unknown method "lroa"; did you mean "lora"?',
        's.toml: sweep.backend[0]: unknown backend "hg"; did you mean "hf"?',
        's.toml: sweep.backend[1]: unknown backend "mlx@cuad"; did you mean "mlx@cuda"?',
    ]
    assert said.sweep["backend"] == ["hf@cuda"]


def test_a_model_path_starts_at_the_suites_folder_and_its_faults_are_named(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.json").write_text('{"model_type": "llama", "vocab_size": "x"}')
    text = GOOD.replace('"8b"', '"a/config.json", "b/config.json"')
    _, problems = declared(tomllib.loads(text), "s.toml", tmp_path)
    lines = [str(problem) for problem in problems]
    start = f"s.toml: sweep.model[0]: {tmp_path}/a/config.json: "
    assert f"{start}hidden_size: missing; take it from the model's own config.json" in lines
    assert f'{start}vocab_size: expected a whole number, got "x"; take it from the model\'s own config.json' in lines
    assert lines[-1] == f"s.toml: sweep.model[1]: {tmp_path}/b/config.json: cannot be read: No such file or directory"


@pytest.mark.parametrize("name", ["sweep", "fixed", "measure", "budget"])
def test_a_table_that_is_none_is_named(name):
    said, problems = read(f"question = 'Q?'\n{name} = 3\n")
    assert problems == [f"s.toml: {name}: expected a table, got 3"]
    assert said.question == "Q?"


def test_the_hints_come_without_none_which_toml_cannot_say():
    hints = get_type_hints(Workload, include_extras=True) | get_type_hints(Implementation, include_extras=True)
    assert fields()["seed"] == hints["seed"]
    assert "None" not in str({name: hint for name, hint in fields().items() if name not in ("model", "modules")})
