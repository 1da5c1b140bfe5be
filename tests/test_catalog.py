import re
from pathlib import Path

import pytest

from bench.catalog import CATALOG, catalogue, machine_profiles, machine_texts, resolve_model
from bench.holes import refusal
from bench.model import count_parameters
from bench.plan import plan
from bench.reading.strict import BadFile
from bench.record import Machine
from bench.spec import BadInput
from bench.suite import read_suite

ALIASES = {
    "1b": "llama-3.2-1b",
    "4b": "qwen3-4b",
    "8b": "llama-3.1-8b",
    "14b": "qwen3-14b",
    "32b": "qwen3-32b",
    "70b": "llama-3.3-70b",
}
PUBLISHED = {
    "llama-3.2-1b": 1_235_814_400,
    "qwen3-4b": 4_022_468_096,
    "llama-3.1-8b": 8_030_261_248,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "llama-3.3-70b": 70_553_706_496,
    "qwen3-0.6b": 596_049_920,
    "llama-3.2-3b": 3_212_749_824,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-8b": 8_190_735_360,
    "mistral-7b": 7_248_023_552,
    "gemma-3-1b": 999_885_952,
    "gemma-3-4b": 3_880_099_328 + 64 * 2560,
    "gemma-3-12b": 11_765_788_416 + 64 * 3840,
    "gemma-3-27b": 27_009_002_240 + 64 * 5376,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
}
"""As published. Of the larger Gemma 3 the count of the text is published, and the hub's embeddings have 64 rows more."""
WITH_PICTURES = {"gemma-3-4b": 4_300_079_472, "gemma-3-12b": 12_187_325_040, "gemma-3-27b": 27_432_406_640}
"""The hub's count of the whole of these models."""
TINY = ("tiny-llama-xs", "tiny-llama-s", "tiny-qwen3-xs", "tiny-qwen3-s")
NAMES = (*PUBLISHED, *TINY)

ROW = """
[[model]]
name = "a"
parameters = 60_080
source = "here"
[model.config]
model_type = "qwen3"
vocab_size = 64
hidden_size = 16
intermediate_size = 32
num_hidden_layers = 2
num_attention_heads = 4
max_position_embeddings = 64
"""


REVISED = ROW.replace("60_080", "71_248").replace(
    'source = "here"', f'source = "here"\nhub = "b/a"\nrevision = "{"0" * 40}"\nrevision_source = "there"'
)


def test_these_are_the_models():
    assert tuple(catalogue().models) == NAMES
    assert [name for name in PUBLISHED if name not in catalogue().hubs] == []


def test_revisions_are_commits_whose_source_is_known(tmp_path):
    assert all(re.fullmatch("[0-9a-f]{40}", revision) for revision in catalogue().revisions.values())
    (tmp_path / "models.toml").write_text(REVISED)
    assert catalogue(tmp_path).revisions == {"a": "0" * 40}


def test_the_aliases_are_the_lessons_sizes_in_its_order():
    assert list(catalogue().aliases.items()) == list(ALIASES.items())


@pytest.mark.parametrize("name", NAMES)
def test_the_closed_form_gives_the_rows_count(name):
    model = catalogue().models[name]
    assert count_parameters(model.config) == model.parameters
    assert model.parameters == PUBLISHED.get(name, model.parameters)
    assert catalogue().sources[name]


