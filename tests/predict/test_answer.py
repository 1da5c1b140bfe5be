"""A cell on a machine, answered; and the same for a machine's plan."""

import json
import subprocess
from dataclasses import asdict, replace

import pytest

from bench.backends.interface import UnsupportedError
from bench.catalog import catalogue, machine_profiles
from bench.limits import Limit
from bench.machine import catalogue_machine
from bench.model import Model, canonical_json
from bench.own_rates import Rates, keep
from bench.predict import answer, rules
from bench.predict.answer import Place, chances, foreteller, memory_of, place, predict, profile_capacity, traced
from bench.reading.strict import BadFile, Problem
from bench.record import Gpu
from bench.spec import Cell, workload

PROFILES = {profile.name: profile for profile in machine_profiles()}
PC, MAC = PROFILES["pc-rtx-4090"], PROFILES["mac-studio-m3-ultra"]


def cell_of(backend="hf", device="cuda", name="llama-3.1-8b", **declared):
    return Cell(workload(model=catalogue().models[name], **{"method": "qlora", **declared}), backend, device)


def test_a_prediction_has_every_key_of_the_contract():
    found = predict(cell_of(), PC).to_json()
    assert found["fits"] == "yes"
    assert found["capacity_bytes"] == PC.capacity_bytes
    assert found["how"] == "rules"
    assert found["tokens_per_s_low"] < found["tokens_per_s"] < found["tokens_per_s_high"]
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("profile", "device", "capacity"),
    [
        (PC, "cuda", PC.capacity_bytes),
        (PC, "cpu", None),
        (MAC, "metal", MAC.capacity_bytes),
        (MAC, "cpu", MAC.memory_bytes),
        (None, "cuda", None),
    ],
)
def test_a_profile_tells_of_the_memory_that_it_describes(profile, device, capacity):
    assert profile_capacity(profile, device) == capacity


def test_without_a_capacity_nothing_is_said_of_fit():
    found = predict(cell_of(), None)
    assert (found.capacity_bytes, found.fit_probability, found.fits) == (None, None, None)


def test_a_catalogues_machine_has_its_profiles_capacity_and_an_unknown_main_memory():
    foretell = foreteller(catalogue_machine("pc-rtx-4090"))
    assert foretell(cell_of()).capacity_bytes == PC.capacity_bytes
    assert foretell(cell_of(device="cpu")).capacity_bytes is None


def test_a_machine_that_nobody_described_has_what_its_driver_says(machine):
    card = replace(machine, gpus=(Gpu("Some card", 10 * 10**9),), devices=("cuda", "cpu"))
    foretell = foreteller(card)
    assert foretell(cell_of()).capacity_bytes == 10 * 10**9
    assert foretell(cell_of(device="cpu")).capacity_bytes == machine.memory_bytes


def test_a_limit_is_the_capacity(machine):
    foretell = foreteller(machine, Limit(5 * 10**9))
    assert foretell(cell_of(device="cpu")).capacity_bytes == 5 * 10**9
    assert foretell(cell_of(device="cpu")).fits == "no"


RATES = Rates(
    device="cpu",
    framework="torch",
    matrix_flops_per_s={"bfloat16": 1e11, "float32": 1e11},
    memory_bytes_per_s=1e10,
    launch_s=1e-5,
)


def test_a_computer_that_nobody_described_has_the_rates_that_were_measured_on_it(machine, tmp_path):
    cell = cell_of(device="cpu")
    before = foreteller(machine, results=tmp_path)(cell)
    assert before.speed.tokens_per_s is None
    assert before.speed.notes == (place(machine, "hf", "cpu", tmp_path).note,)
    assert "no rates of this computer's cpu are known" in before.speed.notes[0]
    assert "`wingspan doctor --calibrate` measures them" in before.speed.notes[0]
    keep(tmp_path, machine, (RATES,))
    after = foreteller(machine, results=tmp_path)(cell)
    assert after.speed.tokens_per_s > 0
    assert after.capacity_bytes == before.capacity_bytes == machine.memory_bytes
    assert after.speed.notes[-1].startswith("speed: from rates measured here")
    assert foreteller(machine)(cell).speed.tokens_per_s is None


def test_measured_rates_are_of_their_device_and_of_a_described_machine_its_cpus_alone(machine, tmp_path):
    pc = replace(machine, name=PC.name, gpus=(Gpu(PC.gpu, PC.memory_bytes),), devices=("cuda", "cpu"))
    keep(tmp_path, pc, (RATES, replace(RATES, device="cuda")))
    assert place(pc, "hf", "cuda", tmp_path) == Place(PC, PC.capacity_bytes)
    assert place(pc, "hf", "cpu", tmp_path).profile.peak_flops_per_s == 1e11
    box = replace(machine, gpus=(Gpu("Some card", 10**10),), devices=("cuda", "cpu"))
    assert place(box, "hf", "cuda", tmp_path).profile.capacity_bytes == 10**10
    assert place(catalogue_machine(PC.name), "hf", "cpu", tmp_path) == Place(PC, None)


def test_what_torch_was_measured_to_take_of_this_card_stands_in_for_the_constants(machine, tmp_path, monkeypatch):
    card = replace(machine, gpus=(Gpu(name="A card", memory_bytes=24 * 10**9),), devices=("cuda", "cpu"))
    guessed = foreteller(card, results=tmp_path)(cell_of())
    taken = {"context_bytes": 900_000_000, "workspace_bytes": {"bfloat16": 67_108_864}, "versions": {"torch": "9.9"}}
    keep(tmp_path, card, (replace(RATES, device="cuda", **taken),))
    monkeypatch.setattr("bench.own_rates.version", lambda name: "9.9")
    known = foreteller(card, results=tmp_path)(cell_of())
    assert known.memory.held_bytes - guessed.memory.held_bytes == 67_108_864 - 17_039_360 + 900_000_000 - 500_000_000
    assert known.fit_probability <= guessed.fit_probability
    assert "measured here with torch 9.9" in known.memory.notes[0]
    assert foreteller(catalogue_machine("pc-rtx-4090"), results=tmp_path)(cell_of()).memory == guessed.memory


