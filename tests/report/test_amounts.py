"""Values in a claim's unit."""

from judgements import claim

from bench.report.amounts import amount, amount_of, number_in, room, unit_name, with_unit
from bench.report.language import speaking


def test_values_are_told_in_the_unit_of_the_claim() -> None:
    assert amount(claim(), 18e9).split() == ["18.0", "GB"]
    assert amount(claim(unit="GB per 1B"), 16.0).startswith("16.0")
    assert amount(claim(unit="×"), 8.9) == "8.90×"
    assert amount(claim(unit=None), 3.0) == "3.00"


def test_a_quantity_is_told_in_its_own_unit() -> None:
    assert amount_of("tokens_per_s", 1520.0) == "1,520 tokens/s"
    assert amount_of("peak_bytes", 6e9) == "6.00 GB"


def test_less_than_nothing_free_is_lacking() -> None:
    assert [room(share) for share in (0.35, 0.0, -0.35)] == ["35% free", "0% free", "lacks 35%"]
    with speaking("fr"):
        assert room(-0.35).startswith("manque")


def test_what_is_no_number_is_not_told() -> None:
    assert amount(claim(), float("inf")) == amount(claim(), float("nan")) == ""


def test_a_share_is_told_in_percent() -> None:
    assert number_in(claim(unit="%"), 0.75) == "75.0"


def test_units_are_the_languages_own() -> None:
    with speaking("fr"):
        assert unit_name("GB") == "Go"
        assert with_unit(claim(), "18,0").endswith("Go")
    assert unit_name("parsec") == "parsec"
