"""Which stack has which technique: probed in child processes by `doctor --support`, kept beside the runs, read by the claims.

In: the techniques of the catalogue and this environment. Out: a `Matrix` with an answer for every technique in every place where
a stack runs, with the versions it is true of. A file per machine, `results/machines/<machine_id>.support.json`, is committed
with the results, so that a clone without hardware and without the stacks has the answers too.

Each answer is kept apart: an environment without a stack leaves alone what another environment of the same machine found of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from bench.files import atomic
from bench.reading.strict import BadFile, Problem, read_text
from bench.record import Machine
from bench.techniques import HOMES, PLACES, Clue, Home, Place, Stack, Technique, read_techniques

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 240.0
"""Importing torch, transformers and trl takes 10 s, on a cold and busy disk a minute."""
Has = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Whether a stack has a technique on a device.

    `probed`: found in the installed packages, of the `versions` given; else it is what `source` says, or unknown. `reason` says
    what was found, or why it is not known. `asked` is what was looked for: an answer to another question is none.
    """

    technique: str
    stack: Stack
    home: Home
    has: Has
    probed: bool
    reason: str
    versions: Mapping[str, str]
    asked: str
    source: str = ""
    probed_at: str = ""

    @property
    def place(self) -> Place:
        return self.stack, self.home

    @property
    def evidence(self) -> str:
        """The versions, or else the source."""
        return ", ".join(f"{name} {version}" for name, version in self.versions.items()) if self.probed else self.source


@dataclass(frozen=True, slots=True)
class _Stored:
    """The content of a file."""

    machine: str
    answers: list[Answer]


@dataclass(frozen=True, slots=True)
class Matrix:
    """The answers, by technique and place; one for each of the catalogue's."""

    answers: tuple[Answer, ...]

    def of(self, technique: str, place: Place) -> Answer | None:
        return next((each for each in self.answers if each.technique == technique and each.place == place), None)

    def versions(self, stack: Stack) -> dict[str, str]:
        """Of every distribution of a stack that answered."""
        answered = [each for each in self.answers if each.probed and each.stack == stack]
        return dict(sorted((name, version) for each in answered for name, version in each.versions.items()))


def probe_all(techniques: tuple[Technique, ...] | None = None) -> Matrix:
    """Look for every technique in every stack, a child process for each: half a minute where the stacks are installed."""
    known = read_techniques() if techniques is None else techniques
    return Matrix(tuple(answer for stack in HOMES for answer in _probe(stack, known)))


def _probe(stack: Stack, techniques: tuple[Technique, ...]) -> Iterator[Answer]:
    asked = [(technique.id, clue) for technique in techniques for place, clue in technique.clues.items() if place[0] == stack]
    findings = _findings([clue for _, clue in asked])
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    for (technique, clue), finding in zip(asked, findings, strict=True):
        yield _answer(technique, clue, finding, now)


