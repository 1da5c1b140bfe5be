"""Each validator: where it fires, and next to that where it must not."""

import math
from dataclasses import replace
from itertools import chain, repeat

import pytest

from bench.catalog import catalogue, machine_profiles
from bench.model import count_parameters, model_from_config
from bench.record import Gpu, Machine, Step
from bench.spec import workload
from bench.trust.validators import VALIDATORS, Facts, observed_tick_s, violation
from bench.trust.work import flops_per_prompt_token, flops_per_token

PROFILES = {profile.name: profile for profile in machine_profiles()}
PC = Machine(
    name="pc-rtx-4090",
    machine_id="0",
    system="Linux",
    architecture="x86_64",
    os_version="",
    chip="Core i9",
    cpu_cores=32,
    memory_bytes=64 * 2**30,
    gpus=(Gpu("NVIDIA GeForce RTX 4090", 24_564 * 2**20),),
    devices=("cuda", "cpu"),
)
MAC = replace(PC, name="mac-studio-m3-ultra", system="Darwin", chip="Apple M3 Ultra", memory_bytes=96 * 2**30, gpus=())
SWAP = 8 * 2**30
MODEL = catalogue().models["llama-3.2-1b"]
WORK = workload(model=MODEL, method="lora", batch_size=2, sequence_length=512)
MODEL_8B = catalogue().models["llama-3.1-8b"]


def steps(losses=(2.0, 1.9, 1.8, 1.7), duration_s=0.2, **changes) -> list[Step]:
    """The first is warm-up, and slow."""
    content = {"tokens": 1024, "loss_tokens": 1022, "tokens_digest": "d", **changes}
    return [
        Step(
            step=n,
            phase="measured" if n > 1 else "warmup",
            start_s=duration_s * n,
            duration_s=duration_s if n > 1 else 9.0,
            loss=loss,
            **content,
        )
        for n, loss in enumerate(losses, 1)
    ]


def facts(columns=None, **changes) -> Facts:
    """A sound run on the PC; columns given replace or join its own."""
    sound = {"tokens_per_s": 5120.0, "power_w": 300.0, "power_scope": "gpu-board", "framework_peak_bytes": 6 * 10**9}
    sound |= {"reserved_peak_bytes": 7 * 10**9, "device_peak_bytes": 8 * 10**9, "host_peak_bytes": 3 * 10**9}
    usual = {"steps": steps(), "device": "cuda", "workload": WORK, "machine": PC, "profile": PROFILES["pc-rtx-4090"]}
    usual |= {"swap_total_bytes": SWAP, "tick_s": 1e-7, "columns": sound | (columns or {})}
    return Facts(**usual | changes)


def broken(seen: Facts) -> str | None:
    """The name of the validator that the run breaks."""
    line = violation(seen)
    return line and line.partition(":")[0]


def test_a_sound_run_breaks_none():
    assert violation(facts()) is None


def test_what_is_unknown_is_not_judged():
    bare = Facts(steps=steps(losses=(None, None, None, None)), device="cuda", workload=WORK, machine=replace(PC, gpus=()))
    assert violation(bare) is None
    empty = dict.fromkeys(facts().columns)
    assert violation(facts(empty)) is None


def test_the_line_says_what_was_seen_the_cause_and_the_remedy():
    line = violation(facts(steps=steps(losses=(2.0, math.inf, 1.0))))
    validator = VALIDATORS["loss-not-finite"]
    assert line == f"loss-not-finite: the loss of step 2 was inf; {validator.cause}; {validator.remedy}"
    assert all(one.cause and one.remedy and "\n" not in one.cause + one.remedy for one in VALIDATORS.values())


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_loss_not_finite(loss):
    assert broken(facts(steps=steps(losses=(2.0, 1.9, loss)))) == "loss-not-finite"
    assert broken(facts(steps=steps(losses=(2.0, 1e30, 1.0)))) is None


