"""The collector rests, and is as it was afterwards, whatever happened meanwhile."""

import gc

import pytest

from bench.collector import collector_paused


@pytest.fixture(autouse=True)
def _as_it_was():
    yield
    gc.enable()


@collector_paused()
def rested():
    return not gc.isenabled()


@collector_paused()
def broken():
    raise KeyError


@pytest.mark.parametrize("was_on", [True, False])
def test_it_rests_and_is_then_as_it_was(was_on):
    (gc.enable if was_on else gc.disable)()
    assert rested()
    assert gc.isenabled() == was_on
    with pytest.raises(KeyError):
        broken()
    assert gc.isenabled() == was_on
