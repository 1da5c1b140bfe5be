"""The command line, called within the test's own process or started as one of its own."""

import subprocess
import sys
from typing import Any

from click.testing import CliRunner, Result

from bench.cli import cli


def wingspan(*arguments: object) -> Result:
    """What `wingspan` with these arguments says, and its exit code."""
    return CliRunner().invoke(cli, [str(each) for each in arguments], catch_exceptions=False)


def started(*arguments: object, **streams: Any) -> "subprocess.Popen[str]":
    """A process of `wingspan` with these arguments; `streams` as of `Popen`."""
    command = [sys.executable, "-m", "bench", *(str(each) for each in arguments)]
    return subprocess.Popen(command, text=True, **streams)
