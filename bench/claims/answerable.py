"""Whether some suite can answer each claim: a claim that none can is a gap in what is asked.

In: claims, and the suites of a folder. Out: one message for each claim that no cell of any suite could ever answer. Claims about
a machine itself (its bandwidth, its share of memory) and about what packages have are answered by `doctor`, so they need no cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from bench.catalog import CATALOG
from bench.claims.asked import differing, is_on
from bench.claims.claim import Claim, Quantity, Side
from bench.claims.reader import CLAIMS, read_claims
from bench.expand import cells_of, exclusion_of
from bench.spec import WORKLOAD_FIELDS, BackendName, BadInput, Cell, Device, Suite, Workload
from bench.suite import read_suite

SUITES = CATALOG.parent
OF_THE_MACHINE: tuple[Quantity, ...] = ("capacity_share", "memory_bytes_per_s")
OWN_DEVICES: tuple[Device, ...] = ("cuda", "metal")


def gaps(claims: Iterable[Claim], suites: Iterable[Suite]) -> list[str]:
    """What no suite can answer, a line each with the remedy."""
    cells = [cell for suite in suites for cell in _cells(suite)]
    return [message for claim in claims for message in _gap(claim, cells)]


def refuse_gaps() -> None:
    """Raises BadInput for claims of the catalogue that none of the bundled suites can answer."""
    found = gaps(read_claims(CLAIMS), suites_in(SUITES))
    if found:
        raise BadInput("\n".join(found))


def suites_in(folder: Path) -> tuple[Suite, ...]:
    """Every suite of a folder. Raises BadFile for one with faults."""
    return tuple(read_suite(path) for path in sorted(folder.glob("*.toml")))


def _cells(suite: Suite) -> Iterator[Cell]:
    """On CUDA and on Metal alike: a suite names no machine."""
    for device in OWN_DEVICES:
        for cell in cells_of(suite, partial(_same, device)):
            if exclusion_of(suite, cell) is None:
                yield cell


def _same(device: Device, _: BackendName) -> Device:
    return device


def _gap(claim: Claim, cells: Sequence[Cell]) -> Iterator[str]:
    if claim.kind == "support" or claim.quantity in OF_THE_MACHINE:
        return
    asked = [cell for cell in cells if not _apart(claim, cell.workload)]
    for side in claim.sides:
        if not any(_by(side, cell) for cell in asked):
            what = f"no suite in suites/ has a cell that could answer it{_on(side)}"
            yield f"{claim.id}: {what}; add its work to one, or mend the claim"


def _apart(claim: Claim, work: Workload) -> bool:
    """Whether the work is another one than the claim's."""
    declared = {name: getattr(work, name) for name in WORKLOAD_FIELDS if name != "model"}
    return differing(claim, work.model.name, work.method, declared) != []


def _by(side: Side, cell: Cell) -> bool:
    """The side's backends and devices; its machines have both kinds of device between them."""
    return is_on(Side(backends=side.backends, devices=side.devices), "", cell.backend, cell.device)


def _on(side: Side) -> str:
    named = [*side.machines, *side.backends, *side.devices]
    return f" for {', '.join(named)}" if named else ""
