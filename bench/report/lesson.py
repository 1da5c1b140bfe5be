"""Everything that the first half of the page says: verdicts, winner map, reach, rules, contradictions, silicon, techniques.

In: `Findings`, and the results folder for what is no run. Out: a `Lesson`, gathered once; and its sections. Without a single run
it says what published and predicted evidence say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import cited, support
from bench.advise.stack import Known, by_rules, memory_by_rules
from bench.catalog import MachineProfile
from bench.claims import gather, published
from bench.claims.claim import Claim, Judged
from bench.claims.measured import Runs
from bench.claims.published import Published
from bench.claims.reader import CLAIMS, read_claims
from bench.frontier.reach import Reach, reaches
from bench.predict.calibrate import scored
from bench.predict.score import Card
from bench.refine.contradictions import Contradiction, TableFit, contradictions, table_fits
from bench.refine.gather import gathered_map, lesson_machines, lesson_models, measured_rows, predicted_rows, published_rows
from bench.refine.memory import Rule, rules
from bench.refine.ratio import Split, splits
from bench.refine.winners import WinnerMap
from bench.report import evidence, verdicts
from bench.report.document import Section
from bench.report.findings import Findings
from bench.report.language import say, to_say
from bench.report.reach import reach
from bench.report.refined import contradicted, refined
from bench.report.silicon import silicon
from bench.report.techniques import techniques
from bench.report.winners import short_name, winners
from bench.support import Matrix
from bench.techniques import Technique, read_techniques


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What was found of the claims and of the two machines that they are about."""

    machines: tuple[MachineProfile, MachineProfile]
    claims: tuple[Claim, ...]
    judged: tuple[Judged, ...]
    winners: WinnerMap
    reaches: tuple[Reach, ...]
    rules: tuple[Rule, ...]
    table_fits: tuple[TableFit, ...]
    contradictions: tuple[Contradiction, ...]
    splits: tuple[Split, ...]
    techniques: tuple[Technique, ...]
    matrix: Matrix
    published: Published
    card: Card


def gather_lesson(findings: Findings, results: Path, own: Path | None = None) -> Lesson:
    """Judge every claim, those of the user's own file too, and gather what the page says beside.

    Raises BadFile for claims, published rows or a support matrix with faults, OSError for what cannot be read.
    """
    claims = read_claims(CLAIMS, *([own] if own else []), results=results)
    machines, runs = lesson_machines(), findings.runs
    known, measured = Known(runs, by_rules), Runs(runs, gather.parts_of(findings.parts))
    told = published.prepared(cited.read(results))
    peaks = [*predicted_rows(Known(runs, memory_by_rules), lesson_models()), *measured_rows(runs), *published_rows(told.observed)]
    return Lesson(
        machines=machines,
        claims=claims,
        judged=gather.judged(claims, gather.sources(measured, results)),
        winners=gathered_map(known, machines=machines),
        reaches=tuple(each for profile in machines for each in reaches(profile)),
        rules=rules(peaks),
        table_fits=table_fits(claims),
        contradictions=contradictions(claims, findings.profiles or machines),
        splits=splits(measured.sides("tokens_per_s") if len(runs) else (), *(profile.name for profile in machines)),
        techniques=read_techniques(),
        matrix=support.stored(results),
        published=told,
        card=scored(told.observed),
    )


def sections(lesson: Lesson, findings: Findings) -> Iterator[Section]:
    """The first sections of the page, the verdicts at a glance before all."""
    return (section for section in _sections(lesson, findings) if section is not None)


def question(lesson: Lesson) -> str:
    """What the page as a whole is about."""
    text = to_say("Does the lesson say rightly what {first} and {second} can train, and which of them wins at what?")
    first, second = lesson.machines
    return say(text, first=first.name, second=second.name)


def facts(lesson: Lesson, questions: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What holds of the verdicts as a whole, and what the suites asked whose runs stand beside them, as (label, text)."""
    if lesson.judged:
        yield say("Verdicts rest on"), verdicts.rests_on(lesson.judged)
    if questions:
        yield say("Questions of the suites"), " · ".join(questions)


def _sections(lesson: Lesson, findings: Findings) -> Iterator[Section | None]:
    names = {profile.name: short_name(profile) for profile in lesson.machines}
    yield verdicts.glance(lesson.judged)
    yield winners(lesson.winners, lesson.machines)
    yield reach(_by_edge(lesson.reaches), findings, names)
    yield verdicts.every_claim(lesson.judged)
    yield evidence.one_by_one(lesson.judged)
    yield refined(lesson.rules, lesson.table_fits, lesson.claims)
    yield contradicted(lesson.contradictions)
    yield silicon(lesson.splits)
    yield techniques(lesson.matrix, lesson.techniques)


def _by_edge(found: Sequence[Reach]) -> list[Reach]:
    """Both machines' answers to one question side by side."""
    order = {key: place for place, key in enumerate(dict.fromkeys((each.axis, each.method, each.model) for each in found))}
    return sorted(found, key=lambda each: order[each.axis, each.method, each.model])
