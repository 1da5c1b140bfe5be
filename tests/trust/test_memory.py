import pytest

from bench.meters.interface import UNITS
from bench.record import Reading
from bench.trust.flags import FLAGS
from bench.trust.memory import ALLOWANCE_BYTES, memory

GB = 10**9
WSL = "the driver gives no memory per process here (WSL2, Windows, some containers)"


def readings(quantity: str, *values: float | None, start_s: float = -5.0) -> list[Reading]:
    """One reading a second, the first before training."""
    scope = "process" if quantity == "memory_of_process" else "gpu-board"
    return [
        Reading(t_s=start_s + n, meter="nvml", scope=scope, quantity=quantity, unit=UNITS[quantity], value=value)
        for n, value in enumerate(values)
    ]


def assess(taken=(), device="cuda", framework=None, host=None, base=None, missing=None):
    return memory(taken, device, framework, host, base, missing or {})


def test_the_drivers_figure_for_the_process_comes_first():
    taken = readings("memory_used", 2 * GB, 9 * GB, 3 * GB) + readings("memory_of_process", 0.4 * GB, 6.5 * GB, 5 * GB)
    assert assess(taken).columns == {"device_peak_bytes": 6_500_000_000, "device_peak_scope": "process"}


def test_without_it_the_devices_use_less_its_use_before():
    taken = readings("memory_used", 2 * GB, 9 * GB, 3 * GB)
    seen = assess(taken, missing={"nvml memory_of_process": WSL})
    assert seen.columns == {"device_peak_bytes": 7 * GB, "device_peak_scope": "device-less-before"}
    assert not seen.not_measured


def test_before_is_the_earliest_in_time_whatever_the_order():
    taken = readings("memory_used", 2 * GB, 9 * GB)
    assert assess(taken[::-1]).columns["device_peak_bytes"] == 7 * GB


def test_readings_without_a_value_and_processes_of_no_bytes_say_nothing():
    taken = readings("memory_used", None, 2 * GB, 9 * GB) + readings("memory_of_process", 0.0, 0.0, None)
    assert assess(taken).columns == {"device_peak_bytes": 7 * GB, "device_peak_scope": "device-less-before"}
    assert assess(readings("memory_used", None, None)).columns == {}


def test_a_device_that_nothing_was_added_to_is_a_measurement_of_zero():
    assert assess(readings("memory_used", 2 * GB, 2 * GB)).columns["device_peak_bytes"] == 0


@pytest.mark.parametrize(
    ("device", "missing", "reason"),
    [
        ("cuda", {"nvml": "no driver", "host": "other"}, "no driver"),
        ("cuda", {"nvml memory_of_process": WSL, "nvml memory_used": "N/A"}, WSL),
        ("cuda", {"nvml memory_used": "N/A"}, "N/A"),
        ("cuda", {}, "no meter of the device gave readings of its memory"),
        ("metal", {"process-memory": "proc_pid_rusage failed"}, "proc_pid_rusage failed"),
        ("mps", {}, "the system gave no peak of the process, which is the device's peak where the two share one memory"),
        ("cpu", {}, "the CPU computes in main memory: see host_peak_bytes"),
    ],
)
def test_no_figure_has_a_reason(device, missing, reason):
    seen = assess(device=device, missing=missing)
    assert seen.columns == {}
    assert seen.not_measured == {"device_peak_bytes": reason}


@pytest.mark.parametrize("device", ["metal", "mps"])
def test_unified_memory_is_seen_as_the_processs_footprint(device):
    seen = assess(device=device, host=30 * GB, base=GB)
    assert seen.columns == {"device_peak_bytes": 30 * GB, "device_peak_scope": "process"}


@pytest.mark.parametrize(
    ("device", "framework", "outside", "flagged"),
    [
        ("cuda", 2.9 * GB, 6 * GB, True),  # under half, and three gigabytes short
        ("cuda", 3 * GB, 6 * GB, False),  # exactly half
        ("cuda", 5.5 * GB, 6 * GB, False),  # context and workspace
        ("cuda", 0.02 * GB, 0.6 * GB, False),  # a tiny model: everything is overhead
        ("cuda", 0.02 * GB, 0.02 * GB + ALLOWANCE_BYTES, False),
        ("cuda", 0.02 * GB, 0.02 * GB + ALLOWANCE_BYTES + 1, True),
        ("cuda", 0, 6 * GB, True),  # a counter that was never switched on
        ("cuda", None, 6 * GB, False),  # no counter at all
        ("metal", 2.9 * GB, 6 * GB, True),
        ("metal", 3.1 * GB, 6 * GB, False),
        ("cpu", 2.9 * GB, 6 * GB, True),
        ("cpu", 3.1 * GB, 6 * GB, False),
        ("cpu", None, 6 * GB, False),
    ],
)
def test_untracked_memory(device, framework, outside, flagged):
    """On the CPU and on unified memory the process had 2 GB before anything was built, which is nobody's fault."""
    taken = readings("memory_of_process", 0.3 * GB, outside) if device == "cuda" else ()
    host = 40 * GB if device == "cuda" else 2 * GB + outside
    seen = assess(taken, device, framework, host, 2 * GB)
    assert seen.flags == (("untracked-memory",) if flagged else ())
    assert set(seen.flags) <= set(FLAGS)


@pytest.mark.parametrize("device", ["cpu", "metal"])
def test_without_the_base_nothing_is_flagged(device):
    assert assess(device=device, framework=GB, host=40 * GB).flags == ()
