import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from bench.catalog import catalogue
from bench.expand import cells_of
from bench.spec import METHODS, Exclusion, Measure, Suite
from bench.suite import MAX_CELLS, MAX_EXCLUSIONS, SuiteError, read_suite

CONTRACT = """
question = "Which machine trains small models faster, and how much memory do they take?"
repeats = 2
[sweep]
model   = ["llama-3.2-1b", "8b"]
method  = ["full", "lora", "qlora"]
backend = ["hf", "mlx@cuda"]
[fixed]
batch_size = 1
sequence_length = 2048
gradient_checkpointing = true
optimizer = "adamw"
weights_dtype = "bfloat16"
rank = 16
alpha = 32
[[exclude]]
method = "full"
model = "8b"
reason = "140 GB"
[measure]
steps = 6
[budget]
minutes = 240
"""
HEAD = 'question = "Q?"\n'


def write(folder: Path, text: str, name: str = "probe.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def faults(folder: Path, text: str, name: str = "probe.toml") -> list[str]:
    """The lines of the error, without the file's name, which each must start with."""
    path = write(folder, text, name)
    with pytest.raises(SuiteError) as caught:
        read_suite(path)
    lines = str(caught.value).split("\n")
    assert all(line.startswith(f"{path}: ") for line in lines)
    return [line.removeprefix(f"{path}: ") for line in lines]


def sweep(**lists: Any) -> str:
    declared = {"model": ["tiny-llama-xs"], "method": ["lora"], "backend": ["hf"]} | lists
    return HEAD + "[sweep]\n" + "".join(f"{name} = {json.dumps(values)}\n" for name, values in declared.items())


def test_a_whole_suite_is_read(tmp_path):
    models = catalogue().models
    assert read_suite(write(tmp_path, CONTRACT, "probe.toml")) == Suite(
        name="probe",
        question="Which machine trains small models faster, and how much memory do they take?",
        repeats=2,
        sweep=(
            ("model", ("llama-3.2-1b", "llama-3.1-8b")),
            ("method", ("full", "lora", "qlora")),
            ("backend", ("hf", "mlx@cuda")),
        ),
        fixed=(
            ("batch_size", 1),
            ("sequence_length", 2048),
            ("gradient_checkpointing", True),
            ("optimizer", "adamw"),
            ("weights_dtype", "bfloat16"),
            ("rank", 16),
            ("alpha", 32.0),
        ),
        models=(("llama-3.2-1b", models["llama-3.2-1b"]), ("llama-3.1-8b", models["llama-3.1-8b"])),
        exclude=(Exclusion((("method", "full"), ("model", "llama-3.1-8b")), "140 GB"),),
        measure=Measure(steps=6),
        budget_minutes=240,
    )


def test_a_suite_is_found_by_name_and_by_path(tmp_path):
    path = write(tmp_path, CONTRACT, "mine.toml")
    assert read_suite("mine", tmp_path) == read_suite(path) == read_suite(str(path))


def test_what_is_not_there_is_answered_with_what_is(tmp_path):
    for name in ("lesson", "smoke"):
        write(tmp_path, CONTRACT, f"{name}.toml")
    with pytest.raises(SuiteError) as caught:
        read_suite("smok", tmp_path)
    assert str(caught.value) == f'{tmp_path}/smok.toml: no such suite; {tmp_path} holds lesson, smoke; did you mean "smoke"?'
    with pytest.raises(SuiteError, match="holds no suite either"):
        read_suite("./none.toml", tmp_path / "none")
    with pytest.raises(SuiteError, match=r"a\\x00b.toml: no such suite"):
        read_suite("a\0b", tmp_path)


@contextmanager
def nobody() -> Iterator[None]:
    """A user who may not read everything, also where the tests are run as root."""
    user = os.geteuid()
    os.seteuid(65534 if user == 0 else user)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("name", ["probe.toml", "none.toml"])
def test_what_may_not_be_looked_at_is_not_called_missing(tmp_path, name):
    folder = tmp_path / "closed"
    folder.mkdir()
    write(folder, CONTRACT)
    folder.chmod(0)
    try:
        with nobody(), pytest.raises(SuiteError) as caught:
            read_suite(folder / name, folder)
    finally:
        folder.chmod(0o700)
    assert str(caught.value) == f"{folder / name}: cannot be read: Permission denied"


def test_a_folder_that_cannot_be_listed_is_not_called_empty(tmp_path):
    file = write(tmp_path, "")
    with pytest.raises(SuiteError) as caught:
        read_suite("./none.toml", file)
    assert str(caught.value) == f"none.toml: no such suite; {file} cannot be read: Not a directory"


def test_names_of_files_reach_no_terminal_unescaped(tmp_path):
    write(tmp_path, CONTRACT, "les\x1b[2Json.toml")
    with pytest.raises(SuiteError) as caught:
        read_suite("lesson", tmp_path)
    assert str(caught.value).isprintable()


def test_every_fault_is_told_at_once(tmp_path):
    """One of each kind that the issue names, in one file."""
    text = """
repeats = 0
colour = "red"
[sweep]
model = ["8b", "llama-3.1-8b", "9b", "none/config.json"]
method = ["lora", "lroa"]
backend = ["hf", "mxl"]
rank = [8, "16"]
sequence_length = []
adapter_layers = [2, 33]
[fixed]
rank = 4
batch_size = 1_000_000_000
optimizer = "adam"
[[exclude]]
reason = "names nothing"
[[exclude]]
seed = 3
[measure]
steps = true
"""
    assert faults(tmp_path, text) == [
        "repeats: 0 is out of range: must be at least 1",
        'sweep.model[2]: unknown model "9b"; did you mean "8b"?',
        f"sweep.model[3]: {tmp_path}/none/config.json: cannot be read: No such file or directory",
        'sweep.method[1]: unknown method "lroa"; did you mean "lora"?',
        'sweep.backend[1]: unknown backend "mxl"; did you mean "mlx"?',
        "sweep.sequence_length: empty; give a value, or remove the key",
        'sweep.rank[1]: expected a whole number, got "16"; remove the quotes',
        "fixed.batch_size: 1000000000 is out of range: must be at most 4096",
        'fixed.optimizer: unknown optimizer "adam"; did you mean "adamw"?',
        "measure.steps: expected a whole number, got true",
        "colour: unknown key; use one of question, repeats, sweep, fixed, arm, exclude, measure, frontier, …",
        "question: missing; say in one sentence what the suite asks",
        "fixed.rank: is swept too; a field is either fixed or swept",
        'sweep.model: "llama-3.1-8b" stands twice',
        "exclude[0]: names no field, so it would leave out every cell; name at least one",
        "exclude[1]: gives no reason; say why these cells are left out",
        "exclude[1].seed: is neither swept nor fixed, so it tells no cells apart",
        "sweep.adapter_layers[1]: 33 exceeds the layers of llama-3.1-8b (32)",
    ]


@pytest.mark.parametrize("name", ["model", "method", "backend"])
def test_model_method_and_backend_must_be_declared(tmp_path, name):
    text = "\n".join(line for line in sweep().splitlines() if not line.startswith(name))
    assert faults(tmp_path, text) == [f"sweep.{name}: missing; give a list here, or one value in [fixed]"]


def test_an_empty_file_lacks_four_things(tmp_path):
    assert [line.split(":")[0] for line in faults(tmp_path, "")] == ["question", "sweep.model", "sweep.method", "sweep.backend"]


def test_everything_may_be_fixed(tmp_path):
    text = HEAD + '[fixed]\nmodel = "tiny-llama-xs"\nmethod = "full"\nbackend = "hf@cpu"\n'
    assert read_suite(write(tmp_path, text)).sweep == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (sweep(method=["lora", "lora"]), ['sweep.method: "lora" stands twice']),
        (sweep(rank=[8, 8, 4, 4]), ["sweep.rank: 8 stands twice", "sweep.rank: 4 stands twice"]),
        (sweep(learning_rate=[1, 1.0]), ["sweep.learning_rate: 1.0 stands twice"]),
        (sweep(rank=[16, 128]), ["sweep.rank[1]: 128 exceeds the smallest adapted dimension of tiny-llama-xs (64)"]),
        (
            sweep(model=["tiny-llama-xs", "4b", "14b"], sequence_length=[1024, 65536]),
            ["sweep.sequence_length[1]: 65536 exceeds the max_position_embeddings of qwen3-4b (40960), qwen3-14b (40960)"],
        ),
        (sweep() + "[fixed]\nadapter_layers = 3\n", ["fixed.adapter_layers: 3 exceeds the layers of tiny-llama-xs (2)"]),
        (
            sweep(model=["4b"], method=["serve"]) + "[fixed]\nprompt_tokens = 40_960\n",
            ["fixed.prompt_tokens: 41088 exceeds the positions of qwen3-4b (40960)"],
        ),
        (
            sweep(method=["full"], rank=[8, 16]),
            ["sweep.rank: no method here uses it (full); remove it, or add a method that does"],
        ),
        (
            sweep(method=["lora", "full"], prompt_tokens=[8]),
            ["sweep.prompt_tokens: no method here uses it (lora, full); remove it, or add a method that does"],
        ),
        (sweep() + '[[exclude]]\nmethod = "lora"\n', ["exclude[0]: gives no reason; say why these cells are left out"]),
        (
            sweep(seed=list(range(200)), rank=list(range(1, 61))),
            [f"sweep: makes 12,000 cells; at most {MAX_CELLS:,} can be meant"],
        ),
        (
            sweep(backend=["unslot"]),
            ['sweep.backend[0]: unknown backend "unslot"; did you mean "unsloth"?'],
        ),
    ],
)
def test_faults_that_fields_have_together(tmp_path, text, expected):
    assert faults(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            "warmup_steps = 5\nwarmup_max_steps = 4",
            ["measure.warmup_max_steps: 4 is less than warmup_steps, 5; raise it to 5 or more"],
        ),
        (
            "warmup_steps = 31",
            ["measure.warmup_max_steps: 30 by default is less than warmup_steps, 31; raise it to 31 or more"],
        ),
        (
            "steps = 4",
            [
                "measure.steps: 4 steps are too few to judge by whether warm-up is over; give 5 or more, "
                "or fix the warm-up with warmup_max_steps = 2"
            ],
        ),
        ("warmup_steps = 31\nwarmup_max_steps = true", ["measure.warmup_max_steps: expected a whole number, got true"]),
        ("steady_spread = 0", ["measure.steady_spread: 0 is out of range: must be above 0"]),
    ],
)
def test_bounds_of_warmup_that_cannot_be_meant(tmp_path, lines, expected):
    assert faults(tmp_path, f"{sweep()}[measure]\n{lines}\n") == expected