@pytest.fixture(scope="module")
def built_by_transformers() -> dict[str, int]:
    """Parameters of each model as transformers builds it, without memory, on torch's meta device."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    counts = {}
    for name in NAMES:
        config = catalogue().models[name].config
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(AutoConfig.for_model(config.pop("model_type"), **config))
        counts[name] = sum(each.numel() for each in model.parameters())  # a tied head is one parameter
    return counts


@pytest.fixture(scope="module")
def built_by_mlx_lm() -> dict[str, int]:
    """Parameters of each model as mlx-lm builds it; lazy arrays, of which none is evaluated."""
    from mlx.utils import tree_flatten
    from mlx_lm.utils import _get_classes

    from bench.backends.mlx_architecture import tied

    counts = {}
    for name in NAMES:
        config = catalogue().models[name].config
        model_class, args_class = _get_classes(config)
        model = tied(model_class(args_class.from_dict(config)), config)
        counts[name] = sum(array.size for _, array in tree_flatten(model.parameters()))
    return counts


@pytest.mark.parametrize("name", NAMES)
def test_transformers_builds_the_rows_count(name, built_by_transformers):
    assert built_by_transformers[name] == catalogue().models[name].parameters


@pytest.mark.parametrize("name", NAMES)
def test_mlx_lm_builds_the_rows_count(name, built_by_mlx_lm):
    assert built_by_mlx_lm[name] == catalogue().models[name].parameters


@pytest.mark.parametrize("name", WITH_PICTURES)
def test_a_language_model_with_its_eyes_is_the_hubs_whole(name):
    """The tower that sees, as transformers builds it, and between the two a matrix and a norm."""
    import torch
    from transformers import AutoModel, SiglipVisionConfig

    sees = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16}
    with torch.device("meta"):
        tower = AutoModel.from_config(SiglipVisionConfig(**sees, image_size=896, patch_size=14, vision_use_head=False))
    counted = sum(each.numel() for each in tower.parameters())
    between = 1152 * catalogue().models[name].config["hidden_size"] + 1152
    assert catalogue().models[name].parameters + counted + between == WITH_PICTURES[name]


def test_the_stacks_agree_on_the_tiny_llamas_rotary_frequencies():
    """The llama3 scaling is the one setting that the two stacks compute by their own code."""
    import mlx.core as mx
    import numpy as np
    import torch
    from mlx_lm.utils import _get_classes
    from transformers import AutoConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = catalogue().models["tiny-llama-xs"].config
    model_class, args_class = _get_classes(config)
    mlx_rope = model_class(args_class.from_dict(config)).layers[0].self_attn.rope
    theirs = LlamaRotaryEmbedding(AutoConfig.for_model(config.pop("model_type"), **config))
    wavelengths = np.array(mlx_rope._freqs.astype(mx.float32))
    np.testing.assert_allclose(1 / wavelengths, theirs.inv_freq.to(torch.float32).numpy(), rtol=1e-5)
    assert not np.allclose(1 / wavelengths, 500_000.0 ** -(np.arange(0, 32, 2) / 32), rtol=0.1)


@pytest.mark.parametrize("name", TINY)
def test_tiny_models_fit_the_groups_of_4_bit_quantisation(name):
    config = catalogue().models[name].config
    widths = [config["hidden_size"], config["intermediate_size"], config["vocab_size"]]
    widths += [config[heads] * config["head_dim"] for heads in ("num_attention_heads", "num_key_value_heads")]
    assert [width % 64 for width in widths] == [0] * 5


def test_machine_profiles_know_the_lessons_machines():
    profiles = {profile.name: profile for profile in machine_profiles()}
    assert set(profiles) >= {"mac-studio-m3-ultra", "pc-rtx-4090", "h200"}
    mac, pc = profiles["mac-studio-m3-ultra"], profiles["pc-rtx-4090"]
    assert (mac.chip, mac.gpu, mac.memory_bytes) == ("Apple M3 Ultra", None, 96 * 2**30)
    assert (pc.gpu, pc.memory_bytes) == ("NVIDIA GeForce RTX 4090", 24_564 * 2**20)
    assert pc.capacity_bytes == pytest.approx(25.4e9, rel=0.001)
    assert profiles["h200"].memory_bytes == 143_771 * 2**20
    assert all(profile.capacity_bytes < profile.memory_bytes and profile.source for profile in profiles.values())


def test_names_and_aliases_are_resolved(tmp_path):
    assert resolve_model("8b", tmp_path) is resolve_model("llama-3.1-8b", tmp_path)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("lama-3.1-8b", 'did you mean "llama-3.1-8b"?'),
        ("70", 'did you mean "70b"?'),
        ("LLAMA-3.1-8B", 'did you mean "llama-3.1-8b"?'),
        ("???", "use one of 1b, 4b, 8b, 14b, 32b, 70b, llama-3.2-1b, qwen3-4b, …, or the path of a config.json"),
    ],
)
def test_an_unknown_model_is_answered_with_what_was_meant(text, advice, tmp_path):
    with pytest.raises(BadInput, match="unknown model") as caught:
        resolve_model(text, tmp_path)
    assert str(caught.value).endswith(advice)


def write_config(path: Path, content: str = '{"model_type": "fake", "vocab_size": 512}') -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def test_a_path_may_be_a_file_or_a_folder_relative_or_absolute(tmp_path):
    path = write_config(tmp_path / "my model" / "config.json")
    found = [
        resolve_model(text, tmp_path) for text in ("my model/config.json", "my model/", "./my model", str(path), str(path.parent))
    ]
    assert {model.name for model in found} == {"my-model"}
    write_config(tmp_path / "b.json")
    assert resolve_model("b.json", tmp_path).name == "b"


def test_a_folder_without_a_configuration_is_named(tmp_path):
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "model.safetensors").write_bytes(b"")
    with pytest.raises(BadFile) as caught:
        resolve_model("./weights", tmp_path)
    assert str(caught.value) == f"{tmp_path}/weights: holds no config.json; name a folder that does, or the file itself"


def test_an_architecture_that_one_stack_lacks_runs_on_the_other(tmp_path):
    write_config(tmp_path / "opt" / "config.json", '{"model_type": "opt", "vocab_size": 512, "hidden_size": 64}')
    (tmp_path / "suite.toml").write_text(
        'question = "Q?"\n[sweep]\nmodel = ["./opt"]\nmethod = ["full"]\nbackend = ["hf@cpu", "mlx@cpu"]\n'
    )
    box = Machine(
        name="box", machine_id="0", system="Linux", architecture="x86_64", os_version="", chip="", cpu_cores=2, memory_bytes=2**34
    )
    entries = plan(read_suite(tmp_path / "suite.toml"), box, {}, capabilities=refusal).entries
    assert {entry.cell.backend: entry.reason for entry in entries} == {"hf": None, "mlx": "mlx-lm has no model type 'opt'"}


def test_a_multimodal_folder_is_its_language_model(tmp_path):
    """The hub's own `text_config` of Gemma 3 4B leaves out what transformers' defaults say."""
    text = """{"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024}"""
    write_config(tmp_path / "gemma-3-4b" / "config.json", f'{{"model_type": "gemma3", "text_config": {text}}}')
    found = resolve_model("./gemma-3-4b", tmp_path)
    assert (found.architecture, found.parameters) == (catalogue().models["gemma-3-4b"].architecture, PUBLISHED["gemma-3-4b"])


@pytest.mark.parametrize("text", ["none/config.json", "./none", "a\0/b", "x" * 300 + "/config.json"])
def test_a_path_to_nothing_is_named(text, tmp_path):
    with pytest.raises(BadFile, match="cannot be read"):
        resolve_model(text, tmp_path)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ('{"model_type": "fake", "vocab_size": 512, "vocab_size": 513}', "vocab_size: stands twice; keep one of them"),
        ('{"model_type": "fake", "vocab_size": 512, "step_s": 1e999}', "step_s: expected a finite number, got inf; take it"),
        ('{"model_type": "fake", "vocab_size": 512, "a": {"b": [1], "b": 2}}', "a.b: stands twice; keep one of them"),
    ],
)
def test_a_faulty_file_is_one_line_with_file_key_and_fault(content, fault, tmp_path):
    path = write_config(tmp_path / "a" / "config.json", content)
    with pytest.raises(BadFile) as caught:
        resolve_model("a/config.json", tmp_path)
    assert str(caught.value).startswith(f"{path}: {fault}")
    assert len(caught.value.problems) == 1


