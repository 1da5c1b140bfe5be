"""A matplotlib figure as SVG text that may stand inside a page.

In: a figure, a name of its own, a title and a description. Out: the same bytes every time, also where a layout that is computed
in parallel differs in its last digits: ids are numbers in the order of their appearance (matplotlib's are hashes of unrounded
bounds), and coordinates are rounded to a hundredth of a point. Ids begin with the figure's name, so that several figures share
a page; declarations stand in attributes, not in styles, so that the page's content security
policy need not allow inline styles; nothing points outside; title and description serve those who do not see it.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

FONT = "DejaVu Sans"
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "path",  # drawn the same with any fonts, or none
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "font.family": [FONT],  # comes with matplotlib
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titley": 1.0,  # nothing stands above a panel that its title would have to give way to
    "axes.edgecolor": "#9aa0a6",
    "axes.linewidth": 0.8,
    "grid.color": "#e3e6e8",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "xtick.color": "#3c4043",
    "ytick.color": "#3c4043",
    "legend.frameon": False,
    "figure.facecolor": "white",
}

MARGIN_IN = 0.12


@contextmanager
def drawing(name: str) -> Iterator[None]:
    """The settings under which a figure of that name is both drawn and written, whatever the user's own may be."""
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # drawn as a box; the tables have the character itself
        mpl.rcdefaults()
        mpl.rcParams.update({**_SETTINGS, "svg.hashsalt": name})
        yield


def to_svg(figure: Figure, name: str, title: str, description: str) -> str:
    """The figure as one `<svg>` element. To be called within `drawing(name)`."""
    text = _drawn(figure)
    body = text[text.index(">", text.index("<svg")) + 1 :]
    for pattern in (r"<!--.*?-->", r"<metadata>.*?</metadata>", r"<style[^>]*>.*?</style>", r"<defs>\s*</defs>"):
        body = re.sub(pattern, "", body, flags=re.DOTALL)
    body = re.sub(r' style="([^"]*)"', lambda found: _attributes(found[1]), body)
    body = re.sub(r"\s*\n\s*", "\n", rounded(numbered(body, name)))
    return _head(text, name, title, description) + body.strip() + "\n"


def _drawn(figure: Figure) -> str:
    """What matplotlib makes of it, cut to what is on it.

    As `bbox_inches="tight"` does, but that one draws a figure twice, the first time only to lay it out.
    """
    FigureCanvasSVG(figure)  # texts are measured as this format draws them
    figure.set_dpi(FigureCanvasSVG.fixed_dpi)
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine(None)
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", bbox_inches=figure.get_tightbbox().padded(MARGIN_IN), metadata=nothing)
    return buffer.getvalue()


def numbered(svg: str, name: str) -> str:
    """The SVG with its ids as `name-1`, `name-2`, … in the order in which they first appear, and every reference to them so."""
    numbers: dict[str, str] = {}
    pattern = r"""(\sid=|\s(?:xlink:)?href=|url\()(["']?)(#?)([^"')]+)"""

    def renamed(found: re.Match[str]) -> str:
        place, quote, mark, identity = found.groups()
        if not mark and "id=" not in place:
            return found[0]  # leads elsewhere
        new = numbers.setdefault(identity, f"{name}-{len(numbers) + 1}")
        return f"{place.replace('xlink:', '')}{quote}{mark}{new}"

    return re.sub(pattern, renamed, svg)


def rounded(svg: str) -> str:
    """The SVG with its numbers at two decimals; factors of scale, which multiply what is drawn in larger units, stay.

    A zero has no sign: matplotlib writes -0 for what is below zero by its last digit alone.
    """
    numbers = r"scale\([^)]*\)|-?\d+\.\d+|(?<!\w)-0(?![\w.])"
    return re.sub(numbers, lambda found: found[0] if found[0][0] == "s" else _two_decimals(found[0]), svg)


def _two_decimals(number: str) -> str:
    text = f"{float(number):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _head(text: str, name: str, title: str, description: str) -> str:
    found = re.search(r'viewBox="[-\d. ]+"', text)
    assert found, "matplotlib always writes a viewBox"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {rounded(found[0])} role="img" stroke-linejoin="round" stroke-linecap="butt"'
        f' aria-labelledby="{name}-title {name}-description">\n'
        f'<title id="{name}-title">{escape(title)}</title>\n<desc id="{name}-description">{escape(description)}</desc>'
    )


def _attributes(style: str) -> str:
    pairs = [declaration.partition(":") for declaration in style.split(";") if declaration.strip()]
    return "".join(f' {key.strip()}="{value.strip()}"' for key, _, value in pairs)
