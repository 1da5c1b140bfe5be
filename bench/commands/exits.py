"""How a command ends: exit codes, and one clear message instead of a traceback.

In: an error that the user can mend, or stored files that could not be read. Out: a message on standard error and an exit code.
0 means done; 1 a regression; 2 usage or bad input; 3 a cell that failed; 4 results tainted, partly unreadable or not to be
written; 70 a fault of Wingspan's own (sysexits.h calls it EX_SOFTWARE), of which a traceback tells: Python's own code for that
is 1; 75 another sweep holds the machine; 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

EXIT_REGRESSION, EXIT_BAD_INPUT, EXIT_TAINTED, EXIT_OWN_FAULT, EXIT_BUSY, EXIT_INTERRUPTED = 1, 2, 4, 70, 75, 130


class Regressed(SystemExit):
    """Raise it to leave with 1, a confirmed regression: told by its type from click's own 1, which it uses for a closed pipe."""

    def __init__(self) -> None:
        super().__init__(EXIT_REGRESSION)


@contextmanager
def bad_input() -> Iterator[None]:
    """Turn what the user can mend into one clear message and its exit code, never a traceback."""
    from bench.spec import BadInput
    from bench.sweep.lock import MachineBusy

    try:
        yield
    except BadInput as error:
        fail(str(error), EXIT_BAD_INPUT)
    except MachineBusy as error:
        fail(str(error), EXIT_BUSY)
    except KeyboardInterrupt:
        fail("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:  # whoever read our output has seen enough; click ends quietly
        raise
    except OSError as error:
        fail(f"{error.filename or 'file system'}: {error.strerror or error}", EXIT_TAINTED)


def fail(message: str, code: int) -> NoReturn:
    """Say what is wrong, and leave."""
    click.echo(message, err=True)
    sys.exit(code)


def end(damaged: Iterable[object]) -> None:
    """Name the stored files that could not be read, and leave with the fitting code."""
    lines = [str(each) for each in damaged]
    for line in lines:
        click.echo(line, err=True)
    sys.exit(EXIT_TAINTED if lines else 0)