def test_a_loop_of_links_is_named(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(BadFile, match="cannot be read"):
        resolve_model("./loop", tmp_path)


def test_a_path_cannot_take_a_catalogue_name_for_another_architecture(tmp_path):
    write_config(tmp_path / "qwen3-4b" / "config.json")
    with pytest.raises(BadFile, match="the catalogue has another architecture of the name qwen3-4b"):
        resolve_model("./qwen3-4b", tmp_path)


def test_a_row_adds_a_model(tmp_path):
    (tmp_path / "models.toml").write_text(ROW.replace("60_080", str(_count())))
    assert catalogue(tmp_path).models["a"].parameters == _count()


def _count() -> int:
    hidden, inner, width = 16, 32, 4 * 128
    block = 4 * hidden * width + 2 * 128 + 3 * hidden * inner + 2 * hidden
    return 2 * block + 2 * 64 * hidden + hidden


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ROW, "a.parameters: 60,080 is wrong: the configuration makes"),
        (ROW.replace("source =", "sauce ="), "model[0].sauce: unknown key"),
        (ROW + ROW, 'model: "a" stands twice'),
        (ROW.replace('"a"', '"a/b"'), "use letters, digits"),
        (ROW.replace("hidden_size = 16", ""), "a.config: hidden_size: missing"),
        ("model = 3", "model: expected a list"),
        (REVISED.replace("0" * 40, "main"), 'a.revision: expected the 40 hexadecimal digits of a commit, got "main"'),
        (REVISED.replace('revision_source = "there"', ""), "a.revision_source: missing; say where the revision is to be seen"),
        (REVISED.replace('hub = "b/a"', ""), "a.hub: missing; say whose revision it is"),
        (REVISED.replace(f'revision = "{"0" * 40}"', ""), "a.revision: missing; a source alone says nothing"),
    ],
)
def test_a_faulty_row_is_named(tmp_path, content, message):
    (tmp_path / "models.toml").write_text(content)
    with pytest.raises(BadFile) as caught:
        catalogue(tmp_path)
    assert message in str(caught.value)


