"""The nightly workflow runs on a schedule and by hand alone, lets one small job write, and stores results even of a red night."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
NOT_CANCELLED = "${{ !cancelled() }}"
PINNED = re.compile(r"actions/[a-z-]+@[0-9a-f]{40}")


def read(path: Path) -> dict[str, Any]:
    """A workflow; YAML 1.1 takes the key `on` for true."""
    content = yaml.safe_load(path.read_text())
    return {"on" if key is True else key: value for key, value in content.items()}


@pytest.fixture(scope="module")
def nightly() -> dict[str, Any]:
    return read(ROOT / ".github" / "workflows" / "nightly.yml")


def steps(job: dict[str, Any], action: str) -> list[dict[str, Any]]:
    return [step for step in job["steps"] if step.get("uses", "").startswith(f"actions/{action}@")]


def commands(job: dict[str, Any]) -> str:
    return "\n".join(step.get("run", "") for step in job["steps"])


def test_it_runs_at_night_and_by_hand_and_never_for_a_pull_request(nightly):
    assert set(nightly["on"]) == {"schedule", "workflow_dispatch"}
    (when,) = nightly["on"]["schedule"]
    assert re.fullmatch(r"\d+ \d+ \* \* \*", when["cron"])
    text = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
    assert "pull_request" not in text


def test_the_two_machines_are_runners_of_ones_own(nightly):
    measure = nightly["jobs"]["measure"]
    assert measure["runs-on"] == ["self-hosted", "${{ matrix.runner }}"]
    assert [each["runner"] for each in measure["strategy"]["matrix"]["include"]] == ["mac-studio", "rtx-4090"]
    assert measure["strategy"]["fail-fast"] is False, "one machine's red night must not end the other's"
    others = [job["runs-on"] for name, job in nightly["jobs"].items() if name != "measure"]
    assert others == ["ubuntu-latest", "ubuntu-latest"]


def test_one_night_at_a_time_and_none_for_ever(nightly):
    assert nightly["concurrency"] == {"group": "nightly", "cancel-in-progress": False}
    assert all(0 < job["timeout-minutes"] <= 300 for job in nightly["jobs"].values())


def test_only_the_job_that_pushes_results_may_write_and_it_runs_git_alone(nightly):
    assert nightly["permissions"] == {"contents": "read"}
    writing = {name: job["permissions"] for name, job in nightly["jobs"].items() if "permissions" in job}
    assert writing == {"store": {"contents": "write"}}
    store = nightly["jobs"]["store"]
    assert all(line.strip().startswith("git ") for line in commands(store).splitlines() if line)
    assert "git push --quiet origin HEAD:nights" in commands(store)
    assert all("git push" not in commands(job) for name, job in nightly["jobs"].items() if name != "store")


def test_no_other_job_keeps_a_token(nightly):
    for name, job in nightly["jobs"].items():
        kept = [step.get("with", {}).get("persist-credentials", True) for step in steps(job, "checkout")]
        assert kept == ([True] if name == "store" else [False, False])
    text = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
    assert "secrets." not in text
    assert "github.token" not in text


def test_the_history_is_restored_from_the_branch_it_goes_to(nightly):
    refs = {name: [step["with"].get("ref") for step in steps(job, "checkout")] for name, job in nightly["jobs"].items()}
    assert refs == {"measure": [None, "nights"], "merge": [None, "nights"], "store": ["nights"]}
    (night,) = [step for step in nightly["jobs"]["measure"]["steps"] if "nox" in step.get("run", "")]
    assert "--results history/results" in night["run"]
    assert '--markdown "$GITHUB_STEP_SUMMARY"' in night["run"]


def test_a_red_night_is_red_and_stored_all_the_same(nightly):
    jobs = nightly["jobs"]
    assert not any("continue-on-error" in each for job in jobs.values() for each in (job, *job["steps"]))
    for name in ("measure", "merge"):
        uploads = steps(jobs[name], "upload-artifact")
        assert uploads
        assert all(step["if"] == NOT_CANCELLED for step in uploads)
    assert (jobs["merge"]["if"], jobs["merge"]["needs"]) == (NOT_CANCELLED, "measure")
    assert (jobs["store"]["if"], jobs["store"]["needs"]) == (NOT_CANCELLED, "merge")


def test_both_machines_results_are_merged_reported_and_pushed(nightly):
    jobs = nightly["jobs"]
    (uploaded,) = (step["with"] for step in steps(jobs["measure"], "upload-artifact"))
    assert uploaded["name"] == "results-${{ matrix.runner }}"
    (taken,) = (step["with"] for step in steps(jobs["merge"], "download-artifact"))
    assert taken["pattern"] == "results-*"
    assert "wingspan merge incoming/results-* --results history/results" in commands(jobs["merge"])
    assert "wingspan export asv --results history/results --html pages/asv" in commands(jobs["merge"])
    given = {step["with"]["name"]: step["with"]["path"] for step in steps(jobs["merge"], "upload-artifact")}
    assert given["report"] == "pages"
    assert "!history/results/acknowledged.toml" in given["merged"], "edited by people, meanwhile perhaps"
    (stored,) = (step["with"] for step in steps(jobs["store"], "download-artifact"))
    assert stored == {"name": "merged", "path": "results"}


def test_a_machine_hands_in_its_own_locks_alone(nightly):
    """It has the other's from the history, which may be older than what the other hands in."""
    measure = nightly["jobs"]["measure"]
    (uploaded,) = (step["with"]["path"].splitlines() for step in steps(measure, "upload-artifact"))
    assert uploaded[0] == "history/results/**"
    assert uploaded.index("!history/results/locks/**") < uploaded.index("history/results/locks/*-${{ matrix.system }}-*")
    assert [each["system"] for each in measure["strategy"]["matrix"]["include"]] == ["darwin", "linux"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_and_nothing_said_from_outside_reaches_a_shell(path):
    jobs = read(path)["jobs"].values()
    used = [step["uses"] for job in jobs for step in job["steps"] if "uses" in step]
    assert used
    assert all(PINNED.fullmatch(each) for each in used)
    assert all("${{" not in step.get("run", "") for job in jobs for step in job["steps"])
    assert "github.event." not in path.read_text()
