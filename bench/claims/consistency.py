"""What the keys of one claim say together: names that nothing has, keys that its kind lacks or has no use for.

In: a row that is right key by key. Out: its faults, as (key, message), each with the remedy. A key that a kind does not read is a
fault, since whoever wrote it expects it to count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from bench.catalog import catalogue, machine_profiles
from bench.claims.claim import Kind, Quantity
from bench.claims.rows import Row
from bench.reading.strict import first_of, meant, one_of, shown
from bench.spec import BACKENDS, DEVICES, METHODS
from bench.techniques import read_techniques

NEEDS: Mapping[Kind, tuple[str, ...]] = {
    "value": ("quantity", "expected", "unit"),
    "range": ("quantity", "expected", "unit"),
    "ratio": ("quantity", "expected", "unit"),
    "order": ("quantity", "unit"),
    "fit": ("fits", "models", "methods"),
    "winner": ("winner", "models", "methods"),
    "support": ("techniques",),
}
"""What a claim of each kind cannot be judged without."""
TAKES: Mapping[Kind, tuple[str, ...]] = {
    "value": ("tolerance", "scope"),
    "range": ("tolerance", "scope"),
    "ratio": ("tolerance", "scope"),
    "order": ("expected", "tolerance", "scope"),
    "fit": ("headroom",),
    "winner": ("tolerance",),
    "support": ("share",),
}
"""What it may say besides."""
OF_SOME = ("quantity", "expected", "unit", "tolerance", "scope", "fits", "headroom", "winner", "techniques", "share")
"""The keys that not every kind reads."""
SIDES: Mapping[Kind, tuple[int, int]] = {
    "value": (0, 1),
    "range": (0, 1),
    "ratio": (2, 2),
    "order": (0, 2),
    "fit": (1, 1),
    "winner": (2, 2),
    "support": (1, 2),
}
"""How many sides a claim of each kind has: at least, at most."""
DIVIDED: tuple[Quantity, ...] = ("tokens_per_s", "peak_bytes")
"""What one side's can be divided by the other's: figures of runs that did equal work."""
ON_A_MACHINE: tuple[Kind, ...] = ("fit", "winner")
"""Kinds that ask what a machine can do: each side names one."""
UNITS: Mapping[Quantity, str] = {
    "peak_bytes": "GB",
    "peak_bytes_per_parameter": "GB per 1B",
    "weights_bytes_per_parameter": "GB per 1B",
    "gradients_bytes_per_parameter": "GB per 1B",
    "optimizer_bytes_per_parameter": "GB per 1B",
    "parts_over_rest": "×",
    "tokens_per_s": "tokens/s",
    "power_w": "W",
    "capacity_share": "%",
    "memory_bytes_per_s": "GB/s",
    "host_cores": "cores",
}
"""How a quantity is shown; what sets two sides against each other is shown as a factor."""
FACTOR = "×"

Faults = Iterator[tuple[str, str]]


def faults(row: Row, cited: Callable[[], Sequence[str]] = list) -> Faults:
    """Every fault of the row as a whole; `cited` gives the ids of the published rows, and is asked only where one is named."""
    yield from _keys(row)
    yield from _numbers(row)
    yield from _sides(row)
    yield from _names(row)
    if row.cites:
        yield from _cites(row.cites, cited())


def _keys(row: Row) -> Faults:
    for name in NEEDS[row.kind]:
        if getattr(row, name) in (None, []):
            yield name, f"missing: a claim of kind {row.kind} cannot be judged without it"
    for name in OF_SOME:
        if name in row.model_fields_set and name not in (*NEEDS[row.kind], *TAKES[row.kind]):
            yield name, f"a claim of kind {row.kind} has no use for it; leave it out"
    if (row.tolerance is None) != (row.tolerance_reason is None):
        yield (
            ("tolerance", "missing: say how much") if row.tolerance is None else ("tolerance_reason", "missing: say why so much")
        )


def _numbers(row: Row) -> Faults:
    if row.expected is not None and row.kind == "value" and row.expected.low != row.expected.high:
        yield "expected", "a value is one number; from here to there is a range"
    if row.expected is not None and row.kind == "range" and row.expected.low == row.expected.high:
        yield "expected", "a range has two ends; one number is a value"
    if row.tolerance is not None and row.winner in ("first", "second"):
        yield "tolerance", "only a tie has one: a winner is ahead, by however little; leave it out"
    if row.quantity is None:
        return
    compared = row.kind == "ratio" or (row.kind == "order" and len(row.sides or ()) == 2)
    unit = FACTOR if compared else UNITS[row.quantity]
    if row.unit not in (None, unit):
        yield "unit", f'{shown(row.unit)} is not what is shown; write "{unit}" (expected is in SI units all the same)'
    if row.quantity == "power_w" and row.scope is None:
        yield "scope", "missing: say what the watts cover, gpu-board, soc, package or wall"
    if row.quantity != "power_w" and row.scope is not None:
        yield "scope", "only watts have one; leave it out"


def _sides(row: Row) -> Faults:
    fewest, most = SIDES[row.kind]
    sides = row.sides or []
    if not fewest <= len(sides) <= most:
        wanted = (
            "two sides against each other; name both" if fewest == 2 else "one side; name it" if most == 1 else "who can answer"
        )
        yield "sides", f"a claim of kind {row.kind} is about {wanted}"
    if row.kind in ON_A_MACHINE:
        for index, side in enumerate(sides):
            if not side.machine:
                yield f"sides[{index}].machine", f"missing: a claim of kind {row.kind} is about a machine"
    if len(row.sides or ()) > 1 and row.quantity is not None and row.quantity not in DIVIDED:
        yield "quantity", f"one side's {row.quantity} is never divided by the other's; use {one_of(DIVIDED)}"


def _names(row: Row) -> Faults:
    """Names that nothing has, and names that stand twice."""
    known = catalogue()
    yield from _unknown("models", "model", row.models, [*known.models, *known.aliases])
    yield from _unknown("methods", "method", row.methods, METHODS)
    yield from _unknown("techniques", "technique", row.techniques, _techniques() if row.techniques else ())
    yield from _twice("models", [known.aliases.get(name, name) for name in row.models])
    yield from _twice("methods", row.methods)
    yield from _twice("techniques", row.techniques)
    machines = [profile.name for profile in machine_profiles()]
    for index, side in enumerate(row.sides or ()):
        yield from _unknown(f"sides[{index}].machine", "machine", side.machine, machines)
        yield from _unknown(f"sides[{index}].backend", "backend", side.backend, BACKENDS)
        yield from _unknown(f"sides[{index}].device", "device", side.device, DEVICES)


def _cites(names: Sequence[str], there: Sequence[str]) -> Faults:
    yield from _twice("cites", names)
    for name in names:
        if name not in there:
            remedy = meant(name, there) if there else "none lie there"
            yield "cites", f"no published row {shown(name)}; {remedy} (results/published holds them, calibrate --add adds more)"


def _techniques() -> list[str]:
    return [technique.id for technique in read_techniques()]


def _unknown(key: str, kind: str, names: Sequence[str], there: Sequence[str]) -> Faults:
    for name in names:
        if name not in there:
            yield key, f"no {kind} {shown(name)}; {meant(name, there)}"


def _twice(key: str, names: Sequence[str]) -> Faults:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        yield key, f"{first_of([shown(name) for name in twice])} stands twice; keep one"
