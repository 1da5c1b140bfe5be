"""The gate's verdict as Markdown, for the summary of a night.

In: a `Verdict` of `bench.history`. Out: a section of Markdown in which no name of a cell, machine or package means anything to a
renderer (`bench.report.markdown`), and none begins a line, lest it be taken for a list or a heading.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.history.gate import Told, Verdict
from bench.history.told import SHOWN_LINES, accepted, details, foremost, pasted, remarks, slight, summary
from bench.report.markdown import literal


def markdown(verdict: Verdict, acknowledged: str) -> str:
    """A section with a heading; `acknowledged` names the file to acknowledge shifts in. Ends with a line break."""
    title = "regression" if verdict.red else "no regression"
    return "\n\n".join([f"## Nightly: {title}", literal(summary(verdict)) + ".", *_parts(verdict, acknowledged)]) + "\n"


def _parts(verdict: Verdict, acknowledged: str) -> Iterator[str]:
    worst = foremost(verdict.regressions)
    yield from _list("Regressions", worst, with_details=True)
    if verdict.red:
        tables = "\n\n".join(pasted(each.finding) for each in worst[:SHOWN_LINES])
        head = "<details><summary>To accept a regression</summary>"
        how = f"put its table into {literal(acknowledged)}, with the reason:"
        yield f"{head}\n\n{how}\n\n```toml\n{tables}\n```\n\n</details>"
    yield from _list("Suspected", foremost(verdict.suspected), with_details=True)
    yield from _list("Slightly worse", slight(verdict))
    for title, these in (
        ("Improved", verdict.improvements),
        ("Recovered", verdict.recovered),
        ("Accepted", verdict.acknowledged),
    ):
        yield from _list(title, [each for each in these if each.recent])
    lines = [*remarks(verdict)]
    if lines:
        yield "### Also"
        yield "\n".join(_some([f"- Note: {literal(line)}" for line in lines]))


def _list(title: str, these: Sequence[Told], with_details: bool = False) -> Iterator[str]:
    if these:
        yield f"### {title}"
        yield "\n".join(_some(["\n".join(_item(each, with_details)) for each in these]))


def _item(told: Told, with_details: bool) -> Iterator[str]:
    yield f"- Cell {literal(accepted(told))}"
    if with_details:
        yield from (f"  - {literal(line)}" for line in details(told))


def _some(items: Sequence[str]) -> list[str]:
    more = len(items) - SHOWN_LINES
    return [*items[:SHOWN_LINES], *([f"- {more} more, in the document of --json"] if more > 0 else [])]