@pytest.mark.parametrize(
    "lines",
    [
        "warmup_steps = 31\nwarmup_max_steps = 31",
        "warmup_steps = 0\nwarmup_max_steps = 0\nsteps = 1",
        "warmup_max_steps = 3\nsteps = 5",
    ],
)
def test_bounds_of_warmup_that_can(tmp_path, lines):
    read_suite(write(tmp_path, f"{sweep()}[measure]\n{lines}\n"))


def test_the_default_of_a_field_can_be_beyond_a_model_too(tmp_path):
    write(tmp_path, '{"model_type": "fake", "vocab_size": 512, "max_position_embeddings": 64}', "small.json")
    assert faults(tmp_path, sweep(model=["small.json"], backend=["fake"])) == [
        "sequence_length (by default): 2048 exceeds the max_position_embeddings of small (64)"
    ]


def test_the_limits_themselves_are_allowed(tmp_path):
    text = sweep(model=["4b"], sequence_length=[40_960], adapter_layers=[36], rank=[1024])
    assert read_suite(write(tmp_path, text)).sweep[-1] == ("rank", (1024,))


def test_what_is_excluded_may_be_beyond_a_model(tmp_path):
    text = sweep(model=["4b", "8b"], sequence_length=[1024, 65536])
    text += '[[exclude]]\nmodel = "4b"\nsequence_length = 65536\nreason = "beyond its positions"\n'
    assert read_suite(write(tmp_path, text)).exclude[0].reason == "beyond its positions"


