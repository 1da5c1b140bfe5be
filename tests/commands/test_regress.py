"""The gate by command: exit codes, and where the verdict goes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from commanded import wingspan
from night_rows import night

from bench import store


@pytest.fixture
def nights(tmp_path: Path, make_run):
    """A results folder of one cell at these levels, one run a night."""

    def store_nights(levels) -> Path:
        folder = tmp_path / "results"
        for at, level in enumerate(levels):
            started = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=at)
            store.append(folder, make_run(f"run-{at:02}", night=night(at), started_at=started, tokens_per_s=level))
        return folder

    return store_nights


def test_a_regression_exits_with_1_and_says_where(nights):
    done = wingspan("regress", "--results", nights([100.0] * 9 + [80.0] * 2))
    assert done.exit_code == 1
    assert "REGRESSION   tiny-llama/lora/hf@cpu on box (smoke): tokens_per_s -20.0%" in done.stdout
    assert night(9) in done.stdout


def test_noise_and_a_single_night_exit_with_0(nights):
    done = wingspan("regress", "--results", nights([100.0, 100.5, 99.8, 100.1, 99.9, 100.2, 100.0, 99.7, 80.0]))
    assert (done.exit_code, "suspected" in done.stdout) == (0, True)


def test_pasting_the_table_with_a_reason_turns_it_green(nights):
    results = nights([100.0] * 9 + [80.0] * 2)
    document = json.loads(wingspan("regress", "--results", results, "--json").stdout)
    pasted = document["regressions"][0]["acknowledge"]
    file = results / "acknowledged.toml"
    file.write_text(pasted)
    refused = wingspan("regress", "--results", results)
    assert (refused.exit_code, "acknowledged[0].reason: empty; say why" in refused.stderr) == (2, True)
    file.write_text(pasted.replace('reason = ""', 'reason = "a warmer room"'))
    done = wingspan("regress", "--results", results)
    assert (done.exit_code, "a warmer room" in done.stdout) == (0, True)


def test_json_is_all_that_stands_on_standard_output(nights):
    done = wingspan("regress", "--results", nights([100.0] * 9 + [80.0] * 2), "--json")
    assert (done.exit_code, json.loads(done.stdout)["red"]) == (1, True)


def test_markdown_is_appended(nights, tmp_path: Path):
    file = tmp_path / "summary.md"
    file.write_text("before\n")
    results = nights([100.0] * 9)
    for _ in range(2):
        assert wingspan("regress", "--results", results, "--markdown", file).exit_code == 0
    assert file.read_text().startswith("before\n")
    assert file.read_text().count("## Nightly: no regression") == 2


def test_damaged_files_exit_with_4_and_a_regression_wins(nights):
    results = nights([100.0] * 10 + [80.0] * 2)
    victim = results / "runs" / "machine=box" / "run-00.parquet"
    victim.write_bytes(victim.read_bytes()[:-30])
    red = wingspan("regress", "--results", results)
    assert (red.exit_code, victim.name in red.stderr) == (1, True)
    victim = results / "runs" / "machine=box" / "run-11.parquet"
    victim.write_bytes(victim.read_bytes()[:-30])
    green = wingspan("regress", "--results", results)
    assert (green.exit_code, "suspected" in green.stdout, victim.name in green.stderr) == (4, True, True)


def test_bad_input_exits_with_2(nights, tmp_path: Path):
    assert wingspan("regress", "--results", tmp_path / "none").exit_code == 2
    results = nights([100.0])
    assert wingspan("regress", "--results", results, "--machine", "pc").exit_code == 2
    assert wingspan("regress", "--results", results, "--acknowledged", tmp_path / "none.toml").exit_code == 2


def test_a_summary_that_has_no_folder_is_refused_before_anything_is_read_or_measured(tmp_path: Path):
    for command in ("regress", "nightly"):
        done = wingspan(command, "--results", tmp_path / "none", "--markdown", tmp_path / "no" / "summary.md")
        assert (done.exit_code, done.stdout) == (2, "")
        assert f"{tmp_path / 'no'} is no folder; make it first" in done.stderr
    folder = wingspan("regress", "--results", tmp_path / "none", "--markdown", tmp_path)
    assert (folder.exit_code, "is a directory" in folder.stderr) == (2, True)


@pytest.mark.parametrize(
    ("levels", "code", "verdict"), [([100.0], 4, "0 confirmed"), ([100.0] * 9 + [80.0] * 2, 1, "REGRESSION")]
)
def test_a_summary_that_cannot_be_written_in_the_end_hides_no_verdict(nights, tmp_path: Path, monkeypatch, levels, code, verdict):
    summary, real = tmp_path / "summary.md", Path.open

    def full(path: Path, *arguments, **options):
        if path == summary:
            raise OSError(28, "No space left on device")
        return real(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", full)
    done = wingspan("regress", "--results", nights(levels), "--markdown", summary)
    assert (done.exit_code, verdict in done.stdout, "summary.md: No space left" in done.stderr) == (code, True, True)
