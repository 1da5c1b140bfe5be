"""What the benchmarks of the harness's own cost found, as a table at the end of the session (for the README)."""

from __future__ import annotations

from typing import Any

import pytest

COSTS: list[tuple[str, str]] = []
"""Rows of the table: what was compared, and what came out."""


@pytest.fixture
def cost() -> list[tuple[str, str]]:
    """Append (what, figure) to it; the table is printed at the end of the session."""
    return COSTS


def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    """Of the processor what stays the same: its clock of the moment would be told as another machine each time."""
    machine_info["cpu"] = {name: machine_info["cpu"].get(name) for name in ("arch", "brand_raw", "count")}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if COSTS:
        terminalreporter.section("the harness's own cost")
        terminalreporter.write_line("| what | measured |\n|---|---|")
        for what, figure in COSTS:
            terminalreporter.write_line(f"| {what} | {figure} |")
