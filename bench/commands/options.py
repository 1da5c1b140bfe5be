"""What several commands take: the suite, the folders, limits on memory, and the machine that is meant.

In: click's declarations. Out: decorators for commands; and the machine that `--machine` and `--machine-name` name.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.quantities import MemoryShare, Night, Size

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from bench.record import Machine

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


class SuiteName(click.ParamType[str]):
    """The path of a suite file, or the name of one in suites/."""

    name = "suite"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names = sorted(path.stem for path in Path("suites").glob("*.toml"))
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def folder_option(name: str, default: str, text: str) -> Decorator:
    """An option that takes a folder."""
    kind = click.Path(path_type=Path, file_okay=False)
    return click.option(name, type=kind, default=Path(default), show_default=True, help=text)


def _appendable(ctx: click.Context, param: click.Parameter, file: Path | None) -> Path | None:
    """Refused before anything is read or measured, where no file can be made at its place."""
    from bench.reading.strict import printable

    if file is not None and not file.parent.is_dir():
        raise click.BadParameter(f"{printable(str(file.parent))} is no folder; make it first", ctx, param)
    if file is not None and not file.exists() and not os.access(file.parent, os.W_OK):
        raise click.BadParameter(f"{printable(str(file.parent))} cannot be written to", ctx, param)
    return file


markdown_option = click.option(
    "--markdown",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    callback=_appendable,
    metavar="FILE",
    help="Append the verdict to this file as Markdown, as for $GITHUB_STEP_SUMMARY.",
)
results_option = folder_option("--results", "results", "Folder of the Parquet files.")
only_option = click.option("--only", metavar="GLOB", help="Only cells whose id matches, e.g. 'llama-3.1-8b/*'; & joins globs.")
repeats_option = click.option("--repeats", type=click.IntRange(1, 1000), help="Runs wanted per cell, instead of the suite's.")
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output, nothing else.")
machine_option = click.option("--machine-name", metavar="NAME", help="Call this machine so, whatever its hardware matches.")
try_anyway_option = click.option("--try-anyway", is_flag=True, help="Don't skip what is predicted not to fit.")
night_option = click.option(
    "--night", type=Night(), metavar="DATE", help="Count and make the runs of this night alone, e.g. 2026-11-30 (UTC)."
)

memory_limit_option = click.option(
    "--memory-limit", type=Size(), metavar="SIZE", help="Hold every run to this much memory, e.g. 24GB or 22GiB."
)
memory_like_option = click.option(
    "--memory-like", metavar="MACHINE", help="Hold every run to what this machine of the catalogue has: shows fit."
)
memory_watchdog_option = click.option(
    "--memory-watchdog",
    type=MemoryShare(),
    default="95%",
    show_default=True,
    metavar="SHARE",
    help="End a run on unified memory or the CPU when more of the computer's memory is in use; off lets it swap.",
)


def asked_machine(name: str | None = None, profile: str | None = None) -> Machine:
    """This machine, under a name given or found; or a machine of the catalogue."""
    from bench import machine

    return machine.this_machine(name) if profile is None else machine.catalogue_machine(profile)