@pytest.mark.parametrize(
    ("losses", "fires"),
    [
        ((2.0, 2.0, 2.0), True),
        ((0.0, 0.0, 0.0, 0.0), True),
        ((2.0, None, 2.0, 2.0), True),
        ((2.0, 2.0), False),  # two may be equal by chance
        ((2.0, 2.0, 2.0, 2.0001), False),
        ((2.0, None, 2.0), False),
    ],
)
def test_loss_constant(losses, fires):
    assert broken(facts(steps=steps(losses=losses))) == ("loss-constant" if fires else None)


@pytest.mark.parametrize(
    ("changes", "fires"),
    [
        ({}, False),
        ({"tokens_digest": None}, True),
        ({"tokens": 1023}, True),
        ({"tokens": 2048}, True),  # two steps taken for one
        ({"loss_tokens": 1024}, True),
        ({"loss_tokens": 0}, True),
    ],
)
def test_wrong_tokens(changes, fires):
    assert broken(facts(steps=steps(**changes))) == ("wrong-tokens" if fires else None)


SERVE = workload(model=MODEL, method="serve", batch_size=2, prompt_tokens=100, generated_tokens=11)


def served(requests=3, prefill=None, decode=None) -> list[Step]:
    """Batches of requests, the first of them warm-up, each a prefill of 0.1 s and a decode of 0.5 s."""
    parts = {"prefill": {"tokens": 200, "tokens_digest": "d", **(prefill or {})}, "decode": {"tokens": 20, **(decode or {})}}
    return [
        Step(
            step=number, phase="warmup" if number == 1 else phase, start_s=0.0, loss_tokens=0, loss=None,
            **{"duration_s": 0.1 if phase == "prefill" else 0.5, **part},
        )
        for number in range(1, requests + 1) for phase, part in parts.items()
    ]  # fmt: skip


def serving(columns=None, **changes) -> Facts:
    return facts(
        {"tokens_per_s": 40.0, "prefill_tokens_per_s": 2000.0, **(columns or {})},
        **{"workload": SERVE, "steps": served(), **changes},
    )


def test_sound_requests_break_none():
    assert violation(serving()) is None


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (served(prefill={"tokens_digest": None}), "request 1 has no digest of its prompts"),
        (served(prefill={"tokens": 199}), "request 1 took 199 and 20 tokens, not 200 in its prefill and 20 in its decode"),
        (served(decode={"tokens": 22}), "request 1 took 200 and 22 tokens"),  # the first of each sequence counted twice
        (served()[:-1], "request 3 took 200 tokens, not"),
        ([step for step in served() for _ in (1, 2)], "request 1 took 200 and 200 and 20 and 20 tokens"),
    ],
)
def test_requests_that_are_not_what_was_asked_for(told, reason):
    line = violation(serving(steps=told))
    assert line is not None
    assert line.startswith(f"wrong-tokens: {reason}")


def test_decoding_faster_than_the_card_multiplies():
    limit = 1.3 * 165.2e12 / flops_per_token(SERVE)
    assert broken(serving({"tokens_per_s": 0.99 * limit})) is None
    assert broken(serving({"tokens_per_s": 1.01 * limit})) == "impossible-rate"


def test_reading_prompts_faster_than_the_card_multiplies_what_no_framework_can_leave_out():
    limit = 1.3 * 165.2e12 / flops_per_prompt_token(SERVE)
    assert broken(serving({"prefill_tokens_per_s": 0.99 * limit})) is None
    line = violation(serving({"prefill_tokens_per_s": 1.01 * limit}))
    assert line is not None
    assert line.startswith("impossible-rate: ")
    assert " prompt tokens/s are at least " in line


@pytest.mark.parametrize(
    ("part", "fires"), [({"prefill": {"duration_s": 9e-5}}, "prefill"), ({"decode": {"duration_s": 9e-5}}, "decode")]
)
def test_parts_of_requests_too_short_to_be_timed(part, fires):
    line = violation(serving(steps=served(**part)))
    assert line is not None
    assert line.startswith(f"steps-too-short: the median {fires} took 9e-05 s")


