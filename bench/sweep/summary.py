"""What a sweep came to: its runs, what it left undone and why, and the exit code that says so.

In: runs as they end, and what stood in the way. Out: a line for people, a document for programs, an exit code.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.record import FAILED_OUTCOMES, MAX_FAILURES, Run
from bench.trust.flags import doubtful

EXIT_DONE, EXIT_FAILED, EXIT_TAINTED, EXIT_INTERRUPTED = 0, 3, 4, 130
_KEYS = (
    *("run_id", "cell", "outcome", "reason", "tokens_per_s", "framework_peak_bytes", "device_peak_bytes", "host_peak_bytes"),
    *("prefill_tokens_per_s", "time_to_first_token_s", "power_w", "power_scope", "j_per_token", "flags"),
    *("tier", "capacity_bytes", "memory_limit", "failed_at"),
)


@dataclass
class Summary:
    """What a sweep did: the runs it made, what it left undone and why, and what stood in its way before.

    `failed_before` counts the cells that failed so often, in earlier sweeps, that they are not tried again; `damaged` names
    stored files that could not be read, and so were not counted as done. `wide` maps a cell whose interval did not become as
    narrow as asked to how many more runs it would need, by estimate (None: unknown). `strict`: a flagged run taints, also one of
    the `flagged_before` that earlier sweeps stored for the cells asked for.
    """

    runs: list[Run] = field(default_factory=list)
    left: int = 0
    left_because: str | None = None
    interrupted: bool = False
    failed_before: int = 0
    damaged: tuple[str, ...] = ()
    wide: dict[str, int | None] = field(default_factory=dict)
    strict: bool = False
    flagged_before: int = 0

    @property
    def flagged(self) -> list[Run]:
        return [run for run in self.runs if doubtful(run.flags)]

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return EXIT_INTERRUPTED
        if self.failed_before or any(run.outcome in FAILED_OUTCOMES for run in self.runs):
            return EXIT_FAILED
        doubtful = self.strict and (self.flagged or self.flagged_before)
        return EXIT_TAINTED if self.damaged or doubtful else EXIT_DONE

    def describe(self, results: Path) -> str:
        """The sweep in a line or two."""
        counts = Counter(run.outcome for run in self.runs)
        told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        parts = [f"{len(self.runs)} runs: {told}" if self.runs else "nothing measured" if self.left else "nothing left to do"]
        if self.flagged:
            flags = Counter(flag for run in self.flagged for flag in run.flags)
            parts.append(f"{len(self.flagged)} flagged ({', '.join(f'{count} {flag}' for flag, count in sorted(flags.items()))})")
        if self.strict and self.flagged_before:
            parts.append(f"{self.flagged_before} flagged before (--no-resume measures anew)")
        if self.left:
            parts.append(f"{self.left} runs left: {self.left_because} (the same command goes on)")
        if self.wide:
            needs = ", ".join(
                f"{cell}: {'unknown' if more is None else f'about {more} more'}" for cell, more in self.wide.items()
            )
            parts.append(f"{len(self.wide)} cells less precise than asked; runs they would need: {needs}")
        if self.failed_before:
            parts.append(f"{self.failed_before} cells failed {MAX_FAILURES} times before (--no-resume tries them again)")
        if set(counts) & FAILED_OUTCOMES:
            parts.append(f"logs in {results / 'logs'}")
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """For `run --json`."""
        return {
            "runs": [{key: getattr(run, key) for key in _KEYS} for run in self.runs],
            "left": self.left,
            "left_because": self.left_because,
            "wide": self.wide,
            "failed_before": self.failed_before,
            "flagged_before": self.flagged_before,
            "damaged": list(self.damaged),
            "exit_code": self.exit_code,
        }
