"""Own, foreign and hidden processes on a card; unknown is not clean."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_nvml import (
    MIB,
    NOT_SUPPORTED,
    UNKNOWN,
    Card,
    Clock,
    FakeNvml,
    Process,
    container,
    install,
    old_driver,
    rtx_4090,
    wsl2,
)

from bench.meters.interface import DeviceLost, Quantity, Value
from bench.meters.nvml_card import Card as Asked
from bench.meters.nvml_card import NotGiven
from bench.meters.nvml_processes import FIRST_PID_NAMESPACE, ProcessWatch, parent_of, why_incomplete

WORKER, CHILD, GRANDCHILD, STRANGER, XORG = 500, 501, 502, 900, 1200
FAMILY = {WORKER: 40, CHILD: WORKER, GRANDCHILD: CHILD, 40: 1}
GIB = 2**30


class Replay:
    """A watch over a fake card, and the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, card: Card, pid: int | None = WORKER, where: str = "native") -> None:
        self.clock = Clock()
        self.fake: FakeNvml = install(monkeypatch, card=card, clock=self.clock, where=where, parents=FAMILY)
        self.watch = ProcessWatch(Asked(self.fake, 0), pid)

    def read(self) -> dict[Quantity, float]:
        """The next second's values."""
        values: list[Value] = self.watch.read()
        self.clock.pass_s(1.0)
        return {value.quantity: value.value for value in values}

    def change(self, **changes: Any) -> None:
        self.fake.cards = [replace(self.fake.cards[0], **changes)]


def on_card(*processes: Process, **changes: Any) -> dict[str, Any]:
    """Fields of a card on which these processes are all that takes memory, and 10 MiB beside."""
    used = sum(process.memory_bytes or 0 for process in processes) + 10 * MIB
    return {"processes": processes, "used_bytes": ((0.0, float(used)),), **changes}


WORKS = Process(WORKER, 6 * GIB, 97)


def test_the_worker_and_its_descendants_are_added_up_and_are_not_foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Replay(monkeypatch, rtx_4090(**on_card(WORKS, Process(GRANDCHILD, GIB, 2))))
    assert replay.read() == {"memory_of_process": 7 * GIB, "foreign_processes": 0}
    assert replay.read() == {"memory_of_process": 7 * GIB, "foreign_processes": 0, "foreign_utilization": 0}
    assert replay.watch.missing == {}


def test_a_stranger_is_counted_with_what_it_takes_of_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Replay(monkeypatch, rtx_4090(**on_card(WORKS, Process(STRANGER, GIB, 30, since_s=1.0, until_s=3.0))))
    seen = [replay.read() for _ in range(4)]
    assert [values["foreign_processes"] for values in seen] == [0, 1, 1, 0]
    assert [values.get("foreign_utilization") for values in seen] == [None, 0.3, 0.3, 0]
    assert {values["memory_of_process"] for values in seen} == {6 * GIB}


def test_at_rest_every_process_is_foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Replay(monkeypatch, rtx_4090(**on_card(WORKS)), pid=None)
    assert replay.read() == {"foreign_processes": 1}
    assert replay.watch.missing == {"memory_of_process": "no worker is watched"}
    idle = Replay(monkeypatch, rtx_4090(), pid=None)
    assert idle.read() == {"foreign_processes": 0}