def test_the_floor_of_a_prompt_token_leaves_out_head_embedding_and_last_block():
    """Of the 8B model's 8.03e9 parameters, 1.05e9 are head and embedding, and one of 32 blocks is taken off."""
    work = workload(model=MODEL_8B, method="serve")
    in_blocks = MODEL_8B.parameters - 2 * 128_256 * 4096
    assert flops_per_prompt_token(work) == pytest.approx(2 * in_blocks * 31 / 32)
    tied = workload(model=MODEL, method="serve")
    assert flops_per_prompt_token(tied) == pytest.approx(2 * (MODEL.parameters - 128_256 * 2048) * 15 / 16)
    unknown = replace(tied, model=model_from_config("mixture", {**MODEL.config, "model_type": "qwen3_moe"}))
    assert flops_per_prompt_token(unknown) is None


def rate_at(flops_per_s: float, work=WORK) -> dict[str, float]:
    """The rate that keeps the device so busy."""
    return {"tokens_per_s": flops_per_s / flops_per_token(work)}


@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
def test_impossible_rate_on_a_card_that_is_known(method):
    work = replace(workload(model=MODEL, method=method), batch_size=2, sequence_length=512)
    assert broken(facts(rate_at(1.25 * 165.2e12, work), workload=work)) is None  # overclocked
    assert broken(facts(rate_at(1.35 * 165.2e12, work), workload=work)) == "impossible-rate"


def test_a_rate_of_tokens_that_were_counted_a_thousandfold():
    """An 8B LoRA run does some 3,000 tokens/s on this card."""
    work = replace(WORK, model=MODEL_8B)
    assert broken(facts({"tokens_per_s": 3_000.0}, workload=work)) is None
    assert broken(facts({"tokens_per_s": 3_000_000.0}, workload=work)) == "impossible-rate"


@pytest.mark.parametrize(("dtype", "flops"), [("float32", 512), ("bfloat16", 2048)])
def test_impossible_rate_on_the_cpu(dtype, flops):
    work = replace(WORK, weights_dtype=dtype)
    limit = 32 * 6e9 * flops
    plain = {"power_scope": "package"}
    assert broken(facts(plain | rate_at(0.99 * limit, work), device="cpu", workload=work)) is None
    assert broken(facts(plain | rate_at(1.01 * limit, work), device="cpu", workload=work)) == "impossible-rate"


def test_no_rate_is_impossible_where_the_device_or_the_model_is_unknown():
    assert broken(facts({"tokens_per_s": 1e12}, profile=None)) is None
    unknown = replace(WORK, model=model_from_config("mixture", {**MODEL.config, "model_type": "qwen3_moe"}))
    assert broken(facts({"tokens_per_s": 1e12}, workload=unknown)) is None


@pytest.mark.parametrize(
    ("power_w", "scope", "settings", "fires"),
    [
        (450.0, "gpu-board", {}, False),
        (22.0, "gpu-board", {}, True),  # 5% of the published 450 W is 22.5 W
        (23.0, "gpu-board", {}, False),
        (0.3, "gpu-board", {}, True),  # milliwatts divided twice
        (584.0, "gpu-board", {}, False),
        (586.0, "gpu-board", {}, True),
        (700.0, "gpu-board", {"power_limit_default_w": "600"}, False),  # this very board says more than the catalogue
        (300_000.0, "gpu-board", {"power_limit_default_w": "600"}, True),
        (586.0, "gpu-board", {"power_limit_default_w": "N/A"}, True),  # then the catalogue's holds
        (200.0, "package", {"package_power_limit_w": "125"}, True),
        (120.0, "package", {"package_power_limit_w": "125"}, False),
        (5000.0, "package", {}, False),
        (5000.0, "wall", {}, False),
    ],
)
def test_impossible_power(power_w, scope, settings, fires):
    seen = facts({"power_w": power_w, "power_scope": scope}, settings=settings)
    assert broken(seen) == ("impossible-power" if fires else None)


@pytest.mark.parametrize(("power_w", "fires"), [(3.0, False), (120.0, False), (350.0, False), (352.0, True), (120_000.0, True)])
def test_the_power_of_a_chip_has_no_floor(power_w, fires):
    """The catalogue's 270 W are the whole Mac's, at the wall."""
    profile = PROFILES["mac-studio-m3-ultra"]
    columns = {"power_w": power_w, "power_scope": "soc", "tokens_per_s": 500.0}
    seen = facts(columns, device="metal", machine=MAC, profile=profile)
    assert broken(seen) == ("impossible-power" if fires else None)


