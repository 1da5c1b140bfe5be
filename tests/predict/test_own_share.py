"""This card's own share in the place of the constants: the sums hold, and the note that they are uncalibrated goes."""

from __future__ import annotations

from bench.own_rates import Share
from bench.predict.own_share import KERNELS_BYTES, with_share
from bench.predict.prediction import Memory
from bench.predict.trace import UNCALIBRATED
from bench.predict.trace_cuda import CONTEXT_BYTES, CUBLAS_HANDLES, CUBLAS_WORKSPACE_BYTES

WORKSPACES = CUBLAS_HANDLES * CUBLAS_WORKSPACE_BYTES
GB = 10**9
GUESSED = Memory(
    parts={"weights": 2 * GB, "overhead": WORKSPACES},
    peak_bytes=2 * GB + WORKSPACES,
    peak_low_bytes=2 * GB,
    peak_high_bytes=3 * GB,
    held_bytes=3 * GB + CONTEXT_BYTES,
    held_low_bytes=2 * GB + 300_000_000,
    held_high_bytes=4 * GB + 700_000_000,
    reserved_bytes=3 * GB,
    how="trace",
    notes=(UNCALIBRATED, "another"),
)


def test_the_constants_give_way_to_what_was_measured() -> None:
    found = with_share(GUESSED, Share(context_bytes=410_000_000, workspace_bytes=WORKSPACES + 7, versions={"torch": "2.13.0"}))
    assert found.parts == {"weights": 2 * GB, "overhead": WORKSPACES + 7}
    assert sum(found.parts.values()) == found.peak_bytes
    assert (found.reserved_bytes, found.held_bytes) == (3 * GB + 7, 3 * GB + 7 + 410_000_000)
    assert found.held_low_bytes == 2 * GB + 7 + 410_000_000
    assert found.held_high_bytes == 4 * GB + 7 + 410_000_000 + KERNELS_BYTES
    assert found.notes[1:] == ("another",)
    assert "410 MB" in found.notes[0]
    assert "torch 2.13.0" in found.notes[0]


def test_a_share_like_the_constants_moves_nothing_but_the_interval() -> None:
    found = with_share(GUESSED, Share(context_bytes=CONTEXT_BYTES, workspace_bytes=WORKSPACES, versions={}))
    assert (found.parts, found.peak_bytes, found.held_bytes) == (GUESSED.parts, GUESSED.peak_bytes, GUESSED.held_bytes)
    assert found.held_low_bytes > GUESSED.held_low_bytes
