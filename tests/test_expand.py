from bench.catalog import catalogue
from bench.expand import cells_of, exclusion_of
from bench.spec import Arm, Exclusion, Suite


def suite(fixed=(), exclude=(), **sweep) -> Suite:
    sweep = {"model": ("tiny-llama-xs",), "method": ("lora",), "backend": ("hf",)} | sweep
    names = dict(fixed).get("model", None)
    models = catalogue().models
    used = [names] if names else sweep["model"]
    return Suite(
        name="s",
        question="Q?",
        sweep=tuple(sweep.items()),
        fixed=tuple(dict(fixed).items()),
        models=tuple((name, models[name]) for name in used),
        exclude=tuple(Exclusion(tuple(where.items()), "because") for where in exclude),
    )


def cells(declared: Suite):
    return cells_of(declared, lambda name: {"hf": "cuda", "mlx": "metal", "fake": "cpu"}[name])


def ids(declared: Suite) -> list[str]:
    return [cell.id for cell in cells(declared)]


def left(declared: Suite) -> list[str]:
    return [cell.id for cell in cells(declared) if exclusion_of(declared, cell) is None]


def test_the_last_list_turns_fastest_and_further_fields_stand_in_the_id():
    declared = suite(backend=("hf", "mlx@cpu"), batch_size=(1, 2), gradient_checkpointing=(True,))
    assert ids(declared) == [
        "tiny-llama-xs/lora/hf@cuda/batch_size=1/gradient_checkpointing=true",
        "tiny-llama-xs/lora/hf@cuda/batch_size=2/gradient_checkpointing=true",
        "tiny-llama-xs/lora/mlx@cpu/batch_size=1/gradient_checkpointing=true",
        "tiny-llama-xs/lora/mlx@cpu/batch_size=2/gradient_checkpointing=true",
    ]


def test_a_field_that_a_method_does_not_use_neither_multiplies_nor_names_its_cells():
    assert ids(suite(method=("full", "lora"), rank=(8, 16))) == [
        "tiny-llama-xs/full/hf@cuda",
        "tiny-llama-xs/lora/hf@cuda/rank=8",
        "tiny-llama-xs/lora/hf@cuda/rank=16",
    ]


def test_a_device_named_and_the_same_device_preferred_are_one_cell():
    assert ids(suite(backend=("hf", "hf@cuda", "hf@cpu"))) == ["tiny-llama-xs/lora/hf@cuda", "tiny-llama-xs/lora/hf@cpu"]


def test_whole_numbers_are_short_in_ids_and_floats_in_the_work():
    (cell,) = cells(suite(alpha=(32.0,)))
    assert cell.id.endswith("/alpha=32")
    assert isinstance(cell.workload.alpha, float)


def test_implementation_fields_make_cells_of_the_same_work():
    eager, sdpa = cells(suite(attention=("eager", "sdpa")))
    assert eager.workload.digest == sdpa.workload.digest
    assert eager.key != sdpa.key


def test_an_exclusion_leaves_out_what_matches_all_its_entries():
    declared = suite(method=("full", "lora"), backend=("hf", "mlx"), exclude=[{"method": "full", "backend": "mlx"}])
    assert left(declared) == ["tiny-llama-xs/full/hf@cuda", "tiny-llama-xs/lora/hf@cuda", "tiny-llama-xs/lora/mlx@metal"]


def test_an_exclusion_may_name_a_backend_with_or_without_its_device():
    pair = suite(backend=("mlx", "mlx@cuda"), exclude=[{"backend": "mlx@cuda"}])
    assert left(pair) == ["tiny-llama-xs/lora/mlx@metal"]
    assert left(suite(backend=("mlx", "mlx@cuda", "hf"), exclude=[{"backend": "mlx"}])) == ["tiny-llama-xs/lora/hf@cuda"]


def test_an_excluded_rank_leaves_a_full_fine_tune_in():
    declared = suite(method=("full", "lora"), rank=(8, 16), exclude=[{"rank": 8}])
    assert left(declared) == ["tiny-llama-xs/full/hf@cuda", "tiny-llama-xs/lora/hf@cuda/rank=16"]


def test_modules_and_fixed_fields_and_implementations_can_be_excluded():
    declared = suite(modules=("all", "attention"), exclude=[{"modules": "attention"}])
    assert left(declared) == ["tiny-llama-xs/lora/hf@cuda/modules=all"]
    assert left(suite(fixed={"seed": 3}, exclude=[{"seed": 3, "model": "tiny-llama-xs"}])) == []
    assert left(suite(attention=("eager", "sdpa"), exclude=[{"attention": "eager"}])) == [
        "tiny-llama-xs/lora/hf@cuda/attention=sdpa"
    ]


def test_everything_may_be_fixed():
    declared = Suite(
        name="s",
        question="Q?",
        sweep=(),
        fixed=(("model", "tiny-llama-xs"), ("method", "full"), ("backend", "mlx@cpu")),
        models=(("tiny-llama-xs", catalogue().models["tiny-llama-xs"]),),
    )
    assert ids(declared) == ["tiny-llama-xs/full/mlx@cpu"]


def test_every_arm_does_the_same_work_and_names_its_cells():
    base = suite(method=("lora", "qlora"))
    arms = (
        Arm("1-eager", (("backend", "hf"), ("attention", "eager"))),
        Arm("2-liger", (("backend", "hf"), ("kernels", "liger"), ("compile", True))),
        Arm("3-mlx", (("backend", "mlx@cuda"),)),
    )
    declared = Suite(name="s", question="Q?", sweep=base.sweep[:2], models=base.models, arms=arms)
    found = cells(declared)
    assert [cell.id for cell in found[:4]] == [
        "tiny-llama-xs/lora/hf@cuda/arm=1-eager",
        "tiny-llama-xs/lora/hf@cuda/arm=2-liger",
        "tiny-llama-xs/lora/mlx@cuda/arm=3-mlx",
        "tiny-llama-xs/qlora/hf@cuda/arm=1-eager",
    ]
    assert len({cell.workload.digest for cell in found}) == 2
    assert len({cell.key for cell in found}) == 6
    assert found[1].implementation.compile is True
    assert found[1].implementation.attention is None
    assert found[2].key == cells(suite(backend=("mlx@cuda",)))[0].key  # an arm's name is no part of what is done
