"""Which card, and what its driver's errors mean."""

import sys
from importlib import import_module
from importlib.util import find_spec
from inspect import signature

import pytest
from fake_nvml import ANSWERS, GPU_IS_LOST, MIB, NO_PERMISSION, UNKNOWN, Clock, FakeNvml, h200, old_driver, rtx_4090

from bench.meters.interface import DeviceLost, Unavailable
from bench.meters.nvml import GPU_SENSOR, SM_CLOCK
from bench.meters.nvml_card import INSTANT_POWER_FIELD, LOST, MEMORY_VERSION_2, NOT_FOUND, Card, NotGiven, chosen_card, text
from bench.meters.nvml_settings import GRAPHICS, MEMORY

POWER = "nvmlDeviceGetPowerUsage"
TWO = FakeNvml((rtx_4090(), h200()), Clock())
MIG = FakeNvml((h200(uuid="MIG-0001"),), Clock())


@pytest.mark.parametrize(
    ("visible", "index"),
    [(None, 0), ("0", 0), ("1,0", 1), (" 1 ", 1), ("GPU-1c4a", 1), ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", 0)],
)
def test_the_first_visible_card_is_taken(visible: str | None, index: int) -> None:
    assert chosen_card(TWO, visible).handle == index


def test_a_mig_device_is_found_by_its_uuid() -> None:
    assert chosen_card(MIG, "MIG-0001,MIG-0002").handle == 0
    with pytest.raises(Unavailable, match="MIG-0002"):
        chosen_card(MIG, "MIG-0002")


@pytest.mark.parametrize("visible", ["", "-1", "2", "NoDevFiles", "GPU-ffff", "GPU-"])
def test_no_card_or_an_ambiguous_one_is_unavailable(visible: str) -> None:
    with pytest.raises(Unavailable, match="CUDA_VISIBLE_DEVICES"):
        chosen_card(TWO, visible)


def test_a_driver_without_a_card_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="no card"):
        chosen_card(FakeNvml((), Clock()), None)


def ask(card: Card) -> object:
    return card.ask(POWER)


@pytest.mark.parametrize(("error", "for_good"), [(NO_PERMISSION, True), (3, True), (UNKNOWN, False), (10, False)])
def test_an_error_is_no_value_and_says_whether_to_ask_again(error: int, for_good: bool) -> None:
    fake = FakeNvml((rtx_4090(errors={POWER: error}),), Clock())
    with pytest.raises(NotGiven, match=POWER) as raised:
        ask(Card(fake, 0))
    assert (raised.value.code, raised.value.for_good) == (error, for_good)


@pytest.mark.parametrize("error", [GPU_IS_LOST, 9, 16])
def test_a_lost_card_is_lost(error: int) -> None:
    fake = FakeNvml((rtx_4090(lost_at_s=0.0, lost_error=error),), Clock())
    with pytest.raises(DeviceLost, match=POWER):
        ask(Card(fake, 0))


def test_an_older_name_is_asked_where_the_newer_is_missing() -> None:
    new, old = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
    of_driver = Card(FakeNvml((old_driver(),), Clock()), 0)
    of_module = Card(FakeNvml((rtx_4090(absent=frozenset({new})),), Clock()), 0)
    assert of_driver.ask(new, old) == of_module.ask(new, old) == 1
    with pytest.raises(NotGiven, match="too old") as raised:
        of_module.ask(new)
    assert raised.value.for_good


def test_a_function_that_module_and_driver_disagree_on_has_an_older_one() -> None:
    name = "nvmlDeviceGetComputeRunningProcesses"
    card = Card(FakeNvml((old_driver(),), Clock()), 0)
    assert card.ask(name, f"{name}_v2") == []
    with pytest.raises(NotGiven, match="too old"):
        card.ask(name)


def test_reserved_memory_is_left_out_where_the_driver_tells_it_apart() -> None:
    used = ((0.0, 100.0 * MIB),)
    assert Card(FakeNvml((rtx_4090(used_bytes=used),), Clock()), 0).memory_used_bytes() == 100 * MIB
    assert Card(FakeNvml((old_driver(used_bytes=used),), Clock()), 0).memory_used_bytes() == (100 + 347) * MIB


def test_memory_that_fails_for_a_moment_is_not_asked_in_the_older_way() -> None:
    """The older figure holds the reserved part: a single reading of it among the others would look like a peak."""
    card = Card(FakeNvml((rtx_4090(errors={"nvmlDeviceGetMemoryInfo v2": UNKNOWN}),), Clock()), 0)
    with pytest.raises(NotGiven, match="Unknown"):
        card.memory_used_bytes()


def test_text_of_older_modules_comes_as_bytes() -> None:
    assert text(b"580.65") == text("580.65") == "580.65"


def test_the_replay_has_no_function_that_the_real_module_lacks() -> None:
    """`nvidia-ml-py` is a dependency everywhere but on macOS; each function takes a handle and what the replay takes."""
    if sys.platform == "darwin":
        assert find_spec("pynvml") is None
        return
    real = import_module("pynvml")
    for name, replayed in ANSWERS.items():
        wanted = len(signature(replayed).parameters) - 1  # less the time
        taken = signature(getattr(real, name)).parameters
        assert len(taken) == wanted, name
    assert (real.NVML_FI_DEV_POWER_INSTANT, real.nvmlMemory_v2) == (INSTANT_POWER_FIELD, MEMORY_VERSION_2)
    assert (real.NVML_CLOCK_GRAPHICS, real.NVML_CLOCK_SM, real.NVML_CLOCK_MEM) == (GRAPHICS, SM_CLOCK, MEMORY)
    assert (real.NVML_ERROR_UNKNOWN, real.NVML_ERROR_NOT_FOUND, real.NVML_TEMPERATURE_GPU) == (UNKNOWN, NOT_FOUND, GPU_SENSOR)
    assert LOST == (real.NVML_ERROR_DRIVER_NOT_LOADED, real.NVML_ERROR_GPU_IS_LOST, real.NVML_ERROR_RESET_REQUIRED)