def test_a_fixed_field_that_no_method_uses_does_no_harm(tmp_path):
    suite = read_suite(write(tmp_path, sweep(method=["full"]) + "[fixed]\nrank = 16\n"))
    assert cells_of(suite, lambda name: "cpu")[0].workload.rank is None


def test_an_exclusion_may_name_a_device_that_the_plan_will_choose(tmp_path):
    text = sweep(backend=["mlx", "hf@cpu"]) + '[[exclude]]\nbackend = "mlx@cuda"\nreason = "x"\n'
    text += '[[exclude]]\nbackend = "hf"\nreason = "x"\n'
    assert len(read_suite(write(tmp_path, text)).exclude) == 2


def test_two_names_of_one_model_are_refused(tmp_path):
    config = {"model_type": "fake", "vocab_size": 512}
    write(tmp_path, json.dumps(config), "a.json")
    write(tmp_path, json.dumps({**config, "torch_dtype": "float32"}), "b.json")
    assert faults(tmp_path, sweep(model=["8b", "a.json", "b.json"], backend=["fake"], sequence_length=[64])) == [
        "sweep.model: b is the same architecture as a, so both make the same cells; remove one"
    ]


def test_two_sets_of_weights_of_one_architecture_are_two_models(tmp_path):
    config = {"model_type": "llama", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1}
    config |= {"num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "max_position_embeddings": 4096}
    for number, name in enumerate(("base", "tuned")):
        (tmp_path / name).mkdir()
        write(tmp_path / name, json.dumps(config), "config.json")
        save_file({"model.norm.weight": np.full(64, number, np.float32)}, tmp_path / name / "model.safetensors")
    text = sweep(model=["./base", "./tuned"], backend=["hf@cpu"], sequence_length=[64]) + '[fixed]\nweights = "folder"\n'
    cells = cells_of(read_suite(write(tmp_path, text)), lambda name: "cpu")
    assert [cell.workload.model.name for cell in cells] == ["base", "tuned"]
    assert len({cell.workload.digest for cell in cells}) == 2


def test_one_set_of_modules_spelt_twice_is_refused(tmp_path):
    found = faults(tmp_path, sweep(modules=["v_proj,\nq_proj", "q_proj,v_proj", "o_proj,q_proj,k_proj,v_proj", "attention"]))
    assert found == ['sweep.modules: "q_proj,v_proj" stands twice', 'sweep.modules: "attention" stands twice']


def test_more_exclusions_than_can_be_meant_are_refused(tmp_path):
    text = sweep(seed=list(range(300))) + "".join(f"[[exclude]]\nseed = {seed}\nreason = 'x'\n" for seed in range(257))
    assert faults(tmp_path, text) == [f"exclude: 257 exclusions; at most {MAX_EXCLUSIONS} can be meant"]


def test_layers_of_an_unknown_family_are_a_fault_not_a_crash(tmp_path):
    write(tmp_path, '{"model_type": "other", "vocab_size": 512, "num_hidden_layers": "x"}', "o.json")
    assert faults(tmp_path, sweep(model=["o.json"], adapter_layers=[2])) == [
        f'sweep.model[0]: {tmp_path}/o.json: num_hidden_layers: expected a whole number, got "x"; '
        "take it from the model's own config.json"
    ]


def test_two_models_of_one_name_are_refused(tmp_path):
    for folder, size in (("a/same", 512), ("b/same", 1024)):
        (tmp_path / folder).mkdir(parents=True)
        write(tmp_path, json.dumps({"model_type": "fake", "vocab_size": size}), f"{folder}/config.json")
    text = sweep(model=["a/same", "b/same"], backend=["fake"])
    assert "sweep.model: two architectures have the name same; rename the folder or the file of one" in faults(tmp_path, text)


def test_the_files_name_is_the_suites_and_must_serve_as_one(tmp_path):
    assert faults(tmp_path, sweep(), "a b.toml") == [
        "name the file with letters, digits, '.', '_' and '-': its name is the suite's"
    ]


def test_a_syntax_fault_is_a_suite_error_with_line_and_column(tmp_path):
    (line,) = faults(tmp_path, "a = = 1\n")
    assert line.startswith("line 1, column 5: not valid TOML")


LONG_MODELS = [name for name, each in catalogue().models.items() if each.config["max_position_embeddings"] >= 40960]
MODELS = [*catalogue().aliases, *LONG_MODELS]
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "batch_size": st.integers(1, 4096),
    "sequence_length": st.integers(2, 40960),
    "learning_rate": st.floats(1e-9, 10) | st.integers(1, 10),
    "weights_dtype": st.sampled_from(["float32", "bfloat16", "float16"]),
    "gradient_checkpointing": st.booleans(),
    "seed": st.integers(0, 2**32 - 1),
    "attention": st.sampled_from(["eager", "sdpa"]),
}


