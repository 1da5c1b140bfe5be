"""What is claimed: a statement, what would answer it, and what the answer should be.

In: nothing. Out: the values that the other modules share. A claim is a row of a TOML file; nothing in it is code. Its `kind` says
how it is judged (`bench.claims.rules`), its `quantity` what is read of a run, a published row or a prediction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from bench.spec import Scalar

Language = Literal["en", "fr", "ro"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

Kind = Literal["value", "range", "ratio", "order", "fit", "winner", "support"]
"""`value`: about so much. `range`: from here to there, open ends allowed. `ratio`: one side over the other. `order`: one thing
above another, by whatever factor. `fit`: whether a machine can do it. `winner`: which of two machines is the one to do it on.
`support`: which stack has a technique."""

Quantity = Literal[
    "peak_bytes",
    "peak_bytes_per_parameter",
    "weights_bytes_per_parameter",
    "gradients_bytes_per_parameter",
    "optimizer_bytes_per_parameter",
    "parts_over_rest",
    "tokens_per_s",
    "power_w",
    "capacity_share",
    "memory_bytes_per_s",
    "host_cores",
]
"""`parts_over_rest`: weights, gradients, optimizer and activations over all else of the peak. `capacity_share`: what a process
can have of the machine's memory. `host_cores`: processor time of the training process over the time it took."""

QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
Tier = Literal["measured", "stand-in", "published", "predicted"]
TIERS: tuple[Tier, ...] = get_args(Tier)
"""From the strongest to the weakest."""

Verdict = Literal["verified", "refined", "refuted", "inconclusive", "predicted-to-hold", "predicted-to-fail", "untested"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
Fits = Literal["yes", "tight", "no", "slow", "crash"]
"""`tight`: it just fits. `slow`: it runs, if on swapped memory. `crash`: memory ends it, and it does not run slowly either."""
Winner = Literal["first", "second", "tie"]


@dataclass(frozen=True, slots=True)
class Expected:
    """The numbers of a claim in SI units; None at an open end. A value has both ends equal."""

    low: float | None
    high: float | None

    @property
    def direction(self) -> int:
        """Of a ratio: 1 above one, -1 below it, 0 where the claim has one on both sides."""
        if self.low is not None and self.low > 1:
            return 1
        return -1 if self.high is not None and self.high < 1 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Who computes: machines of the catalogue, backends, devices, an implementation asked for. Empty: any."""

    machines: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    implementation: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim.

    `statement` is in our own words, by language. `quantity` is None where nothing is read (fit, winner, support). `sides` are who
    can answer: one, or two where they are set against each other, the first over the second. `models` (names of the catalogue)
    and `methods` say of which work; `conditions` what else of the work matters, by field of a workload: where the claim leaves it
    open, what its readers would most likely run. Evidence under other conditions is shown and judges nothing.

    `tolerance` is the share by which a number may lie outside the claim's and still be called its own, `tolerance_reason` why so
    much. `scope` is what watts have to cover (`wall`, `gpu-board`). `fits` is what a claim of fit says, `headroom` the share of
    the capacity that has to stay free for it to be true. `winner` is the side that a claim says should win. `techniques` are rows
    of `techniques.toml`, `share` how large a part of them has to be on the first side alone (zero: one is enough). `remark` tells
    the reader what is known to be doubtful about the claim, by language; `cites` are the ids of published rows whose figures it
    names, shown beside the claim and judging nothing.
    """

    id: str
    kind: Kind
    statement: Mapping[Language, str]
    quantity: Quantity | None = None
    unit: str | None = None
    expected: Expected | None = None
    tolerance: float = 0.15
    tolerance_reason: Mapping[Language, str] = field(default_factory=dict)
    scope: str | None = None
    sides: tuple[Side, ...] = (Side(),)
    models: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    conditions: Mapping[str, Scalar] = field(default_factory=dict)
    fits: Fits | None = None
    headroom: float = 0.0
    winner: Winner | None = None
    techniques: tuple[str, ...] = ()
    share: float = 0.5
    remark: Mapping[Language, str] = field(default_factory=dict)
    cites: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One answer that evidence gives to a claim: a number with its interval, or an outcome.

    `what` is the work in words (model, method, and what tells it from its neighbours), `who` who computed it. `value` with `low`
    and `high` (None: no interval) is in the claim's SI unit; of a fit it is the probability of fitting, and of a winner the rate
    of the first side over the second's (infinite where only the first can do it, zero where only the second, NaN where neither
    can). `n` counts runs, or published rows. `evidence` names them: run ids, ids of rows, or the commands that predict it.
    `unstated` are conditions that the source leaves open. `sides` are what the first and the second side reached, where `value`
    is their ratio (of the quantity, in its SI unit; of a winner, tokens a second). `headroom` is the share of the capacity that
    stayed free. `refused` says why what was found judges nothing; it may have a value all the same, of `quantity` where that is
    not the claim's own. `slow`: it ran on, but out of the memory it was to fit.
    """

    tier: Tier
    what: str
    who: str
    value: float | None
    low: float | None = None
    high: float | None = None
    sides: tuple[float, float] | None = None
    n: int = 0
    evidence: tuple[str, ...] = ()
    conditions: str = ""
    unstated: tuple[str, ...] = ()
    source: str = ""
    headroom: float | None = None
    slow: bool = False
    refused: str | None = None
    quantity: Quantity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A claim with its verdict.

    `estimates` are those that it rests on, `others` what else is known: under other conditions, of lower tiers, refused. `value`,
    `low`, `high` are what was found: where evidence contradicts the claim, what that evidence says. `value` is None where it does
    not agree with itself; `least` and `most` are the ends of its values, and `speaking` is how many of the estimates it is (None:
    no number was found). `reason` says in words by which rule. `more_runs` is how many more would settle an inconclusive one, as
    far as that can be told.
    """

    claim: Claim
    verdict: Verdict
    reason: str
    tiers: tuple[Tier, ...] = ()
    value: float | None = None
    low: float | None = None
    high: float | None = None
    least: float | None = None
    most: float | None = None
    speaking: int | None = None
    estimates: tuple[Estimate, ...] = ()
    others: tuple[Estimate, ...] = ()
    more_runs: int | None = None

    @property
    def n(self) -> int:
        return sum(each.n for each in self.estimates)
