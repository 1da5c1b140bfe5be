"""What asv tracks of each cell, read from the stored runs of one night: nothing is measured here.

In: environment variables that name the results folder, the machine and the night (`bench.ledger.asked`). Out: per cell the
samples of one figure, a sample per run. A cell without that figure in that night is skipped; where every run failed, it fails.

asv forgets a benchmark's history when its name or its version changes, and takes both from the source: so both are pinned here.
Raise VERSION only where the figures of before can no longer be compared with those after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from asv_runner.benchmarks.mark import SkipNotImplemented

from bench.ledger import asked

VERSION = "1"
Samples = dict[str, list[float] | int]
Track = TypeVar("Track", bound=Callable[..., Samples])


def tracked(name: str, unit: str) -> Callable[[Track], Track]:
    """Pin what asv knows a figure by: its name, whatever this class and file are called, its version and its unit."""

    def pinned(function: Track) -> Track:
        function.__dict__.update(benchmark_name=f"track_{name}", version=VERSION, unit=unit, pretty_name=name.replace("_", " "))
        return function

    return pinned


class Cells:
    """One benchmark per figure; the cells of all nights are its parameter."""

    param_names = ("cell",)

    @property
    def params(self) -> tuple[tuple[str, ...]]:
        """Asked for anew at each discovery, since a night may bring new cells."""
        return (asked.cells(),)

    def setup(self, cell: str) -> None:
        """Raises NotImplementedError, which skips, for a cell that did not run; CellFailed for one that failed."""
        self.seen = asked.seen(cell)

    @tracked("ms_per_1000_tokens", "ms")
    def track_ms_per_1000_tokens(self, cell: str) -> Samples:
        return self._samples("ms_per_1000_tokens")

    @tracked("framework_peak_gib", "GiB")
    def track_framework_peak_gib(self, cell: str) -> Samples:
        return self._samples("framework_peak_gib")

    @tracked("device_peak_gib", "GiB")
    def track_device_peak_gib(self, cell: str) -> Samples:
        return self._samples("device_peak_gib")

    @tracked("host_peak_gib", "GiB")
    def track_host_peak_gib(self, cell: str) -> Samples:
        return self._samples("host_peak_gib")

    @tracked("j_per_1000_tokens", "J")
    def track_j_per_1000_tokens(self, cell: str) -> Samples:
        return self._samples("j_per_1000_tokens")

    @tracked("time_to_first_step_s", "s")
    def track_time_to_first_step_s(self, cell: str) -> Samples:
        return self._samples("time_to_first_step_s")

    def _samples(self, figure: str) -> Samples:
        samples = self.seen.samples[figure]
        if not samples:
            raise SkipNotImplemented(f"no run of this night has {figure}")
        return {"samples": list(samples), "number": 1}
