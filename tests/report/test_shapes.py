"""Sentences known by their shape."""

from bench.report.language import digits, speaking
from bench.report.shapes import by_shape

TEXTS = ("measured requests", "{fits}, {room}")


def test_the_first_text_whose_shape_it_has_is_said_in_the_language() -> None:
    assert by_shape("measured requests", TEXTS, {}) == "measured requests"
    with speaking("fr"):
        assert by_shape("measured requests", TEXTS, {}) == "requêtes mesurées"


def test_what_stands_in_a_place_is_said_as_places_say() -> None:
    with speaking("fr"):
        assert by_shape("1.5, much", TEXTS, {"fits": digits}) == "1,5, much"


def test_a_sentence_of_no_shape_is_none() -> None:
    assert by_shape("measured requests and more", TEXTS[:1], {}) is None
    assert by_shape("a.b", ("a{x}c",), {}) is None