def test_a_faulty_machine_is_named(tmp_path):
    (tmp_path / "machines.toml").write_text((CATALOG / "machines.toml").read_text().replace("capacity_bytes", "capacity"))
    with pytest.raises(BadFile, match=r"machine\[0\].capacity_bytes: missing"):
        machine_profiles(tmp_path)


LAPTOPS_AND_MINIS = {
    *("mac-m1-16gb", "mac-m1-pro-16gb", "mac-m2-24gb", "mac-m2-pro-32gb", "mac-m3-max-128gb", "mac-m3-max-64gb"),
    *("mac-m3-pro-18gb", "mac-m4-16gb", "mac-m4-pro-24gb", "mac-m4-pro-48gb", "mac-m4-max-128gb", "mac-m4-max-64gb"),
}
"""Of these Apple publishes no most at the wall that was found."""


def test_a_machines_limits_are_the_published_ones_and_have_sources():
    profiles = {profile.name: profile for profile in machine_profiles()}
    figures = {name: (profile.board_power_w, profile.peak_flops_per_s) for name, profile in profiles.items()}
    assert figures["pc-rtx-4090"] == (450, 165.2e12)
    assert figures["h200"] == (700, 989.5e12)
    assert figures["mac-studio-m3-ultra"] == (270, 28.63e12)
    assert all(profile.peak_flops_per_s and profile.peak_flops_source for profile in profiles.values())
    assert all((profile.board_power_w is None) == (profile.board_power_source is None) for profile in profiles.values())
    assert {name for name, (power_w, _) in figures.items() if power_w is None} <= LAPTOPS_AND_MINIS


