"""The edge of memory: for each flag a replay that raises it, and those that must not."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.meters.interface import UNITS
from bench.record import Gpu, Machine, Reading, Step
from bench.trust.edge import ONE_STEP, edge, growing

GB, BOARD = 10**9, 25_757_220_864
WSL = "Ubuntu 24.04, kernel 5.15.167.4-microsoft-standard-WSL2"


def steps(durations_s: list[float], peaks: list[int | None] | None = None, host: list[int | None] | None = None) -> list[Step]:
    """Steps one after another, the first of them warm-up."""
    ends = np.cumsum(durations_s)
    return [
        Step(
            step=number + 1, phase="measured" if number else "warmup", start_s=float(ends[number]) - duration_s,
            duration_s=duration_s, tokens=1, loss_tokens=1, loss=1.0,
            framework_peak_bytes=peaks[number] if peaks else GB, host_peak_bytes=host[number] if host else None,
        )
        for number, duration_s in enumerate(durations_s)
    ]  # fmt: skip


def requests(parts_s: list[tuple[float, float]]) -> list[Step]:
    """Batches of requests: a prefill and a decode each."""
    made: list[Step] = []
    for number, parts in enumerate(parts_s):
        for phase, duration_s in zip(("prefill", "decode"), parts, strict=True):
            start_s = made[-1].start_s + made[-1].duration_s if made else 0.0
            (step,) = steps([duration_s])
            made.append(replace(step, step=number + 1, phase=phase, start_s=start_s))  # type: ignore[arg-type]
    return made


def readings(quantity: Any, play: Callable[[float], float]) -> list[Reading]:
    return [
        Reading(t_s=float(t_s), meter="m", scope="machine", quantity=quantity, unit=UNITS[quantity], value=float(play(t_s)))
        for t_s in np.arange(-5.0, 200.0)
    ]


@pytest.fixture
def flags(machine: Machine) -> Callable[..., set[str]]:
    def judged(
        seen: list[Step], taken: Sequence[Reading] = (), os_version: str = WSL, device: Any = "cuda", **columns: Any
    ) -> set[str]:
        board = replace(machine, os_version=os_version, gpus=(Gpu("card", BOARD),))
        return set(edge(seen, taken, device, board, columns).flags)

    return judged


@pytest.mark.parametrize(
    ("peaks", "grows"),
    [
        ([GB, 2 * GB], True),  # the optimizer's state comes with the first step: two steps show nothing yet
        ([GB, 2 * GB, 2 * GB], False),
        ([GB, 2 * GB, 2 * GB + 40_000_000], True),
        ([GB, 2 * GB, 2 * GB + 27_000_000], False),  # 1% and 8 MiB are nothing
        ([GB, GB, GB, GB, GB, GB, 3 * GB], True),
        ([GB, 3 * GB, 3 * GB, 3 * GB, 3 * GB, 3 * GB, 3 * GB], False),
    ],
)
def test_memory_that_still_grows_in_the_last_half_is_no_fit(peaks: list[int | None], grows: bool) -> None:
    assert growing(steps([1.0] * len(peaks), peaks)).flags == (("growing",) if grows else ())
    nothing: list[int | None] = [None] * len(peaks)
    assert growing(steps([1.0] * len(peaks), nothing, peaks)).flags == (("growing",) if grows else ())
    assert growing(steps([1.0] * len(peaks), nothing)).flags == ()


def test_a_single_step_cannot_show_whether_memory_grows() -> None:
    assert growing(steps([1.0], [GB])).not_measured == {"growing": ONE_STEP}
    assert growing([]).not_measured == {}
    assert growing(requests([(1.0, 1.0)])).not_measured == {"growing": ONE_STEP}


SLOW_LATER = [3.0, 1.0, 1.0, 1.0, 12.0, 12.0]
"""The first step compiles; the last two lie between 6 s and 30 s."""


@pytest.mark.parametrize("quantity", ["swap_traffic", "swap_used"])
@pytest.mark.parametrize("device", ["cpu", "metal", "mps", "cuda"])
def test_a_rate_down_tenfold_while_swap_grows(flags: Callable[..., set[str]], quantity: str, device: str) -> None:
    grows = readings(quantity, lambda t_s: 3e9 + 1e8 * max(0.0, t_s - 6))
    assert flags(steps(SLOW_LATER), grows, device=device) == {"swapping"}
    assert flags(steps([3.0, 1.0, 1.0, 1.0, 8.0, 8.0]), grows, device=device) == set()  # not tenfold
    assert flags(steps(SLOW_LATER), readings(quantity, lambda _: 3e9), device=device) == set()  # slow for another reason
    assert flags(steps(SLOW_LATER), device=device) == set()


def test_a_run_that_lives_on_swap_from_the_start_has_no_fast_step(flags: Callable[..., set[str]]) -> None:
    thrash = readings("swap_traffic", lambda t_s: 2e8 * max(0.0, t_s))
    assert flags(steps([9.0] * 5), thrash) == {"swapping"}
    assert flags(requests([(4.0, 5.0)] * 5), thrash) == {"swapping"}
    once = readings("swap_traffic", lambda t_s: 2e9 * float(t_s > 12))
    assert flags(steps([9.0] * 5), once) == set()
    assert flags(steps([9.0] * 3), thrash) == set()  # two measured steps are no pattern


def test_the_first_step_may_be_slow_and_page(flags: Callable[..., set[str]]) -> None:
    assert flags(steps([30.0, 1.0, 1.0, 1.0]), readings("swap_traffic", lambda t_s: 1e8 * min(max(0.0, t_s), 30.0))) == set()


def test_torch_holds_more_than_the_card_has(flags: Callable[..., set[str]]) -> None:
    seen = steps([1.0] * 5)
    assert flags(seen, reserved_peak_bytes=BOARD + 1) == {"spilled"}
    assert flags(seen, framework_peak_bytes=BOARD + 1) == {"spilled"}
    assert flags(seen, reserved_peak_bytes=BOARD, framework_peak_bytes=None) == set()
    assert flags(seen, reserved_peak_bytes=BOARD + 1, os_version="Ubuntu 24.04, kernel 6.8.0-45-generic") == set()
    assert flags(seen, reserved_peak_bytes=BOARD + 1, device="cpu") == set()


def test_a_full_card_whose_steps_collapse(flags: Callable[..., set[str]]) -> None:
    full = readings("memory_used", lambda t_s: 0.98 * BOARD if t_s > 3 else GB)
    assert flags(steps(SLOW_LATER), full) == {"spilled"}
    assert flags(steps([1.0] * 6), full) == set()  # a card may be full
    assert flags(steps(SLOW_LATER), readings("memory_used", lambda _: 0.9 * BOARD)) == set()
    assert flags(steps(SLOW_LATER), full, os_version="Ubuntu 24.04") == set()


def test_a_card_of_unknown_size_is_not_judged(machine: Machine) -> None:
    columns = {"reserved_peak_bytes": 10**15}
    for gpus in ((), (Gpu("card", None),)):
        unknown = replace(machine, os_version=WSL, gpus=gpus)
        assert edge(steps([1.0] * 3), [], "cuda", unknown, columns).flags == ()
