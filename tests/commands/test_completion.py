"""Completion: the scripts, and what a shell is offered."""

import os
import subprocess
import sys

import pytest
from commanded import wingspan


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    done = wingspan("completion", shell)
    assert done.exit_code == 0
    assert "_WINGSPAN_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("words", "offered"),
    [("wingspan cal", "plain,calibrate"), ("wingspan run smo", "plain,smoke"), ("wingspan plan --rep", "plain,--repeats")],
    ids=["a command", "a suite", "an option"],
)
def test_a_shell_is_offered_what_fits(words: str, offered: str) -> None:
    asked = {"_WINGSPAN_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    code = "import sys; from bench.cli import main; sys.argv[0] = 'wingspan'; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.splitlines() == [offered]


def test_nothing_is_offered_after_what_is_no_command() -> None:
    asked = {"_WINGSPAN_COMPLETE": "bash_complete", "COMP_WORDS": "wingspan pln --", "COMP_CWORD": "2"}
    code = "import sys; from bench.cli import main; sys.argv[0] = 'wingspan'; main()"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