def test_variants_that_chip_and_memory_do_not_tell_apart_have_their_own_rate():
    profiles = {profile.name: profile for profile in machine_profiles()}
    sixty, eighty = profiles["mac-studio-m3-ultra"], profiles["mac-studio-m3-ultra-80-core"]
    assert (sixty.gpu_cores, eighty.gpu_cores) == (60, 80)
    assert sixty.rated_flops_per_s == pytest.approx(0.75 * eighty.rated_flops_per_s, rel=0.001)
    assert profiles["pc-rtx-4090"].rated_flops_per_s == profiles["pc-rtx-4090"].peak_flops_per_s


MACHINE = """
[[machine]]
name = "a"
title = "A"
memory_bytes = 2
capacity_bytes = 1
source = "here"
"""


def test_a_machine_needs_no_limits(tmp_path):
    (tmp_path / "machines.toml").write_text(MACHINE)
    (profile,) = machine_profiles(tmp_path)
    assert profile.board_power_w is profile.peak_flops_per_s is profile.peak_flops_source is None


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("board_power_w = 300", "a.board_power_source: missing; say where the figure comes from"),
        ("peak_flops_per_s = 1e12", "a.peak_flops_source: missing; say where the figure comes from"),
        ("board_power_w = -1.0", "board_power_w"),
        ("matrix_flops_per_s = 1e12", "a.matrix_flops_source: missing"),
        ("float32_flops_per_s = 1e12", "a.float32_flops_source: missing"),
        ("launch_s = 1e-6", "a.launch_source: missing"),
        ("idle_power_w = 9.0", "a.power_source: missing"),
        ('load_power_w = 9.0\npower_source = "here"', "a.power_scope: missing"),
        ("peak_flops_per_s = 165.2", "peak_flops_per_s"),  # TFLOPS by mistake
    ],
)
def test_a_limit_without_a_source_or_in_another_unit_is_named(tmp_path, lines, message):
    (tmp_path / "machines.toml").write_text(MACHINE + lines)
    with pytest.raises(BadFile) as caught:
        machine_profiles(tmp_path)
    assert message in str(caught.value)


def test_what_is_said_of_capacities_and_bandwidths_of_the_lessons_machines_is_said_in_three_languages() -> None:
    texts, profiles = machine_texts(), machine_profiles()
    shown = {profile.source for profile in profiles}
    shown |= {profile.memory_rate_source or "" for profile in profiles if profile.name in ("mac-studio-m3-ultra", "pc-rtx-4090")}
    assert shown <= set(texts)
    for english, said in texts.items():
        assert said["en"] == english
        assert len(set(said.values())) == 3, english
        assert not re.search(r"\d%| %|\d (?:G[Bo]|Gi[Bo]|Mi[Bo])\b", said["fr"] + said["ro"]), "a line may break at this space"
        assert not set("şţŞŢ") & set(said["ro"])
        numbers = [sorted(re.findall(r"\d+", re.sub(r"(?<=\d)[\u202f.,](?=\d)", "", text))) for text in said.values()]
        assert numbers[0] == numbers[1] == numbers[2], english


def test_a_text_that_no_machine_has_is_refused(tmp_path: Path) -> None:
    row = '[[machine]]\nname = "m"\ntitle = "M"\nmemory_bytes = 2\ncapacity_bytes = 1\nsource = "here"\n'
    (tmp_path / "machines.toml").write_text(row + '[[text]]\nen = "there"\nfr = "là"\nro = "acolo"\n')
    with pytest.raises(BadFile, match="no machine has it as its source"):
        machine_texts(tmp_path)
    (tmp_path / "two").mkdir()
    (tmp_path / "two/machines.toml").write_text(row + '[[text]]\nen = "here"\nfr = "ici"\nro = "aici"\n')
    assert machine_texts(tmp_path / "two")["here"]["ro"] == "aici"
