"""Values in a claim's unit."""

from judgements import claim

from bench.report.amounts import amount, number_in, unit_name, with_unit
from bench.report.language import speaking


def test_values_are_told_in_the_unit_of_the_claim() -> None:
    assert amount(claim(), 18e9).split() == ["18.0", "GB"]
    assert amount(claim(unit="GB per 1B"), 16.0).startswith("16.0")
    assert amount(claim(unit="×"), 8.9) == "8.90×"
    assert amount(claim(unit=None), 3.0) == "3.00"


def test_what_is_no_number_is_not_told() -> None:
    assert amount(claim(), float("inf")) == amount(claim(), float("nan")) == ""


def test_a_share_is_told_in_percent() -> None:
    assert number_in(claim(unit="%"), 0.75) == "75.0"


def test_units_are_the_languages_own() -> None:
    with speaking("fr"):
        assert unit_name("GB") == "Go"
        assert with_unit(claim(), "18,0").endswith("Go")
    assert unit_name("parsec") == "parsec"
