"""Whether the report that a repository keeps still says what its results say.

In: a results folder and the folder of a report that was written before. Out: nothing, or one message that names the files that
would be written otherwise today. The page itself is left out: it holds the same as its Markdown twin and the figures, and git
ignores it. Of a figure its title and its text alternative count, since another release of matplotlib draws the same otherwise;
all values of the figures stand in the tables of the twin.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.reading.strict import printable
from bench.report.document import FIGURES
from bench.report.page import write
from bench.spec import BadInput

PAGE = "lesson.html"
DESCRIBED = b"</desc>"


def refuse_stale(results: Path, out: Path, language: str = "en", own: Path | None = None) -> None:
    """Raises BadInput naming what is stale or missing, or stands there and would not be written; else as `page.write` does."""
    with TemporaryDirectory() as name:
        fresh = Path(name)
        write(results, fresh, language, own_claims=own)
        stale = sorted(_stale(out, fresh))
    if stale:
        where = printable(str(out))
        raise BadInput(
            f"{where}: not what {printable(str(results))} says today: {', '.join(stale)}; `wingspan report --results"
            f" {printable(str(results))} --out {where}` writes it anew"
        )


def _stale(out: Path, fresh: Path) -> Iterator[str]:
    names = [path.relative_to(fresh).as_posix() for path in fresh.rglob("*") if path.is_file()]
    yield from (name for name in names if name != PAGE and _content(out / name) != _content(fresh / name))
    due = {f"figures/{name}.svg" for name in FIGURES} - set(names)
    yield from (name for name in due if (out / name).exists())


def _content(path: Path) -> bytes | None:
    """What counts of a file; None where there is none."""
    content = path.read_bytes() if path.is_file() else None
    return content if content is None or path.suffix != ".svg" else content[: content.find(DESCRIBED)].partition(b"<title")[2]
