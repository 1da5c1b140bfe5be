"""The computer's own counters: real ones where Linux has them, replayed trees of /proc and /sys for what this machine lacks."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from bench.meters import host as module
from bench.meters.host import Host, NotGiven, RunTime, asleep_s, busy_s, cpu_settings, on_battery
from bench.meters.interface import Meter, Unavailable, Watched, load_meter
from bench.spec import DEVICES

ALL = {"cpu_busy", "cpu_of_run", "swap_used", "swap_traffic", "asleep", "on_battery", "disk_free"}


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /proc to be filled."""
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    return tmp_path


def test_it_is_a_meter_of_every_device() -> None:
    meter: Meter = load_meter("host")
    assert (meter.name, meter.scope, meter.devices) == ("host", "machine", DEVICES)
    assert (meter.interval_s, meter.min_window_s) == (1.0, 0.0)
    assert meter.availability().available


def test_a_real_reading(tmp_path: Path) -> None:
    gauge = Host().open(Watched(device="cpu", pid=os.getpid(), folder=str(tmp_path)))
    first = {value.quantity: value.value for value in gauge.read()}
    second = {value.quantity: value.value for value in gauge.read()}
    assert {*first, *gauge.missing()} == ALL
    assert {"cpu_busy", "cpu_of_run", "asleep", "disk_free"} <= set(first)
    assert "on_battery" not in second, "asked every tenth time only"
    assert second["cpu_busy"] >= first["cpu_busy"] > 0
    assert second["cpu_of_run"] >= first["cpu_of_run"] > 0
    assert first["asleep"] >= 0
    assert int(gauge.settings()["cpu_cores"]) >= 1
    gauge.close()


def test_stolen_time_is_busy_and_guests_are_not_counted_twice(proc: Path) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    #                     user nice sys idle iowait irq softirq steal guest guest_nice
    tree(proc, {"stat": "cpu 100 20 30 4000 500 6 7 800 90 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n"})
    assert busy_s() == pytest.approx((100 + 20 + 30 + 6 + 7 + 800) / ticks)


@pytest.mark.parametrize("stat", ["cpu 0 0 0 0 0 0 0 0 0 0\n", "", "cpu what is this\n"])
def test_a_sandbox_without_processor_times_gives_none(proc: Path, stat: str) -> None:
    tree(proc, {"stat": stat})
    with pytest.raises(NotGiven):
        busy_s()


def test_what_a_container_hides_is_left_out_with_its_reason(proc: Path, tmp_path: Path) -> None:
    tree(proc, {"meminfo": "SwapTotal: 100 kB\nSwapFree: 60 kB\n"})
    gauge = Host(sys_root=tmp_path / "none", system="linux").open(Watched(device="cpu", pid=1, folder=str(tmp_path / "none")))
    read = {value.quantity: value.value for value in gauge.read()}
    missing = gauge.missing()
    assert read["swap_used"] == 40 * 1024
    assert set(missing) == {"cpu_busy", "cpu_of_run", "swap_traffic", "on_battery", "disk_free"}
    assert all(missing.values())
    found = Host(sys_root=tmp_path, system="linux").availability()
    assert (found.available, found.reason) == (False, missing["cpu_busy"])
    assert found.remedy


def test_swap_traffic_is_both_ways_in_bytes(proc: Path) -> None:
    tree(proc, {"vmstat": "pgpgin 7\npswpin 3\npswpout 4\n"})
    assert module.linux_swap_traffic_bytes() == 7 * os.sysconf("SC_PAGE_SIZE")
    tree(proc, {"vmstat": "pgpgin 7\npswpin 3\n"})
    with pytest.raises(NotGiven):
        module.linux_swap_traffic_bytes()


def test_swap_traffic_of_a_mac_is_the_kernels_own_count() -> None:
    gauge = Host(system="darwin", swapped=lambda: (5, 6)).open(Watched(device="metal"))
    read = {value.quantity: value.value for value in gauge.read()}
    assert read["swap_traffic"] == 11 * os.sysconf("SC_PAGE_SIZE")