DESIGN = """
question = "Which machine trains small models faster, and how much memory do they take?"
repeats = 3

[sweep]
model   = ["llama-3.2-1b", "llama-3.1-8b"]
method  = ["full", "lora", "qlora", "serve"]
backend = ["hf", "mlx", "unsloth"]

[fixed]
batch_size = 1
sequence_length = 2048
gradient_checkpointing = true
optimizer = "adamw"
weights_dtype = "bfloat16"
rank = 16

[[exclude]]
method = "full"
model = "llama-3.3-70b"
reason = "1.2 TB"

[budget]
minutes = 240
"""


def test_the_suite_of_the_design_reads_though_its_exclusion_leaves_nothing_out(tmp_path):
    suite = read_suite(write(tmp_path, DESIGN))
    assert suite.budget_minutes == 240
    assert [exclusion.reason for exclusion in suite.exclude] == ["1.2 TB"]


@st.composite
def suites(draw) -> dict[str, Any]:
    """A valid suite as the tables of its file."""
    models = draw(
        st.lists(st.sampled_from(MODELS), min_size=1, max_size=3, unique_by=lambda name: catalogue().aliases.get(name, name))
    )
    swept: dict[str, Any] = {"model": models}
    swept["method"] = draw(st.lists(st.sampled_from(METHODS[:3]), min_size=1, max_size=3, unique=True))
    swept["backend"] = draw(st.lists(st.sampled_from(["hf", "mlx", "mlx@cuda", "fake@cpu"]), min_size=1, max_size=2, unique=True))
    names = draw(st.permutations(list(FIELDS)))
    for name in names[:2]:
        swept[name] = draw(st.lists(FIELDS[name], min_size=1, max_size=3, unique=True))
    swept = dict(draw(st.permutations(list(swept.items()))))
    return {"sweep": swept, "fixed": {name: draw(FIELDS[name]) for name in names[2:]}}