@pytest.mark.parametrize("column", ["framework_peak_bytes", "reserved_peak_bytes", "device_peak_bytes"])
def test_memory_above_the_cards(column):
    board = PC.gpus[0].memory_bytes
    assert broken(facts({column: board})) is None
    assert broken(facts({column: board + 1})) == "memory-above-capacity"


def test_memory_above_main_memory_and_swap():
    capacity = PC.memory_bytes + SWAP
    assert broken(facts({"host_peak_bytes": capacity})) is None
    assert broken(facts({"host_peak_bytes": capacity + 1})) == "memory-above-capacity"
    assert broken(facts({"host_peak_bytes": capacity + 1}, swap_total_bytes=None)) is None


@pytest.mark.parametrize("column", ["host_peak_bytes", "framework_peak_bytes"])
def test_on_a_mac_pages_are_compressed_but_not_without_limit(column):
    capacity = MAC.memory_bytes + SWAP
    on_mac = {"device": "metal", "machine": MAC, "profile": None}
    soc = {"power_scope": "soc", "device_peak_bytes": None}
    assert broken(facts(soc | {column: 2 * capacity}, **on_mac)) is None
    assert broken(facts(soc | {column: 1024 * capacity}, **on_mac)) == "memory-above-capacity"  # KiB taken for bytes twice


@pytest.mark.parametrize(("duration_s", "tick_s", "fires"), [(0.2, 1e-7, False), (0.01, 15.6e-3, True), (1e-3, 1e-6, False)])
def test_steps_too_short(duration_s, tick_s, fires):
    """The warm-up step, at nine seconds, does not count."""
    seen = facts(steps=steps(losses=(2.0, 1.0, 0.9), duration_s=duration_s), tick_s=tick_s)
    assert broken(seen) == ("steps-too-short" if fires else None)


def test_the_tick_of_a_coarse_clock_is_found_between_readings_that_are_equal():
    times = chain.from_iterable(repeat(n * 0.0156, 700) for n in range(1, 100))
    assert observed_tick_s(lambda: next(times)) == pytest.approx(0.0156)
    assert observed_tick_s(lambda: 5.0) == math.inf


def test_the_clock_of_this_machine_ticks_finely_enough_for_steps_of_milliseconds():
    from time import perf_counter

    assert 0 < observed_tick_s(perf_counter) < 1e-6


@pytest.mark.parametrize(
    ("declared", "per_multiplied"),
    [
        ({"method": "full"}, 6),
        ({"method": "lora"}, 2 + 2 * 15 / 16),
        ({"method": "qlora"}, 2 + 2 * 15 / 16),
        ({"method": "lora", "adapter_layers": 1}, 2),
    ],
)
def test_the_floor_of_work_by_method(declared, per_multiplied):
    """The 1B model ties its head to its embedding, so all its parameters are multiplied; it has 16 blocks."""
    work = workload(model=MODEL, **declared)
    expected = per_multiplied * MODEL.parameters * (1 - 1 / work.sequence_length)
    assert flops_per_token(work) == pytest.approx(expected)


def test_an_embedding_of_its_own_is_looked_up_not_multiplied():
    config = MODEL_8B.config
    multiplied = count_parameters(config) - config["vocab_size"] * config["hidden_size"]
    assert flops_per_token(workload(model=MODEL_8B, method="serve")) == 2 * multiplied


def test_under_wsl_torch_may_hold_more_than_the_card_has() -> None:
    """The driver lends it the computer's memory: `spilled`, and no contradiction. Its own figure for the card still is one."""
    board = 25_757_220_864
    wsl = replace(facts({}).machine, os_version="Ubuntu 24.04, kernel 5.15.167.4-microsoft-standard-WSL2")
    for column in ("framework_peak_bytes", "reserved_peak_bytes"):
        assert broken(replace(facts({column: board + 1}), machine=wsl)) is None
    assert broken(replace(facts({"device_peak_bytes": board + 1}), machine=wsl)) == "memory-above-capacity"