def test_the_words_of_the_macs_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        @staticmethod
        def host_statistics64(host, flavor, words, count):
            assert (host, flavor, count._obj.value) == (7, 4, 38)
            words._obj[14], words._obj[15] = 1000, 2000
            return Library.result

        result = 0

    monkeypatch.setattr(module, "_mach", lambda: (Library, 7))
    assert module.macos_swapped_pages() == (1000, 2000)
    Library.result = 4
    with pytest.raises(NotGiven):
        module.macos_swapped_pages()


def test_time_of_children_counts_and_stays_when_they_end() -> None:
    """One child is seen while it lives, another one comes and goes between two readings; both stay in the sum."""
    burn = "import time\nwhile time.process_time() < 0.3: pass\n"
    script = (
        "import subprocess, sys\n"
        f"held = subprocess.Popen([sys.executable, '-c', {burn + 'input()'!r}], stdin=subprocess.PIPE)\n"
        "print('started', flush=True); input()\n"
        "held.communicate(b'\\n')\n"
        f"subprocess.run([sys.executable, '-c', {burn!r}])\n"
        "print('both ended', flush=True); input()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdin
        assert worker.stdout
        worker.stdout.readline()
        moved = iter(range(0, 10**6, 1000))
        run = RunTime(worker.pid, clock=lambda: float(next(moved)))
        sums = [run.seconds()]
        run._look_at_s = float("-inf")
        deadline_s = time.monotonic() + 20
        while sums[-1] - sums[0] < 0.25 and time.monotonic() < deadline_s:
            time.sleep(0.05)
            sums.append(run.seconds())
        assert sums[-1] - sums[0] >= 0.25
        worker.stdin.write("\n")
        worker.stdin.flush()
        worker.stdout.readline()
        sums.append(run.seconds())
        assert sums[-1] - sums[0] >= 0.55
        worker.stdin.write("\n")
        worker.stdin.flush()
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)  # ended, not yet waited for: its account is still there
        sums.append(run.seconds())
        assert sums == sorted(sums)
    with pytest.raises(NotGiven, match="gone"):
        run.seconds()