def toml(tables: dict[str, Any]) -> str:
    lines = [HEAD]
    for table, content in tables.items():
        lines += [f"[{table}]", *(f"{name} = {json.dumps(value)}" for name, value in content.items())]
    return "\n".join(lines)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(suites())
def test_a_valid_suite_says_what_its_file_said(tmp_path_factory, tables):
    suite = read_suite(write(tmp_path_factory.getbasetemp(), toml(tables)))
    aliases = catalogue().aliases
    said = {**tables["sweep"], "model": [aliases.get(name, name) for name in tables["sweep"]["model"]]}
    assert [(name, list(values)) for name, values in suite.sweep] == list(said.items())
    assert dict(suite.fixed) == tables["fixed"]
    cells = cells_of(suite, lambda name: "cpu")
    assert len({cell.id for cell in cells}) == len({cell.key for cell in cells}) == len(cells)


def message_of(read: Callable[[Path], Any], path: Path) -> str:
    """What a reader says of a file; empty where it has nothing against it."""
    try:
        read(path)
    except SuiteError as error:
        return str(error)
    return ""


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["8b", "lora", "hf", "adamw"])
)
KEYS = st.sampled_from(["model", "method", "backend", "rank", "alpha", "modules", "reason", "steps", "minutes", "compile"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6)
TABLES = st.dictionaries(KEYS | st.text(max_size=3), VALUES, max_size=5)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "question": VALUES,
        "repeats": VALUES,
        "sweep": TABLES | VALUES,
        "fixed": TABLES | VALUES,
        "exclude": st.lists(TABLES | VALUES, max_size=3) | VALUES,
        "measure": TABLES,
        "budget": TABLES,
    },
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(document=DOCUMENTS)
def test_a_wild_document_raises_nothing_but_a_suite_error(tmp_path_factory, document):
    path = write(tmp_path_factory.getbasetemp(), "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bench.suite.read_toml", lambda path: document)
        message = message_of(read_suite, path)
    assert all(line.isprintable() for line in message.split("\n"))


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_raise_nothing_but_a_suite_error(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "bytes.toml"
    path.write_bytes(data)
    with pytest.raises(SuiteError):
        read_suite(path)


ARMS = """
question = "Q?"
[sweep]
model = ["tiny-llama-xs"]
method = ["lora"]
[[arm]]
name = "1-eager"
backend = "hf"
attention = "eager"
[[arm]]
name = "2-liger"
backend = "hf"
kernels = "liger"
compile = true
"""


def test_arms_take_the_place_of_swept_backends(tmp_path):
    suite = read_suite(write(tmp_path, ARMS))
    assert [arm.name for arm in suite.arms] == ["1-eager", "2-liger"]
    assert suite.arms[1].chosen == (("backend", "hf"), ("kernels", "liger"), ("compile", True))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (('[[arm]]\nname = "1-eager"\n', "[[arm]]\n"), ["arm[0].name: missing; its cells' ids need one"]),
        (('backend = "hf"\nattention', "attention"), ["arm[0].backend: missing; say who does the work"]),
        (("2-liger", "1-eager"), ['arm[1].name: "1-eager" stands twice']),
        (("2-liger", "two rungs"), ["arm[1].name: expected a name of letters, digits, '.', '_' and '-', got \"two rungs\""]),
        (('kernels = "liger"\ncompile = true', 'attention = "eager"'), ['arm[1]: asks for what "1-eager" asks for already']),
        (("compile = true", "rank = 4"), ["arm[1].rank: unknown key; it belongs in [sweep] or [fixed]"]),
        (("compile = true", "compile = [true]"), ["arm[1].compile: expected true or false, got a list; repeat [[arm]] for each"]),
        (
            ('method = ["lora"]', 'method = ["lora"]\nattention = ["sdpa"]'),
            ["arm[0].attention: is swept or fixed too; let either every arm give it or the suite"],
        ),
        (
            ('[[arm]]\nname = "1-eager"', '[fixed]\nname = 3\n[[arm]]\nname = "1-eager"'),
            ["fixed.name: unknown key; it belongs in [[arm]]"],
        ),
    ],
)
def test_faults_of_arms(tmp_path, change, expected):
    assert faults(tmp_path, ARMS.replace(*change)) == expected


def test_an_empty_list_of_arms_gives_no_backend(tmp_path):
    text = "arm = []\n" + ARMS[: ARMS.index("[[arm]]")]
    assert faults(tmp_path, text) == ["sweep.backend: missing; give a list here, or one value in [fixed]"]


def test_an_exclusion_may_name_what_arms_give(tmp_path):
    suite = read_suite(write(tmp_path, ARMS + '[[exclude]]\nkernels = "liger"\nreason = "slow"\n'))
    assert suite.exclude[0].where == (("kernels", "liger"),)
