"""The report by command: what it says where results are absent or damaged, and the README's table."""

from collections.abc import Callable
from pathlib import Path

from commanded import wingspan


def test_a_results_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    reported = wingspan("report", "--results", tmp_path / "typo", "--out", tmp_path / "out")
    assert reported.exit_code == 0
    assert f"{tmp_path / 'typo'}: no such folder, so no runs are reported" in reported.stderr


def test_a_readme_is_spliced_and_checked(tmp_path: Path) -> None:
    path, results = tmp_path / "README.md", tmp_path / "results"
    results.mkdir()
    path.write_text("<!-- verdicts -->\n<!-- /verdicts -->\n")
    usual = ("report", "--results", results, "--out", tmp_path / "out", "--readme", path)
    stale = wingspan(*usual, "--check")
    assert (stale.exit_code, "is stale" in stale.stderr, path.read_text().count("|")) == (2, True, 0)
    assert wingspan(*usual).exit_code == 0
    assert "| speed.ratio |" in path.read_text()
    fresh = wingspan(*usual, "--check")
    assert (fresh.exit_code, fresh.stdout, fresh.stderr) == (0, "", "")


def test_a_kept_report_is_checked(tmp_path: Path) -> None:
    usual = ("report", "--results", tmp_path / "results", "--out", tmp_path / "out")
    stale = wingspan(*usual, "--check")
    assert (stale.exit_code, "lesson.md; `wingspan report" in stale.stderr, (tmp_path / "out").exists()) == (2, True, False)
    assert wingspan(*usual).exit_code == 0
    assert wingspan(*usual, "--check").exit_code == 0


def test_damaged_results_exit_4_and_the_rest_is_reported(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "out"
    wingspan("run", write_suite({"a": {}, "b": {}}), "--results", results)
    victim = next((results / "runs").rglob("*.parquet"))
    victim.write_bytes(victim.read_bytes()[:100])
    reported = wingspan("report", "--results", results, "--out", out)
    assert reported.exit_code == 4
    assert victim.name in reported.stderr
    assert (out / "lesson.html").exists()
    assert list((results / "quarantine").iterdir())
