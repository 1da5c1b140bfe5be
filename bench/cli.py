"""The command line: the whole story on one screen.

In: arguments. Out: an exit code (0 done, 1 a regression, 2 usage or bad input, 3 a cell failed, 4 results tainted or partly
unreadable, 70 a fault of Wingspan's own, 75 another sweep holds the machine, 130 interrupted); with `--json` one JSON document on
standard output and nothing else. Messages and progress go to standard error. Each command is a file in `bench.commands`, loaded
when it is called.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from types import FrameType

import click

from bench.commands.exits import EXIT_INTERRUPTED, EXIT_OWN_FAULT, EXIT_REGRESSION, EXIT_TAINTED, Regressed

COMMANDS = {
    "doctor": "What this machine is, what works here, what doesn't, and why.",
    "plan": "What a suite would measure here, what is skipped and why.",
    "predict": "What a model and method need on a machine, and how fast.",
    "frontier": "The largest sequence, batch and model that fit.",
    "run": "Measure a suite here; the same command again goes on.",
    "report": "Write down what holds: HTML, Markdown and figures.",
    "nightly": "One night: measure, judge, publish.",
    "regress": "What got slower, hungrier or hotter, and since which night.",
    "claims": "Every claim with its verdict and the evidence for it.",
    "advise": "Which machine should train this: fit, time, energy, money.",
    "calibrate": "Fit the predictor, and write down how well it predicts.",
    "compact": "Put many small result files into few larger ones.",
    "merge": "Copy the runs of other results folders into one.",
    "export": "The stored runs for other tools: csv, pytest-benchmark, asv.",
    "completion": "Print a shell's completion script.",
}
"""A row per command: its name, which is its module's and its function's in `bench.commands`, and its line in `--help`."""


class Story(click.Group):
    """The commands of the table, each loaded when it is called; help needs the table alone."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            found: click.Command = getattr(import_module(f"bench.commands.{cmd_name}"), cmd_name)
            return found
        if ctx.resilient_parsing:  # a shell asks for completions of what is not yet a command
            return None
        raise click.NoSuchCommand(cmd_name, possibilities=COMMANDS, ctx=ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])


@click.group(cls=Story, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="wingspan")
def cli() -> None:
    """Put machines on trial: which language models can each fine-tune, how fast, in how much memory, at how many watts?"""


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Outside a sweep nothing is at stake: files appear whole or not at all. So leave at once, whatever is being imported."""
    os.write(2, b"interrupted\n")
    os._exit(EXIT_INTERRUPTED)


def main() -> None:
    """The console script."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    try:
        cli(prog_name="wingspan")
    except OSError as error:  # what is to be said cannot be written: a full disk
        os.write(2, f"the output cannot be written: {error.strerror}\n".encode())
        os._exit(EXIT_TAINTED)
    except SystemExit as leaving:
        if leaving.code == EXIT_REGRESSION and not isinstance(leaving, Regressed):
            os._exit(EXIT_TAINTED)  # click's code for a closed pipe, which is no regression
        raise
    except Exception as error:  # Python would tell it the same way, and leave with 1, as if it had found a regression
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(EXIT_OWN_FAULT)
    finally:  # all is said: Python would put the default back while it ends, and a signal in that moment would be the exit code
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
