"""Whether two parties did the same work, so that dividing one by the other means something.

In: two sides of a comparison, each the repeated runs of one cell on one machine. Out: None, or the reason in words why there
is to be no ratio. The rules are those of design.md, "What makes a comparison fair": equal workload digests, equal tokens
as the frameworks received them, trainable parameters that agree, as many measured steps (of serving, requests; nothing is
trained there), one scope, and evidence that was measured. Warm-up ends by rule, after as many steps as each takes to settle,
so its length is shown and not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PARTY = ("tier", "machine", "backend", "device", "implementation")
"""Who computes."""
TRAINABLE_TOLERANCE = 0.001
"""Trainable parameters may differ by this share before a comparison is refused."""
_NO_SCOPE = "what its figures cover was not recorded"


@dataclass(frozen=True, slots=True)
class Side:
    """One party's runs of one cell.

    `key` holds `PARTY`, `cell`, `workload_digest`, `work` (the cell without backend and device) and `method`; `declared` the
    workload's fields; `values` the metric in each clean run; `outcomes` all runs counted, in words. `tokens_digests`,
    `trainable_parameters`, `step_counts` (of measured steps) and `scopes` (what the figures cover; None for a metric that always
    covers the same) are the distinct values of the clean runs, whose ids are `run_ids`.
    """

    key: Mapping[str, str]
    parameters: float
    declared: Mapping[str, Any]
    values: tuple[float, ...]
    outcomes: str
    tokens_digests: tuple[str, ...]
    trainable_parameters: tuple[float, ...]
    step_counts: tuple[float, ...]
    scopes: tuple[str, ...] | None = None
    run_ids: tuple[str, ...] = ()

    @property
    def work(self) -> str:
        return self.key["work"]

    @property
    def digest(self) -> str:
        return self.key["workload_digest"]

    @property
    def who(self) -> str:
        return f"{self.key['backend']}@{self.key['device']} on {self.key['machine']}"

    @property
    def serves(self) -> bool:
        return self.key.get("method") == "serve"

    @property
    def party(self) -> tuple[str, ...]:
        return tuple(self.key[name] for name in PARTY)


def refusal(above: Side, below: Side) -> str | None:
    """Why these two are not to be compared, by the first rule that is broken; None if they may be."""
    checks = (_unequal_work, _no_speed, _no_runs, _unequal_tokens, _unequal_trainable, _unequal_steps, _unequal_scopes)
    return next((reason for check in checks if (reason := check(above, below))), None)


def _unequal_work(above: Side, below: Side) -> str | None:
    if above.digest == below.digest:
        return None
    fields = [(name, above.declared[name], below.declared[name]) for name in above.declared]
    differing = [f"{name} {_text(first)} against {_text(second)}" for name, first, second in fields if first != second]
    return "the work differs: " + ("; ".join(differing) or "the architectures are not the same")


def _no_speed(above: Side, below: Side) -> str | None:
    others = [side for side in (above, below) if side.key["tier"] != "measured"]
    return f"{others[0].who} is {others[0].key['tier']}, which says nothing of speed" if others else None


def _no_runs(above: Side, below: Side) -> str | None:
    empty = [side for side in (above, below) if not side.values]
    return f"{empty[0].who} has no clean run ({empty[0].outcomes})" if empty else None


def _unequal_tokens(above: Side, below: Side) -> str | None:
    for side in (above, below):
        if len(side.tokens_digests) != 1:
            seen = len(side.tokens_digests)
            return f"{side.who}: " + ("its runs were given different tokens" if seen else "its tokens were not recorded")
    return None if above.tokens_digests == below.tokens_digests else "they were given different tokens"


def _unequal_trainable(above: Side, below: Side) -> str | None:
    if above.serves:
        return None
    counts = [*above.trainable_parameters, *below.trainable_parameters]
    if not above.trainable_parameters or not below.trainable_parameters:
        return "trainable parameters were not recorded on both sides"
    share = (max(counts) - min(counts)) / max(*counts, 1)
    if share <= TRAINABLE_TOLERANCE:
        return None
    return f"trainable parameters differ by {share:.2%} ({min(counts):,.0f} against {max(counts):,.0f})"


def _unequal_steps(above: Side, below: Side) -> str | None:
    """Early steps run at other clocks and other caches than late ones, so medians over other steps are no like for like."""
    what = "measured requests" if above.serves else "measured steps"
    for side in (above, below):
        if not side.step_counts:
            return f"{side.who}: its {what} were not recorded"
        if len(side.step_counts) > 1:
            counts = ", ".join(f"{count:.0f}" for count in side.step_counts)
            return f"{side.who}: its runs took different numbers of {what} ({counts})"
    (first,), (second,) = above.step_counts, below.step_counts
    return None if first == second else f"they took different numbers of {what} ({first:.0f} against {second:.0f})"


def _unequal_scopes(above: Side, below: Side) -> str | None:
    """Watts of a board and watts of a plug are no like for like."""
    if above.scopes is None or below.scopes is None:
        return None
    for side in (above, below):
        if len(side.scopes or ()) != 1:
            return f"{side.who}: " + (f"its figures cover different things ({_listed(side)})" if side.scopes else _NO_SCOPE)
    return (
        None
        if above.scopes == below.scopes
        else f"the figures cover different things ({_listed(above)} against {_listed(below)})"
    )


def _listed(side: Side) -> str:
    return ", ".join(side.scopes or ())


def _text(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)
