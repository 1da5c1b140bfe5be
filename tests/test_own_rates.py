"""This computer's own rates: from a child, into a file, out as a profile."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake_nvml
import pytest

from bench import own_rates
from bench.own_rates import Rates, Share, card_held_bytes, keep, measure, own_profile, own_shares
from bench.reading.strict import BadFile
from bench.record import Machine

FOUND = Rates(
    device="cuda",
    framework="torch",
    matrix_flops_per_s={"bfloat16": 9e13, "float32": 1e13},
    memory_bytes_per_s=8e11,
    launch_s=4e-6,
)


@pytest.fixture
def box() -> Machine:
    return Machine(
        name="box",
        machine_id="0f0f",
        system="Linux",
        architecture="x86_64",
        os_version="",
        chip="A chip",
        cpu_cores=2,
        memory_bytes=2**34,
        gpus=(),
        devices=("cpu",),
    )


def child(monkeypatch: pytest.MonkeyPatch, **ended: Any) -> None:
    result = SimpleNamespace(**{"returncode": 0, "stdout": "", "stderr": "", **ended})
    monkeypatch.setattr(own_rates.subprocess, "run", lambda *args, **named: result)


def test_what_the_child_says_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, stdout='{"matrix_flops_per_s": {"bfloat16": 1.0}, "memory_bytes_per_s": 2.0, "launch_s": 3.0}\n')
    found = measure("cpu")
    assert (found.framework, found.matrix_flops_per_s, found.launch_s) == ("torch", {"bfloat16": 1.0}, 3.0)


def test_a_child_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, returncode=1, stderr="Traceback\nRuntimeError: no such device\n")
    assert measure("cuda").reason == "exit 1: RuntimeError: no such device"


def test_a_child_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*args: Any, **named: Any) -> None:
        raise subprocess.TimeoutExpired("x", named["timeout"])

    monkeypatch.setattr(own_rates.subprocess, "run", hang)
    assert "not done after" in (measure("cpu").reason or "")


def test_a_missing_framework_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_rates, "find_spec", lambda name: None)
    assert measure("metal").reason == "mlx is not installed in this environment"


def test_rates_become_a_profile_of_their_device(tmp_path: Path, box: Machine) -> None:
    assert own_profile(tmp_path, box, "cuda", 10**10) is None
    keep(tmp_path, box, (FOUND, Rates(device="cpu", reason="not asked")))
    profile = own_profile(tmp_path, box, "cuda", 10**10)
    assert profile is not None
    assert (profile.name, profile.rated_flops_per_s, profile.float32_flops_per_s) == ("box", 9e13, 1e13)
    assert (profile.memory_bytes_per_s, profile.launch_s, profile.capacity_bytes) == (8e11, 4e-6, 10**10)
    assert own_profile(tmp_path, box, "cpu", 10**10) is None


def test_another_file_in_its_place_is_named(tmp_path: Path, box: Machine) -> None:
    path = keep(tmp_path, box, (FOUND,))
    path.write_text('{"rates": [{"speed": 1}]}')
    with pytest.raises(BadFile, match=r"rates\[0\].speed: unknown key; run `wingspan doctor --calibrate` again"):
        own_profile(tmp_path, box, "cuda", 1)


CARD = {
    "workspace_bytes": {"bfloat16": 17_039_360, "float32": 17_039_360},
    "reserved_bytes": 22_000_000,
    "held_bytes": 1_422_000_000,
    "versions": {"torch": "2.13.0", "cuda": "13.0"},
}


def calibrated(monkeypatch: pytest.MonkeyPatch, held_before: int | None) -> Rates:
    rates = {"matrix_flops_per_s": {"bfloat16": 1e12}, "memory_bytes_per_s": 2e11, "launch_s": 3e-6, "card_share": CARD}
    child(monkeypatch, stdout=json.dumps(rates) + "\n")
    monkeypatch.setattr(own_rates, "card_held_bytes", lambda: held_before)
    return measure("cuda")


def test_the_context_is_what_is_held_beyond_what_was_and_what_torch_reserves(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 GB of others', before and after."""
    found = calibrated(monkeypatch, 1_000_000_000)
    assert found.context_bytes == 400_000_000
    assert (found.workspace_bytes, found.versions) == (CARD["workspace_bytes"], CARD["versions"])