def test_a_list_without_the_worker_is_not_taken_for_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it computes nothing can be said; one that computes unlisted shows that the list is not whole."""
    replay = Replay(monkeypatch, rtx_4090())
    assert replay.read() == {}
    assert "does not list the worker" in replay.watch.missing["foreign_processes"]
    replay.change(**on_card(WORKS))
    assert replay.read()["foreign_processes"] == 0
    assert replay.watch.missing == {}
    replay.change(**on_card())
    assert replay.read() == {}, "the worker has ended"
    assert replay.watch.missing == {}


def test_a_process_that_ends_between_list_and_look_is_gone_not_foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Replay(monkeypatch, rtx_4090(**on_card(WORKS)))
    replay.change(**on_card(WORKS, Process(7777, GIB)))  # nothing here has that pid
    assert replay.read()["foreign_processes"] == 0


def test_an_orphan_of_the_worker_stays_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Replay(monkeypatch, rtx_4090(**on_card(WORKS, Process(CHILD, GIB))))
    assert replay.read()["foreign_processes"] == 0
    monkeypatch.setattr("bench.meters.nvml_processes.parent_of", {WORKER: 40, CHILD: 1}.get)
    assert replay.read()["foreign_processes"] == 0


@pytest.mark.parametrize(("percent", "count"), [(0, 0), (1, 0), (2, 1), (40, 1)])
def test_a_process_that_draws_counts_only_when_it_uses_the_card(
    monkeypatch: pytest.MonkeyPatch, percent: int, count: int
) -> None:
    replay = Replay(monkeypatch, rtx_4090(**on_card(WORKS, Process(XORG, 300 * MIB, percent, graphics=True))))
    assert replay.read()["foreign_processes"] == 0, "the first answer tells of the time before"
    values = replay.read()
    assert values["foreign_processes"] == count
    assert values["foreign_utilization"] == percent / 100


def test_a_worker_that_draws_too_is_not_foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Replay(monkeypatch, rtx_4090(**on_card(WORKS, Process(WORKER, MIB, 97, graphics=True))))
    replay.read()
    assert replay.read()["foreign_processes"] == 0


def test_a_desktop_of_unknown_use_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = {"errors": {"nvmlDeviceGetProcessUtilization": NOT_SUPPORTED}}
    with_desktop = Replay(monkeypatch, rtx_4090(**on_card(WORKS, Process(XORG, MIB, 9, graphics=True), **blind)))
    assert with_desktop.read() == {"memory_of_process": 6 * GIB}
    assert "draw on the card" in with_desktop.watch.missing["foreign_processes"]
    without = Replay(monkeypatch, rtx_4090(**on_card(WORKS, **blind)))
    assert without.read() == {"memory_of_process": 6 * GIB, "foreign_processes": 0}
    assert without.watch.missing.keys() == {"foreign_utilization"}


def test_rubbish_samples_are_not_use(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Replay(monkeypatch, rtx_4090(**on_card(WORKS, Process(STRANGER, GIB, 20)), sampled_percent_rubbish=True))
    replay.read()
    assert [replay.read()["foreign_utilization"] for _ in range(2)] == [0.2, 0.2]


def test_wsl_gives_no_memory_and_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Replay(monkeypatch, wsl2(processes=(Process(WORKER),)), where="wsl2")
    assert replay.read() == {}
    assert "WSL2" in replay.watch.missing["memory_of_process"]
    assert "what Windows runs" in replay.watch.missing["foreign_processes"]
    at_rest = Replay(monkeypatch, wsl2(), pid=None, where="wsl2")
    assert at_rest.read() == {}


def test_in_a_container_the_memory_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    clean = Replay(monkeypatch, container(**on_card(WORKS)), where="container")
    assert clean.read()["foreign_processes"] == 0
    hidden = Replay(monkeypatch, container(processes=(WORKS,), used_bytes=((0.0, 7.0 * GIB),)), where="container")
    assert hidden.read() == {"memory_of_process": 6 * GIB}
    assert "do not account" in hidden.watch.missing["foreign_processes"]
    native = Replay(monkeypatch, container(processes=(WORKS,), used_bytes=((0.0, 7.0 * GIB),)))
    assert native.read()["foreign_processes"] == 0, "there the list is whole, whatever the memory"


def test_a_container_whose_driver_lists_pids_of_the_host_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Replay(monkeypatch, container(**on_card(Process(31_337, 6 * GIB, 97))), where="container")
    assert replay.read() == {}
    assert "does not list the worker" in replay.watch.missing["foreign_processes"]


def test_a_container_without_memory_per_process_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some drivers compare a container's pid with the host's and find nothing (open-gpu-kernel-modules, pull request 614)."""
    card = container(processes=(Process(WORKER, 0, 97),), used_bytes=((0.0, 6.0 * GIB),))
    replay = Replay(monkeypatch, card, where="container")
    assert replay.read() == {}
    assert replay.watch.missing.keys() == {"memory_of_process", "foreign_processes", "foreign_utilization"}


def test_at_rest_in_a_container_an_empty_card_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Replay(monkeypatch, container(), pid=None, where="container").read() == {"foreign_processes": 0}
    busy = Replay(monkeypatch, container(used_bytes=((0.0, 2.0 * GIB),)), pid=None, where="container")
    assert busy.read() == {}
    assert "foreign_processes" in busy.watch.missing


def test_one_doubtful_reading_passes_and_two_running_spoil_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Replay(monkeypatch, container(**on_card(WORKS)), where="container")
    clean, more = on_card(WORKS)["used_bytes"], ((0.0, 7.0 * GIB),)
    counted, reasons = [], []
    for used in (clean, more, clean, more, more, clean):
        replay.change(used_bytes=used)
        counted.append("foreign_processes" in replay.read())
        reasons.append("foreign_processes" in replay.watch.missing)
    assert counted == [True, False, True, False, False, False]
    assert reasons == [False, True, False, True, True, True]


def test_no_list_is_a_reason_for_all_three(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Replay(monkeypatch, rtx_4090(errors={"nvmlDeviceGetComputeRunningProcesses": NOT_SUPPORTED}))
    with pytest.raises(NotGiven):
        replay.read()
    assert replay.watch.missing.keys() == {"memory_of_process", "foreign_processes", "foreign_utilization"}


def test_an_older_driver_lists_in_the_older_way(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Replay(monkeypatch, old_driver(**on_card(WORKS, Process(STRANGER, GIB))))
    assert replay.read() == {"memory_of_process": 6 * GIB, "foreign_processes": 1}


def test_memory_of_unknown_amount_accounts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    card = container(**on_card(WORKS, errors={"nvmlDeviceGetMemoryInfo": UNKNOWN}))
    assert Replay(monkeypatch, card, where="container").read() == {"memory_of_process": 6 * GIB}


def test_a_lost_card_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceLost):
        Replay(monkeypatch, rtx_4090(lost_at_s=0.0)).read()


def test_only_the_first_pid_namespace_of_a_native_system_is_whole(tmp_path: Path) -> None:
    (tmp_path / "self/ns").mkdir(parents=True)
    link, no_wsl = tmp_path / "self/ns/pid", tmp_path / "no-dxg"
    assert "does not tell" in str(why_incomplete(tmp_path, no_wsl))
    link.symlink_to(FIRST_PID_NAMESPACE)
    assert why_incomplete(tmp_path, no_wsl) is None
    assert "WSL2" in str(why_incomplete(tmp_path, tmp_path / "self"))
    link.unlink()
    link.symlink_to("pid:[4026532281]")
    assert "container" in str(why_incomplete(tmp_path, no_wsl))


def test_parents_are_the_systems() -> None:
    assert parent_of(os.getpid()) == os.getppid()
    assert parent_of(2**22 + 1) is None
