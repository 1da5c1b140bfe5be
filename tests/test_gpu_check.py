"""docs/gpu-check.md: its commands are commands, its suites plan on a card, and nothing on the card asks for a network."""

import re
import shlex
from pathlib import Path

import click
import pytest

from bench.cli import cli
from bench.holes import refusal
from bench.machine import catalogue_machine, machine_profiles
from bench.plan import plan
from bench.suite import read_suite

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "gpu-check.md").read_text()
COMMANDS = re.findall(r"^    (\.venv\S*/bin/wingspan .+)$", TEXT, re.MULTILINE)
RUNS = [command for command in COMMANDS if " run " in command]


def options_of(command: str) -> dict:
    """The command line as click reads it. Raises click.UsageError for one that it would refuse."""
    _, name, *arguments = shlex.split(command)
    command_of = cli.get_command(click.Context(cli), name)
    assert command_of is not None
    return command_of.make_context(name, list(arguments)).params


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_one(command):
    assert options_of(command) is not None


def test_there_are_runs_with_and_without_a_limit_and_all_are_bounded():
    asked = [options_of(command) for command in RUNS]
    assert [each["memory_like"] for each in asked] == [None, "pc-rtx-4090", None]
    assert sum(each["budget_s"] for each in asked) <= 20 * 60
    assert "pc-rtx-4090" in {profile.name for profile in machine_profiles()}


@pytest.mark.parametrize("command", RUNS)
def test_every_suite_plans_on_a_card_and_no_cell_of_hf_is_refused(command):
    asked = options_of(command)
    suite = read_suite(ROOT / "suites" / f"{asked['suite']}.toml")
    planned = plan(suite, catalogue_machine("h200"), {}, only=asked["only"], repeats=asked["repeats"], capabilities=refusal)
    hf = [entry for entry in planned.entries if entry.cell.backend == "hf"]
    assert {entry.action for entry in hf} == {"run"}
    assert {entry.cell.device for entry in planned.entries} == {"cuda"}
    assert {entry.cell.workload.weights for entry in planned.entries} == {"random"}


def test_the_check_is_planned_within_its_time():
    planned = plan(read_suite(ROOT / "suites" / "gpu-check.toml"), catalogue_machine("h200"), {}, capabilities=refusal)
    assert planned.totals["runs"] == 12
    assert 60 < planned.totals["duration_s"] < 15 * 60


def test_nothing_is_installed_from_a_network_on_the_card():
    on_the_card = TEXT[TEXT.index("## On the card") :]
    installs = [line for line in on_the_card.splitlines() if "pip install" in line]
    assert len(installs) == 2
    assert all("--no-index --find-links wheels" in line for line in installs)