def test_shares_come_back_by_dtype_for_the_torch_that_was_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, box: Machine
) -> None:
    keep(tmp_path, box, (calibrated(monkeypatch, 0), Rates(device="cpu", launch_s=1.0)))
    monkeypatch.setattr(own_rates, "version", lambda name: "2.13.0")
    shares = own_shares(tmp_path, box)
    assert shares["bfloat16"] == Share(context_bytes=1_400_000_000, workspace_bytes=17_039_360, versions=CARD["versions"])
    assert set(shares) == {"bfloat16", "float32"}
    monkeypatch.setattr(own_rates, "version", lambda name: "2.14.0")
    assert own_shares(tmp_path, box) == {}


def test_a_driver_that_does_not_tell_leaves_the_context_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, box: Machine
) -> None:
    found = calibrated(monkeypatch, None)
    assert found.context_bytes is None
    keep(tmp_path, box, (found,))
    monkeypatch.setattr(own_rates, "version", lambda name: "2.13.0")
    assert own_shares(tmp_path, box) == {}


def test_what_is_held_of_the_card_is_the_drivers_word(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvml.install(monkeypatch, card=fake_nvml.rtx_4090(), clock=fake_nvml.Clock())
    assert (card_held_bytes() or 0) > 0
    fake_nvml.install(monkeypatch, clock=fake_nvml.Clock(), init_error=fake_nvml.LIBRARY_NOT_FOUND)
    assert card_held_bytes() is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("matrix_flops_per_s", [1]),
        ("matrix_flops_per_s", {"bfloat16": "fast"}),
        ("matrix_flops_per_s", {"bfloat16": 83.0}),  # TFLOPS, not products a second
        ("matrix_flops_per_s", {"bfloat16": -1e12}),
        ("matrix_flops_per_s", {"bfloat16": 1e300}),
        ("memory_bytes_per_s", 0),
        ("launch_s", "a"),
        ("launch_s", -5),
        ("device", "gpu"),
    ],
)
def test_rates_that_no_device_has_are_named(tmp_path: Path, box: Machine, field: str, value: Any) -> None:
    path = keep(tmp_path, box, (FOUND,))
    content = json.loads(path.read_text())
    content["rates"][0][field] = value
    path.write_text(json.dumps(content))
    with pytest.raises(BadFile, match=field):
        own_profile(tmp_path, box, "cuda", 1)


def test_a_device_that_cannot_be_measured_keeps_the_rates_it_had(tmp_path: Path, box: Machine) -> None:
    keep(tmp_path, box, (FOUND,))
    keep(tmp_path, box, (Rates(device="cuda", framework="torch", reason="exit -9"), Rates(device="cpu", reason="no torch")))
    assert own_profile(tmp_path, box, "cuda", 1) is not None
    assert own_profile(tmp_path, box, "cpu", 1) is None
    (tmp_path / "machines" / "0f0f.json").write_text("{")
    keep(tmp_path, box, (FOUND,))
    assert own_profile(tmp_path, box, "cuda", 1) is not None


def test_rates_are_of_the_framework_that_reached_them(tmp_path: Path, box: Machine) -> None:
    keep(tmp_path, box, (FOUND,))
    assert own_profile(tmp_path, box, "cuda", 1, "mlx") is None


def test_rates_of_a_busy_computer_say_so(tmp_path: Path, box: Machine) -> None:
    keep(tmp_path, box, (replace(FOUND, disturbed=("cpu-contention",)),))
    profile = own_profile(tmp_path, box, "cuda", 1)
    assert profile is not None
    assert "disturbed (cpu-contention): run it again" in profile.source
