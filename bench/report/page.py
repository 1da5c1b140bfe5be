"""The report: one HTML page, its Markdown twin, and the figures.

In: a results folder, and perhaps which of its runs are meant. Out: `lesson.html` (self-contained: figures, style and a script for
its tables inside, and a content security policy under which the browser runs no other script and fetches nothing), `lesson.md`,
and `figures/*.svg` beside it. The same results give the same bytes: what is written depends on stored rows and the catalogue
alone, never on the order of files or the reader's settings; on the clock only in that nights yet to come do not count.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from bench.catalog import MachineProfile, machine_profiles
from bench.files import atomic
from bench.report import doubts, ledger, lesson, overview, results
from bench.report.against import against
from bench.report.beside import Draw, Promise, beside, here
from bench.report.chosen import Chosen
from bench.report.conditions import conditions
from bench.report.document import FIGURES, Document, Section, Sketch, Table
from bench.report.energy import energy
from bench.report.findings import Findings, gather
from bench.report.frontier import frontier, parts
from bench.report.ladder import ladders
from bench.report.language import say, speaking, to_say
from bench.report.markdown import literal
from bench.report.methods import methods
from bench.report.serving import serving
from bench.store import Damaged, read

TITLE, ON_TRIAL = to_say("Wingspan: what was measured"), to_say("Wingspan: the lesson on trial")
EVERYTHING = Chosen()
_LOADER = PackageLoader("bench.report", "templates")
_HTML = Environment(loader=_LOADER, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
_MARKDOWN = Environment(
    loader=_LOADER,
    autoescape=False,  # noqa: S701 - not HTML: every value goes through `literal`, which makes both Markdown and HTML inert
    finalize=literal,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_NO_RUNS = to_say(
    "These results hold no runs yet. In the folder of the project, these lines make some and write this page again:"
)
_COMMANDS = ("python -m bench run suites/smoke.toml", "python -m bench report")


@dataclass(frozen=True, slots=True)
class Written:
    """The files written, the HTML page first, the result files that could not be read, and the document that was written."""

    paths: tuple[Path, ...]
    damaged: tuple[Damaged, ...]
    document: Document


def write(folder: Path, out: Path, language: str = "en", chosen: Chosen = EVERYTHING, own_claims: Path | None = None) -> Written:
    """Report on the results in `folder`, in that language; figures of an earlier report that are no longer due are removed.

    `chosen` says which runs are meant; of two machines set against each other no verdicts are told. `own_claims` is a file of
    claims beside the lesson's. Each file appears whole or not at all. Raises BadInput for machines that have no runs, BadFile
    for claims or published rows with faults, OSError naming the file where writing fails.
    """
    with beside(language) as draw:
        runs, steps = read(folder, "runs"), read(folder, "steps", ["run_id", "phase", "duration_s"])
        readings = read(folder, "readings", ["run_id", "meter", "scope", "value"])
        damaged = (*runs.damaged, *steps.damaged, *readings.damaged)
        named = [(_relative(each.path, folder), each.reason) for each in damaged]
        measured, taken, read_off = (each.rows.to_pandas() for each in (runs, steps, readings))
        judge = None if chosen.machines else partial(lesson.gather_lesson, results=folder, own=own_claims)
        tables = (chosen.of(measured), taken, machine_profiles(), named, read_off)
        document = compose(*tables, language=language, judge=judge, chosen=chosen, draw=draw)
    figures = {out / "figures" / f"{figure.name}.svg": figure.svg for figure in document.figures}
    contents = {out / "lesson.html": to_html(document), out / "lesson.md": to_markdown(document), **figures}
    for path, text in contents.items():
        with atomic.staged(path, text.encode()) as temporary:
            atomic.republish(temporary, path)
    for name in FIGURES:
        if out / "figures" / f"{name}.svg" not in figures:
            atomic.remove(out / "figures" / f"{name}.svg")
    return Written(tuple(contents), damaged, document)


def compose(
    runs: pd.DataFrame,
    steps: pd.DataFrame,
    profiles: Sequence[MachineProfile] = (),
    damaged: Iterable[tuple[str, str]] = (),
    readings: pd.DataFrame | None = None,
    *,
    language: str = "en",
    judge: Callable[[Findings], lesson.Lesson] | None = None,
    chosen: Chosen = EVERYTHING,
    draw: Draw = here,
) -> Document:
    """The report on the rows of `runs`, `steps` and `readings`; `damaged` are (path, reason) of files that could not be read.

    All of it is in `language`, a code among `bench.report.language.LANGUAGES`, but for what is data. `judge` puts the claims on
    trial; without it the report is about the runs alone. `chosen` is how the rows were chosen. `draw` begins a figure; those of
    the runs are begun before the claims are judged, since figures take the longest.
    """
    with speaking(language):
        findings = gather(runs, steps, profiles, damaged, readings)
        measured = _begun([_no_runs()] if findings.runs.empty else _sections(findings), draw)
        tried = None if judge is None else judge(findings)
        judged = [] if tried is None else _begun(lesson.sections(tried, findings), draw)
        versus = (against(findings, *chosen.machines),) if chosen.machines else ()
        doubted = [made] if (made := methods(findings, tried)) else []
        origin = [] if findings.runs.empty else [ledger.provenance(findings)]
        copied = (ledger.copies(findings),) if findings.copies else ()
        broken = (ledger.damaged(findings),) if findings.damaged else ()
        sections = (*_drawn(judged), *versus, *_drawn(measured), *doubted, *origin, *copied, *broken)
        questions, facts = overview.questions(findings), (*overview.facts(findings), *chosen.facts())
        if tried is not None:
            questions, facts = (lesson.question(tried),), (*lesson.facts(tried, questions), *facts)
        title = say(ON_TRIAL if judged else TITLE)
        return Document(title, questions, facts, sections, language)


def to_html(document: Document) -> str:
    """The document as one page that needs nothing else."""
    template = _HTML.get_template("report.html.j2")
    style, script = (_HTML.get_template(name).render().strip() for name in ("style.css", "table.js"))
    digests = {"style_digest": _digest(style), "script_digest": _digest(script)}
    with speaking(document.language):
        return template.render(document=document, style=style, script=script, **digests, say=say)


def _digest(text: str) -> str:
    return b64encode(hashlib.sha256(text.encode()).digest()).decode()


def to_markdown(document: Document) -> str:
    """The document as Markdown that links to `figures/<name>.svg`."""
    with speaking(document.language):
        return _MARKDOWN.get_template("report.md.j2").render(document=document, say=say)


def table_in_markdown(table: Table) -> str:
    """One table as Markdown, without a heading, in the language that is spoken."""
    return _MARKDOWN.get_template("table.md.j2").render(table=table, title=table.title, say=say).strip()


def _no_runs() -> Section:
    return Section("no-runs", say("No runs"), (say(_NO_RUNS),), commands=_COMMANDS)


def _begun(sections: Iterable[Section], draw: Draw) -> list[tuple[Section, Promise | None]]:
    """Each section with the promise of its figure, which is begun as soon as the section is made."""
    return [(section, draw(section.figure) if isinstance(section.figure, Sketch) else None) for section in sections]


def _drawn(begun: Iterable[tuple[Section, Promise | None]]) -> Iterator[Section]:
    """The sections with what was promised."""
    for section, promise in begun:
        yield section if promise is None else replace(section, figure=promise())


def _sections(findings: Findings) -> Iterator[Section]:
    makers = (
        *(overview.machines, overview.software, overview.glance, conditions, results.memory, results.speed, results.ratios),
        *(frontier, parts),
        *(ladders, serving, energy, ledger.holes, doubts.flags, doubts.not_measured, ledger.every_run),
    )
    return (section for make in makers if (section := make(findings)) is not None)


def _relative(path: Path, folder: Path) -> str:
    """The path within the results, so that the page does not depend on where they lie."""
    with suppress(ValueError):
        return str(path.relative_to(folder))
    return path.name