def _findings(clues: list[Clue]) -> list[dict[str, Any]]:
    """From a child process; where it fails, every probe is untried for the same reason."""
    request = json.dumps([asdict(clue.probe) for clue in clues])
    command = [sys.executable, "-P", "-m", "bench.backends.probe"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    try:
        ended = subprocess.run(
            command, input=request, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        return _untried(len(clues), f"not done after {TIMEOUT_S:.0f} s")
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or ["no message"])[-1]
        return _untried(len(clues), f"the probe ended with {ended.returncode}: {last[:200]}")
    found: list[dict[str, Any]] = json.loads(ended.stdout.splitlines()[-1])
    return found


def _untried(count: int, reason: str) -> list[dict[str, Any]]:
    return [{"found": "untried", "reason": reason, "versions": {}}] * count


def _answer(technique: str, clue: Clue, finding: Mapping[str, Any], now: str) -> Answer:
    """What was found, qualified by the clue's reason; where nothing could be looked for, what the clue's source says."""
    if finding["found"] == "untried":
        return unprobed(technique, clue, finding["reason"])
    qualified = clue.why if finding["found"] != "unknown" else ""
    reason = "; ".join(part for part in (finding["reason"], qualified) if part)
    return Answer(
        technique=technique,
        stack=clue.stack,
        home=clue.home,
        has=finding["found"],
        probed=True,
        reason=reason,
        versions=finding["versions"],
        asked=clue.probe.asked,
        source=clue.source,
        probed_at=now,
    )


def unprobed(technique: str, clue: Clue, why: str) -> Answer:
    """The answer that the catalogue itself gives, for its source's sake, or none."""
    return Answer(
        technique=technique,
        stack=clue.stack,
        home=clue.home,
        has=clue.says or "unknown",
        probed=False,
        reason=clue.why if clue.says else f"not probed: {why}",
        versions={},
        asked=clue.probe.asked,
        source=clue.source,
    )


def keep(results: Path, machine: Machine, found: Matrix) -> Path:
    """Store what was probed, in the place of earlier answers. What could not be probed here leaves what stands there already.

    Raises OSError naming the file, and BadFile where the file there cannot be understood.
    """
    path = results / "machines" / f"{machine.machine_id}.support.json"
    fresh = [each for each in found.answers if each.probed]
    replaced = {(each.technique, each.place) for each in fresh}
    older = [each for each in _read(path) if (each.technique, each.place) not in replaced] if path.exists() else []
    rows = sorted((*fresh, *older), key=lambda each: (each.technique, each.stack, each.home))
    content = json.dumps({"machine": machine.name, "answers": [asdict(each) for each in rows]}, indent=1)
    with atomic.staged(path, (content + "\n").encode()) as staged:
        atomic.republish(staged, path)
    return path


def stored(results: Path, techniques: tuple[Technique, ...] | None = None) -> Matrix:
    """What every machine's file answers, the latest probe of each; what none answers is as the catalogue's source says.

    Raises BadFile naming a file that cannot be understood, OSError one that cannot be read.
    """
    known = read_techniques() if techniques is None else techniques
    paths = sorted((results / "machines").glob("*.support.json"))
    latest = _latest(answer for path in paths for answer in _read(path))
    return Matrix(tuple(_known(technique.id, clue, latest) for technique in known for clue in technique.clues.values()))


def _latest(answers: Iterable[Answer]) -> dict[tuple[str, Place, str], Answer]:
    """By technique, place and question."""
    return {(each.technique, each.place, each.asked): each for each in sorted(answers, key=lambda each: each.probed_at)}


def _known(technique: str, clue: Clue, latest: Mapping[tuple[str, Place, str], Answer]) -> Answer:
    found = latest.get((technique, (clue.stack, clue.home), clue.probe.asked))
    return (
        unprobed(technique, clue, "wingspan doctor --support, where the stack is installed, finds it out")
        if found is None
        else found
    )


def _read(path: Path) -> list[Answer]:
    try:
        return TypeAdapter(_Stored).validate_json(read_text(path)).answers
    except ValidationError:
        raise BadFile([Problem(str(path), "", "not written by `doctor --support`; remove it and run that again")]) from None


MARKS: Mapping[Has, str] = {"yes": "yes", "no": "no", "unknown": "?"}
LEGEND = "yes, no: in the installed packages, or not; (yes), (no): by a source, not probed; ?: not known, as without the stack"


def table(matrix: Matrix, techniques: tuple[Technique, ...] | None = None) -> list[str]:
    """The matrix for a terminal: a line for each technique, a column for each place, and what the marks mean."""
    known = read_techniques() if techniques is None else techniques
    wide = max((len(technique.title["en"]) for technique in known), default=0) + 2
    columns = ["@".join(place) for place in PLACES]
    lines = [" " * wide + "  ".join(columns)]
    for technique in known:
        marks = [_mark(matrix.of(technique.id, place)).ljust(len(column)) for place, column in zip(PLACES, columns, strict=True)]
        lines.append((technique.title["en"].ljust(wide) + "  ".join(marks)).rstrip())
    found = [(stack, ", ".join(f"{name} {version}" for name, version in matrix.versions(stack).items())) for stack in HOMES]
    return [*lines, LEGEND, *(f"{stack}: {versions or 'nothing probed'}" for stack, versions in found)]


def _mark(answer: Answer | None) -> str:
    if answer is None or answer.has == "unknown":
        return MARKS["unknown"]
    return MARKS[answer.has] if answer.probed else f"({MARKS[answer.has]})"
