"""A signal becomes a flag and something to wait for; the old handlers come back."""

import os
import select
import signal

from bench.sweep.interrupt import catch_interrupts


def test_a_signal_is_noted_and_wakes_a_wait() -> None:
    before = signal.getsignal(signal.SIGINT)
    with catch_interrupts() as interrupt:
        assert not interrupt.requested
        assert select.select([interrupt.descriptor], [], [], 0)[0] == []
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.requested
        assert not interrupt.insisted
        assert select.select([interrupt.descriptor], [], [], 0)[0] == [interrupt.descriptor]
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupt.insisted
    assert signal.getsignal(signal.SIGINT) is before


def test_the_handlers_come_back_after_an_error() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        with catch_interrupts():
            raise KeyError
    except KeyError:
        pass
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
