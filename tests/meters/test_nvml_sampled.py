"""The meter of an NVIDIA card as a sweep reads it: through the sampler, on one clock."""

import pytest
from fake_nvml import LIBRARY_NOT_FOUND, Clock, Process, energy_j, install, rtx_4090, trace

from bench.meters.interface import QUANTITIES, Watched
from bench.meters.nvml import Nvml
from bench.record import Reading
from bench.sweep.sampling import Sampler, sampling

WORKER = 500
WORKS = Process(WORKER, 6 * 2**30, 97)


def only_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.sweep.sampling._meters", lambda: [Nvml()])


def watch(sampler: Sampler, clock: Clock, seconds: float) -> None:
    until_s = clock() + seconds
    while clock() < until_s:
        clock.pass_s(max(sampler.due_in_s(), 0.01))
        sampler.sample()


def test_a_sweep_records_a_card_from_start_to_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    only_nvml(monkeypatch)
    clock = Clock(100.0)
    load = trace((0, 30.0), (105, 400.0))
    fake = install(monkeypatch, card=rtx_4090(power_w=load, processes=(WORKS,)), clock=clock)
    with sampling(Watched(device="cuda", pid=WORKER), clock) as sampler:
        watch(sampler, clock, 20)
        sampler.finish()
    recording = sampler.recording
    assert recording.missing == {}
    assert recording.lost is None
    assert recording.settings_before == recording.settings_after
    assert {reading.quantity for reading in recording.readings} < set(QUANTITIES)
    assert {(reading.meter, reading.scope) for reading in recording.readings} == {("nvml", "gpu-board")}

    def of(quantity: str) -> list[Reading]:
        return [reading for reading in recording.readings if reading.quantity == quantity]

    assert {reading.unit for reading in of("energy")} == {"J"}
    first, last = of("energy")[0], of("energy")[-1]
    assert first.value is not None
    assert last.value is not None
    assert last.value - first.value == pytest.approx(energy_j(load, last.t_s) - energy_j(load, first.t_s), abs=0.1 * 400)
    assert 195 <= len(of("power")) <= 205
    assert fake.opened == 0


def test_a_sweep_notes_a_lost_card_and_asks_it_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    only_nvml(monkeypatch)
    clock = Clock()
    fake = install(monkeypatch, card=rtx_4090(lost_at_s=3.0), clock=clock)
    with sampling(Watched(device="cuda", pid=WORKER), clock) as sampler:
        watch(sampler, clock, 2.5)
        asked = dict(fake.calls)
        clock.pass_s(1.0)
        sampler.sample()
        sampler.finish()
    assert "GPU is lost" in str(sampler.recording.lost)
    assert sampler.recording.missing == {"nvml": sampler.recording.lost}
    assert max(reading.t_s for reading in sampler.recording.readings) < 3.0
    assert fake.calls["nvmlDeviceGetFieldValues"] == asked["nvmlDeviceGetFieldValues"] + 1
    assert fake.opened == 0


def test_a_sweep_without_a_driver_notes_why(monkeypatch: pytest.MonkeyPatch) -> None:
    only_nvml(monkeypatch)
    install(monkeypatch, clock=Clock(), init_error=LIBRARY_NOT_FOUND)
    with sampling(Watched(device="cuda"), Clock()) as sampler:
        sampler.finish()
    assert sampler.recording.readings == []
    assert "Library Not Found" in sampler.recording.missing["nvml"]
