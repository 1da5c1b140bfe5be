"""What becomes of a matplotlib figure on its way into a page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from bench.report.figures.svg import drawing, numbered, rounded, to_svg

SVG = "{http://www.w3.org/2000/svg}"


def draw(name: str = "one", label: str = "label", title: str = "title") -> str:
    with drawing(name):
        figure = Figure()
        ax = figure.subplots()
        ax.plot([1, 2], [3, 4], marker="o", ls="--", alpha=0.5)
        ax.set_title(label)
        return to_svg(figure, name, title, "description")


def test_the_same_figure_gives_the_same_bytes_whatever_the_settings() -> None:
    first = draw()
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "black", "svg.fonttype": "none"}):
        assert draw() == first


def test_ids_begin_with_the_name_and_references_resolve() -> None:
    svg = draw("one")
    ids = re.findall(r'\sid="([^"]*)"', svg)
    references = re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', svg)
    assert len(ids) > 5
    assert len(references) > 5
    assert len(ids) == len(set(ids))
    assert all(identity.startswith("one-") for identity in ids)
    assert {a or b for a, b in references} <= set(ids)


def test_ids_are_numbers_in_the_order_of_their_appearance_and_references_follow() -> None:
    crafted = (
        '<g id="axes" clip-path="url(#p75eada4eb1)"><use xlink:href="#m1" x="1"/><use href="#m1"/></g>'
        '<defs><path id="m1"/><clipPath id="p75eada4eb1"><rect/></clipPath></defs><a href="elsewhere"/>'
        "<b clip-path=\"url('#m1')\"/>"
    )
    assert numbered(crafted, "f") == (
        '<g id="f-1" clip-path="url(#f-2)"><use href="#f-3" x="1"/><use href="#f-3"/></g>'
        '<defs><path id="f-3"/><clipPath id="f-2"><rect/></clipPath></defs><a href="elsewhere"/><b clip-path="url(\'#f-3\')"/>'
    )
    assert numbered(crafted.replace("p75eada4eb1", "pfb082b5b61"), "f") == numbered(crafted, "f")


def test_coordinates_are_rounded_and_factors_of_scale_are_not() -> None:
    scale = "scale(0.015625 -0.015625)"
    path = f'<g transform="translate(1.23456 -0.001) {scale}"><path d="M 10.0000001 9.9999999 L 3 4.1" opacity="0.75"/></g>'
    assert rounded(path) == f'<g transform="translate(1.23 0) {scale}"><path d="M 10 10 L 3 4.1" opacity="0.75"/></g>'


def test_a_zero_has_no_sign() -> None:
    assert rounded('<path d="M -0 492.43 L -0 -0.004 L -0.2 10"/>') == '<path d="M 0 492.43 L 0 0 L -0.2 10"/>'
    assert rounded('<a id="f-0" x="-01"/>') == '<a id="f-0" x="-01"/>'


def test_bounds_that_differ_in_their_last_digit_give_the_same_bytes() -> None:
    def picture(noise: float) -> str:
        with drawing("one"):
            figure = Figure()
            ax = figure.add_axes((0.1, 0.1 + noise, 0.8 - noise, 0.8))
            ax.plot([1, 2], [3, 4 + noise], marker="o")
            return to_svg(figure, "one", "title", "description")

    assert picture(1e-12) == picture(0) == picture(-1e-12)


def test_two_figures_share_no_id() -> None:
    first, second = (set(re.findall(r'\sid="([^"]*)"', draw(name))) for name in ("one", "two"))
    assert not first & second


def test_no_style_no_comment_no_metadata_nothing_outside() -> None:
    svg = draw()
    root = ElementTree.fromstring(svg)
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags <= {"svg", "title", "desc", "defs", "g", "path", "use", "clipPath", "rect"}
    assert not any("style" in element.attrib for element in root.iter())
    assert "<!--" not in svg
    assert re.findall(r"https?://[^\"]*", svg) == ["http://www.w3.org/2000/svg"]


def test_what_styles_declared_is_still_declared() -> None:
    assert 'stroke-dasharray="' in draw()
    assert 'stroke="#1f77b4"' in draw()


def test_the_alternative_text_is_there_and_escaped() -> None:
    root = ElementTree.fromstring(draw(title="<script>a & b</script>"))
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"] == "one-title one-description"
    assert root.findtext(f"{SVG}title") == "<script>a & b</script>"
    assert root.findtext(f"{SVG}desc") == "description"


def test_labels_are_outlines_and_can_start_nothing() -> None:
    hostile = '<script>alert(1)</script> $\\frac{1}$ --> " style="x" id="y" url(#z)'
    svg = draw(label=hostile)
    ElementTree.fromstring(svg)
    assert "alert" not in svg
    assert "<script" not in svg


def test_characters_that_the_font_lacks_are_no_reason_to_warn(recwarn: pytest.WarningsRecorder) -> None:
    draw(label="模型")
    assert not recwarn
