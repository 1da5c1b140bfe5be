"""A cell is measured in the environment that it belongs to, a ladder whole in the one that has all its rungs."""

import pytest

from bench.nox_sessions.stacks import ENVIRONMENTS, LADDER, LESSON, NIGHTS, SMOKE, only, wanted


@pytest.mark.parametrize(
    ("name", "suite", "asked", "expected"),
    [
        ("cuda", LESSON, None, ["--only", "*/hf@cuda*"]),
        ("cuda", LESSON, "8b/*", ["--only", "8b/*&*/hf@cuda*"]),
        ("cuda-unsloth", LADDER, None, []),
        ("cuda-unsloth", LADDER, "8b/*", ["--only", "8b/*"]),
        ("cpu", SMOKE, None, []),
    ],
)
def test_which_cells(name: str, suite: str, asked: str | None, expected: list[str]) -> None:
    assert only(asked, suite, ENVIRONMENTS[name]) == expected


def test_a_ladder_is_wanted_in_its_own_environment_alone() -> None:
    assert [name for name, each in ENVIRONMENTS.items() if wanted(each, [LADDER])] == ["cuda-unsloth"]
    assert all(wanted(each, ["mine.toml"]) and wanted(each, []) for each in ENVIRONMENTS.values())


def test_nights_are_of_environments_of_that_machine() -> None:
    assert all(ENVIRONMENTS[name].kind == kind for kind, (_, names) in NIGHTS.items() for name in names)
