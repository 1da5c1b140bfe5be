"""The report: one HTML page, its Markdown twin, and the figures.

In: a results folder. Out: `lesson.html` (self-contained: figures and style inside, no script, and a content security policy
under which the browser fetches nothing), `lesson.md`, and `figures/*.svg` beside it. The same results give the same bytes: what
is written depends on stored rows alone, never on the clock, the order of files or the reader's settings.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from bench.catalog import MachineProfile, machine_profiles
from bench.files import atomic
from bench.report import doubts, ledger, overview, results
from bench.report.conditions import conditions
from bench.report.document import Document, Section
from bench.report.energy import energy
from bench.report.findings import Findings, gather
from bench.report.frontier import frontier, parts
from bench.report.ladder import ladders
from bench.report.markdown import literal
from bench.report.serving import serving
from bench.store import Damaged, read

TITLE = "Wingspan: what was measured"
FIGURES = ("memory", "speed", "ratios", "energy")
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
_NO_RUNS = Section(
    "no-runs",
    "No runs",
    ("These results hold no runs yet. In the folder of the project, these lines make some and write this page again:",),
    ("python -m bench run suites/smoke.toml", "python -m bench report"),
)


@dataclass(frozen=True, slots=True)
class Written:
    """The files written, the HTML page first, and the result files that could not be read."""

    paths: tuple[Path, ...]
    damaged: tuple[Damaged, ...]


def write(folder: Path, out: Path) -> Written:
    """Report on the results in `folder`; figures of an earlier report that are no longer due are removed.

    Each file appears whole or not at all. Raises OSError naming the file where writing fails.
    """
    runs, steps = read(folder, "runs"), read(folder, "steps", ["run_id", "phase", "duration_s"])
    readings = read(folder, "readings", ["run_id", "meter", "scope", "value"])
    damaged = (*runs.damaged, *steps.damaged, *readings.damaged)
    named = [(_relative(each.path, folder), each.reason) for each in damaged]
    measured, taken, read_off = (each.rows.to_pandas() for each in (runs, steps, readings))
    document = compose(measured, taken, machine_profiles(), named, read_off)
    figures = {out / "figures" / f"{figure.name}.svg": figure.svg for figure in document.figures}
    contents = {out / "lesson.html": to_html(document), out / "lesson.md": to_markdown(document), **figures}
    for path, text in contents.items():
        with atomic.staged(path, text.encode()) as temporary:
            atomic.republish(temporary, path)
    for name in FIGURES:
        if out / "figures" / f"{name}.svg" not in figures:
            atomic.remove(out / "figures" / f"{name}.svg")
    return Written(tuple(contents), damaged)


def compose(
    runs: pd.DataFrame,
    steps: pd.DataFrame,
    profiles: Sequence[MachineProfile] = (),
    damaged: Iterable[tuple[str, str]] = (),
    readings: pd.DataFrame | None = None,
) -> Document:
    """The report on the rows of `runs`, `steps` and `readings`; `damaged` are (path, reason) of files that could not be read."""
    findings = gather(runs, steps, profiles, damaged, readings)
    copied = (ledger.copies(findings),) if findings.copies else ()
    broken = (ledger.damaged(findings),) if findings.damaged else ()
    sections = (_NO_RUNS, *broken) if findings.runs.empty else (*_sections(findings), *copied, *broken)
    return Document(TITLE, overview.questions(findings), overview.facts(findings), sections)


def to_html(document: Document) -> str:
    """The document as one page that needs nothing else."""
    template = _HTML.get_template("report.html.j2")
    style = _HTML.get_template("style.css").render().strip()
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return template.render(document=document, style=style, style_digest=digest)


def to_markdown(document: Document) -> str:
    """The document as Markdown that links to `figures/<name>.svg`."""
    return _MARKDOWN.get_template("report.md.j2").render(document=document)


def _sections(findings: Findings) -> tuple[Section, ...]:
    makers = (
        *(overview.machines, overview.software, overview.glance, conditions, results.memory, results.speed, results.ratios),
        *(frontier, parts),
        *(ladders, serving, energy, ledger.holes, doubts.flags, doubts.not_measured, ledger.every_run, ledger.provenance),
    )
    return tuple(section for make in makers if (section := make(findings)) is not None)


def _relative(path: Path, folder: Path) -> str:
    """The path within the results, so that the page does not depend on where they lie."""
    with suppress(ValueError):
        return str(path.relative_to(folder))
    return path.name
