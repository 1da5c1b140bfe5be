"""The watch on the computer's memory: it ends a run that stays above its share, and looks more often when it is near."""

from collections.abc import Iterator

import pytest

from bench.sweep.watchdog import FAR_S, NEAR_S, Watchdog, means, memory_in_use

GIB = 2**30


class Played:
    """A computer of 100 GiB and a clock."""

    def __init__(self, *used: float) -> None:
        self.now_s = 0.0
        self.looks = 0
        self._used: Iterator[float] = iter([*used, *[used[-1]] * 1000])

    def look(self) -> tuple[int, int]:
        self.looks += 1
        return int(next(self._used) * GIB), 100 * GIB

    def clock(self) -> float:
        return self.now_s


def watched(played: Played, share: float | None = 0.95, seconds: float = 10.0) -> tuple[Watchdog, str | None]:
    """Let it watch, waking when it says so."""
    watchdog = Watchdog(share, played.look, played.clock)
    while played.now_s <= seconds:
        reason = watchdog.bark()
        if reason:
            return watchdog, reason
        played.now_s += watchdog.due_in_s()
    return watchdog, None


def test_a_computer_that_stays_above_the_share_is_told_with_figures() -> None:
    played = Played(50, 96)
    watchdog, reason = watched(played)
    assert reason is not None
    assert reason.startswith("103,079,215,104 of 107,374,182,400 bytes of the computer's memory were in use, over 95%")
    assert "--memory-watchdog" in reason
    assert played.now_s == pytest.approx(FAR_S + 2 * NEAR_S)
    assert watchdog.last_share == pytest.approx(0.96)


@pytest.mark.parametrize("used", [(95,), (50,), (96, 96, 50, 96, 96, 50), (94.9,)], ids=str)
def test_below_it_at_it_and_above_it_for_a_moment_the_run_goes_on(used: tuple[float, ...]) -> None:
    assert watched(Played(*used))[1] is None


def test_far_from_it_looks_are_rare() -> None:
    far, near = Played(50), Played(90)
    watched(far, seconds=9.9)
    watched(near, seconds=9.9)
    assert far.looks == 10
    assert near.looks > 90


def test_between_two_looks_nothing_is_read() -> None:
    played = Played(50)
    watchdog = Watchdog(0.95, played.look, played.clock)
    assert [watchdog.bark() for _ in range(5)] == [None] * 5
    assert played.looks == 1


def test_off_it_looks_and_never_ends_a_run() -> None:
    watchdog, reason = watched(Played(99.9), share=None)
    assert reason is None
    assert watchdog.last_share == pytest.approx(0.999)


def test_this_computers_memory_can_be_read() -> None:
    used_bytes, total_bytes = memory_in_use()
    assert 0 < used_bytes < total_bytes


def test_each_share_has_a_name_of_its_own() -> None:
    assert [means(share) for share in (0.95, 0.57, 0.125, None)] == [
        "watchdog 95%",
        "watchdog 57%",
        "watchdog 12.5%",
        "watchdog off",
    ]