def test_of_mlx_on_a_cpu_no_rates_tell(machine, tmp_path):
    keep(tmp_path, machine, (RATES,))
    found = foreteller(machine, results=tmp_path)(cell_of("mlx", "cpu"))
    assert found.speed.tokens_per_s is None
    assert "MLX on a CPU" in found.to_json()["notes"][-1]


def test_rates_that_cannot_be_read_are_refused_and_not_passed_over(machine, tmp_path):
    keep(tmp_path, machine, (RATES,)).write_text("{}")
    with pytest.raises(BadFile, match="doctor --calibrate"):
        foreteller(machine, results=tmp_path)(cell_of(device="cpu"))


def test_no_speed_is_predicted_of_a_mixture_of_experts(machine):
    config = {**catalogue().models["llama-3.2-1b"].config, "model_type": "mixture", "num_experts": 8}
    cell = Cell(workload(model=Model("m", canonical_json(config)), method="lora"), "hf", "cuda")
    assert predict(cell, PC).speed.tokens_per_s is None
    assert "mixture of experts" in predict(cell, PC).to_json()["notes"][-1]
    assert "mixture of experts" in foreteller(machine)(replace(cell, device="cpu")).speed.notes[0]


def test_each_cell_is_predicted_once(machine, monkeypatch):
    asked = []
    monkeypatch.setattr(rules, "memory", lambda cell: asked.append(cell.id) or rules.uncalibrated(cell))
    foretell = foreteller(machine)
    assert foretell(cell_of(device="cpu")) is foretell(cell_of(device="cpu"))
    assert len(asked) == 1


def test_nothing_is_predicted_of_fake_work_or_of_a_model_without_sizes(machine):
    strange = Model("strange", canonical_json({"model_type": "strange", "vocab_size": 100}))
    foretell = foreteller(machine)
    assert foretell(cell_of("fake", "cpu")) is None
    assert foretell(Cell(workload(model=strange, method="lora"), "hf", "cpu")) is None


class Ended:
    def __init__(self, returncode, stdout="", stderr=""):
        self.returncode, self.stdout, self.stderr = returncode, stdout, stderr


def test_a_trace_is_what_the_child_says_last(monkeypatch):
    memory = rules.uncalibrated(cell_of())
    said = "something that a framework prints\n" + json.dumps(asdict(memory)) + "\n"
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: Ended(0, said))
    assert traced(cell_of()) == memory
    assert memory_of(json.loads(json.dumps(asdict(memory)))) == memory


@pytest.mark.parametrize(
    ("ended", "message"),
    [
        (Ended(2, stderr="a warning\nno such model\n"), "^--how trace: no such model; --how rules predicts it$"),
        (Ended(2, stderr="not this; --how rules predicts it"), "^not this; --how rules predicts it$"),
        (Ended(1, stderr="Traceback\nKeyError: 'x'"), "trace failed: KeyError"),
        (Ended(1), "no reason"),
        (Ended(-9), "ended by signal 9, perhaps for want of memory"),
    ],
)
def test_a_child_that_ends_otherwise_says_why_in_a_line(monkeypatch, ended, message):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    with pytest.raises(UnsupportedError, match=message):
        traced(cell_of())


@pytest.mark.parametrize("limit", [None, Limit(5 * 10**9)])
def test_the_chance_of_a_fit_is_that_of_the_whole_prediction_and_asks_for_no_speed(machine, limit, monkeypatch):
    cell = cell_of(device="cpu")
    whole = foreteller(machine, limit)(cell)
    monkeypatch.setattr(answer, "speed", None)
    assert chances(machine, limit)(cell) == whole.fit_probability is not None
    assert chances(machine)(cell_of("fake", "cpu")) is None
    assert chances(catalogue_machine("pc-rtx-4090"))(cell) is None
    strange = Model("x", canonical_json({"model_type": "strange", "vocab_size": 10}))
    assert chances(machine)(Cell(workload(model=strange, method="lora"), "hf", "cpu")) is None


def test_a_child_that_never_ends_is_given_up(monkeypatch):
    def never(*_, **given):
        raise subprocess.TimeoutExpired("child", given["timeout"])

    monkeypatch.setattr(subprocess, "run", never)
    with pytest.raises(UnsupportedError, match="longer than 900 s"):
        traced(cell_of())


def test_the_command_asks_for_the_way_that_it_was_given(monkeypatch):
    monkeypatch.setattr(answer, "traced", lambda cell: replace(rules.uncalibrated(cell), how="trace"))
    assert predict(cell_of(), PC, "trace").memory.how == "trace"


def test_a_fault_of_the_calibration_is_no_model_without_sizes(monkeypatch):
    """A plan would lose every prediction without a word."""

    def broken(cell):
        raise BadFile([Problem("calibration.toml", "memory.hf.peak.factor", "-1 is out of range")])

    monkeypatch.setattr(rules, "memory", broken)
    machine = catalogue_machine("pc-rtx-4090")
    cell = cell_of()
    for asked in (foreteller(machine), chances(machine)):
        with pytest.raises(BadFile):
            asked(cell)
