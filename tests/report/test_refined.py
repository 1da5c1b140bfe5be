"""Rules of memory and contradictions as sections."""

import pytest

from bench.catalog import machine_profiles
from bench.claims.reader import CLAIMS, read_claims
from bench.refine.contradictions import contradictions, table_fits
from bench.refine.memory import Group, Row, Rule, rules
from bench.report.document import Section
from bench.report.refined import contradicted, lessons_rule, refined

GROUP = Group("lora", "hf", "cuda", "adamw", True, "predicted")
CLAIMED = read_claims(CLAIMS)


def fitted(noise: float = 0.0) -> tuple[Rule, ...]:
    """1 GB, 2 bytes a parameter and 0.25 MB a token, every other row off by `noise`."""
    return rules(
        Row(GROUP, size, tokens, (1e9 + 2 * size + 2.5e5 * tokens) * (1 + noise * (-1) ** place), str(place))
        for place, (size, tokens) in enumerate(
            (size * 1e9, tokens) for size in (1, 4, 8, 14, 32, 70) for tokens in (512, 2048, 4096)
        )
    )


def rows(section: Section | None, table: int = 0) -> list[dict[str, str]]:
    assert section is not None
    headings = [heading for heading, _ in section.tables[table].columns]
    return [dict(zip(headings, (cell.text for cell in cells), strict=True)) for cells in section.tables[table].rows]


def test_nothing_fitted_makes_no_section() -> None:
    assert refined((), (), ()) is None
    assert contradicted(()) is None


def test_a_line_is_told_with_the_lessons_rule_beside_it() -> None:
    (told,) = rows(refined(fitted(), (), CLAIMED))
    assert (told["method"], told["stack"], told["checkpointing"]) == ("lora", "hf@cuda", "on")
    assert (told["fixed part"], told["GB per 1B parameters"], told["MB per token"]) == ("1.00 GB", "2.00", "0.25")
    assert told["the lesson"] == "2.0–2.5"
    assert told["residuals, typical"] == "0%"
    assert told["rows"] == "18"


def test_intervals_and_residuals_are_told() -> None:
    (told,) = rows(refined(fitted(0.05), (), CLAIMED))
    assert " to " in told["GB per 1B parameters"]
    assert told["largest"].startswith(("+", "-"))
    assert told["residuals, typical"] != "0%"


def test_a_line_that_describes_its_rows_badly_has_no_coefficients() -> None:
    (told,) = rows(refined(fitted(0.5), (), CLAIMED))
    assert told["fixed part"] == "no line describes it"
    assert "GB per 1B parameters" not in told


def level(noise: float, tokens: float = 0.0) -> tuple[Rule, ...]:
    """As `fitted`, of peaks that grow with tokens by so much; noise goes up and down along them."""
    return rules(
        Row(GROUP, size * 1e9, length, (1e9 + 2e9 * size + tokens * length) * (1 + noise * (-1) ** place), f"{size} {length}")
        for size in (1, 4, 8, 14, 32, 70)
        for place, length in enumerate((512, 1024, 2048, 4096))
    )


@pytest.mark.parametrize("noise", [0.0, 0.005])
def test_peaks_that_do_not_grow_with_tokens_are_described_and_it_is_said(noise: float) -> None:
    (told,) = rows(refined(level(noise), (), CLAIMED))
    assert told["MB per token"] == "does not grow with tokens here"
    assert told["fixed part"].startswith(("1.00 GB", "0.9", "1.0"))
    assert told["GB per 1B parameters"].startswith("2.0")


def test_a_slope_that_the_rows_leave_open_is_not_called_none() -> None:
    """The residuals are small, so it is no line that fails, but the rows."""
    (told,) = rows(refined(level(0.1), (), CLAIMED))
    assert told["fixed part"] == "the rows do not tell the slopes"
    assert "MB per token" not in told


def test_lines_through_too_few_rows_are_left_out() -> None:
    assert refined(rules([Row(GROUP, 1e9, 512.0, 3e9)]), (), ()) is None


def test_the_lessons_table_is_fitted_likewise() -> None:
    found = rows(refined(fitted(), table_fits(CLAIMED), CLAIMED), 1)
    assert {each["method"] for each in found} == {"full", "lora", "qlora"}
    assert all("GB per 1B" in each["fixed part with a slope"] for each in found)


def test_the_lessons_rules_are_those_of_the_claims() -> None:
    assert [lessons_rule(method, CLAIMED) for method in ("full", "qlora", "serve")] == ["16–20", "0.60–0.80", ""]


@pytest.fixture(scope="module")
def clashes() -> list[dict[str, str]]:
    return rows(contradicted(contradictions(CLAIMED, machine_profiles())))


def test_a_cell_against_its_rule(clashes: list[dict[str, str]]) -> None:
    clash = next(each for each in clashes if "memory.table.qlora.1b" in each["claims"])
    assert clash["found"].startswith("1.50")
    assert clash["against"] == "0.600 to 0.800 GB per 1B"
    assert clash["within the tolerances"] == "no"


def test_a_winner_although_both_can(clashes: list[dict[str, str]]) -> None:
    clash = next(each for each in clashes if each["what clashes"] == "the other machine fits too, and is said to be faster")
    assert clash["machine"] == "pc-rtx-4090"
    assert clash["found"].endswith("%")
