"""Silicon and software as a section."""

from advised import MAC, PC

from bench.refine.ratio import Ratio, Split
from bench.report.silicon import ratio_cell, silicon


def ratio(value: float | None, refused: str | None = None) -> Ratio:
    ends = (None, None) if value is None else (value / 1.1, value * 1.1)
    return Ratio(
        work="m/lora", digest="d", above=f"hf@cuda on {PC}", below=f"mlx@metal on {MAC}", value=value, low=ends[0], high=ends[1],
        evidence=("a", "b"), refused=refused,
    )  # fmt: skip


def test_without_control_arms_it_says_which_runs_it_lacks() -> None:
    section = silicon(())
    assert section.tables == ()
    assert "wingspan run controls" in section.texts[-1]


def test_a_ratio_is_taken_apart() -> None:
    split = Split(stack="mlx", total=ratio(6.0), silicon=ratio(5.0), software_first=ratio(1.2), software_second=None)
    table = silicon((split,)).tables[0]
    row = {heading: cell.text for (heading, _), cell in zip(table.columns, table.rows[0], strict=True)}
    assert row["best against best"].startswith("6.00×")
    assert row["silicon"].startswith("5.00×")
    assert row["software"] == "1.20×"
    assert row["it over the second’s best"] == "1×"
    assert row["run ids"] == "a, b"


def test_a_refused_part_has_its_reason_and_no_number() -> None:
    assert ratio_cell(ratio(None, "they were given different tokens")).text == "they were given different tokens"
    split = Split(
        stack="mlx", total=ratio(6.0), silicon=ratio(None, "no"), software_first=ratio(None, "no"), software_second=None
    )
    assert "software" not in [heading for heading, _ in silicon((split,)).tables[0].columns]