def test_a_child_whose_account_is_lost_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS, where no parent's account has its children's time."""

    class Process:
        def __init__(self, *times: float) -> None:
            self.times = list(times)

        def children(self, recursive: bool) -> list["Process"]:
            return [child]

        def cpu_times(self):
            if not self.times:
                raise psutil.NoSuchProcess(7)
            return SimpleNamespace(user=self.times.pop(0), system=0.0, children_user=0.0, children_system=0.0)

    child = Process(5.0)
    root = Process(1.0, 1.0, 2.0, 2.0)  # asked twice a reading
    monkeypatch.setattr(psutil, "Process", lambda pid: root)
    monkeypatch.setattr(time, "process_time", lambda: 0.0)
    run = RunTime(7)
    assert run.seconds() == 6.0
    assert run.seconds() == 7.0
    with pytest.raises(NotGiven):
        run.seconds()


def test_the_search_for_descendants_costs_little_however_many_processes_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    now, looks = [0.0], []

    class Process(psutil.Process):
        def children(self, recursive: bool = False) -> list[psutil.Process]:
            looks.append(now[0])
            now[0] += 0.010
            return []

    monkeypatch.setattr(psutil, "Process", Process)
    run = RunTime(os.getpid(), clock=lambda: now[0])
    for second in range(100):
        now[0] = float(second)
        run.seconds()
    assert len(looks) * 0.010 <= 0.002 * 100 + 0.010
    assert len(looks) > 10


def test_at_rest_the_run_is_this_process_alone() -> None:
    before_s = RunTime(None).seconds()
    assert before_s <= time.process_time()
    assert before_s > 0


def test_sleep_is_what_one_clock_has_over_another(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = {1: 1000.0, 2: 900.0, 3: 77.0, 4: 70.0}
    monkeypatch.setattr(time, "clock_gettime", clocks.__getitem__)
    for number, name in enumerate(("CLOCK_BOOTTIME", "CLOCK_MONOTONIC", "CLOCK_MONOTONIC_RAW", "CLOCK_UPTIME_RAW"), start=1):
        monkeypatch.setattr(time, name, number, raising=False)
    assert asleep_s("linux") == 100.0
    assert asleep_s("darwin") == 7.0
    monkeypatch.delattr(time, "CLOCK_UPTIME_RAW")
    with pytest.raises(NotGiven, match="CLOCK_UPTIME_RAW"):
        asleep_s("darwin")


BATTERY = "class/power_supply/BAT0/"
MAINS = "class/power_supply/ADP1/"
MOUSE = {f"class/power_supply/hidpp_battery_0/{name}": text for name, text in
         {"type": "Battery", "scope": "Device", "status": "Discharging"}.items()}  # fmt: skip


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"class/net": ""}, 0.0),
        ({BATTERY + "type": "Battery\n", BATTERY + "status": "Discharging\n"}, 1.0),
        ({BATTERY + "type": "Battery", BATTERY + "status": "Charging"}, 0.0),
        ({BATTERY + "type": "Battery", BATTERY + "status": "Not charging"}, 0.0),
        ({BATTERY + "type": "Battery", BATTERY + "status": "Discharging", MAINS + "type": "Mains", MAINS + "online": "1"}, 0.0),
        ({BATTERY + "type": "Battery", BATTERY + "status": "Discharging", MAINS + "type": "Mains", MAINS + "online": "0"}, 1.0),
        (MOUSE, 0.0),
        ({**MOUSE, BATTERY + "type": "Battery", BATTERY + "status": "Discharging"}, 1.0),
    ],
)
def test_on_battery(tmp_path: Path, files: dict[str, str], expected: float) -> None:
    assert on_battery(tree(tmp_path, files)) == expected


def test_a_battery_that_does_not_tell_is_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotGiven):
        on_battery(tree(tmp_path, {BATTERY + "type": "Battery", BATTERY + "status": "Unknown"}))
    battery = SimpleNamespace(power_plugged=None)
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery)
    with pytest.raises(NotGiven):
        module.battery_by_psutil()


@pytest.mark.parametrize(("plugged", "expected"), [(True, 0.0), (False, 1.0), ("no battery", 0.0)])
def test_on_battery_elsewhere(monkeypatch: pytest.MonkeyPatch, plugged: bool | str, expected: float) -> None:
    battery = None if plugged == "no battery" else SimpleNamespace(power_plugged=plugged)
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery)
    gauge = Host(system="darwin", swapped=lambda: (0, 0)).open(Watched(device="metal"))
    assert {value.quantity: value.value for value in gauge.read()}["on_battery"] == expected


CPU = "devices/system/cpu/"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, {}),
        (
            {
                CPU + f"cpufreq/policy{n}/scaling_governor": text
                for n, text in enumerate(("powersave", "performance\n", "performance"))
            },
            {"cpu_governor": "performance,powersave"},
        ),
        ({CPU + "cpufreq/policy0/energy_performance_preference": "power\n"}, {"cpu_energy_preference": "power"}),
        ({"firmware/acpi/platform_profile": "balanced\n"}, {"platform_profile": "balanced"}),
        ({CPU + "intel_pstate/no_turbo": "0\n"}, {"cpu_boost": "on"}),
        ({CPU + "intel_pstate/no_turbo": "1\n"}, {"cpu_boost": "off"}),
        ({CPU + "cpufreq/boost": "1\n"}, {"cpu_boost": "on"}),
        ({CPU + "cpufreq/boost": "0\n"}, {"cpu_boost": "off"}),
    ],
)
def test_settings(tmp_path: Path, files: dict[str, str], expected: dict[str, str]) -> None:
    assert cpu_settings(tree(tmp_path, files)) == expected
    settings = Host(sys_root=tmp_path).open(Watched(device="cpu")).settings()
    assert settings == {"cpu_cores": str(os.cpu_count()), **expected}


def test_a_reason_goes_when_the_quantity_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    gauge = Host().open(Watched(device="cpu", folder=str(folder)))
    assert "disk_free" not in {value.quantity for value in gauge.read()}
    assert "disk_free" in gauge.missing()
    folder.mkdir()
    assert "disk_free" in {value.quantity for value in gauge.read()}
    assert "disk_free" not in gauge.missing()


def test_without_psutil_it_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    with pytest.raises(Unavailable, match="psutil"):
        Host().open(Watched(device="cpu"))
    found = Host().availability()
    assert not found.available
    assert found.remedy
