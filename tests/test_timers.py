"""The timers for those without GitHub: read as launchd and systemd read them, they start the same night at half past two."""

from __future__ import annotations

import configparser
import plistlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

TIMERS = Path(__file__).parents[1] / "docs" / "timers"
NIGHT = ["-s", "nightly", "--", "--upgrade"]


@pytest.fixture(scope="module")
def plist() -> dict[str, Any]:
    with (TIMERS / "org.wingspan.nightly.plist").open("rb") as file:
        return plistlib.load(file)


def unit(name: str) -> configparser.ConfigParser:
    read = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#", ";"))
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read_string((TIMERS / name).read_text())
    return read


def test_launchd_starts_a_night_and_keeps_the_mac_awake_for_it(plist):
    assert plist["StartCalendarInterval"] == {"Hour": 2, "Minute": 30}
    command = plist["ProgramArguments"]
    assert command[0] == "/usr/bin/caffeinate"
    assert command[2:] == [f"{plist['WorkingDirectory']}/.venv/bin/nox", *NIGHT]
    assert "/usr/bin" in plist["EnvironmentVariables"]["PATH"].split(":"), "where git is"
    assert f"{plist['Label']}.plist" == "org.wingspan.nightly.plist"


def test_every_path_of_the_plist_is_absolute_and_has_one_home_to_replace(plist):
    paths = [plist["WorkingDirectory"], plist["StandardOutPath"], plist["StandardErrorPath"], plist["ProgramArguments"][2]]
    assert all(path.startswith("/Users/you/") for path in paths)
    assert "RunAtLoad" not in plist, "a night does not begin when the file is loaded"


def test_systemd_starts_the_same_night_and_makes_up_for_a_missed_one():
    service, timer = unit("wingspan-nightly.service"), unit("wingspan-nightly.timer")
    assert service["Service"]["Type"] == "oneshot"
    assert service["Service"]["ExecStart"].split() == ["%h/wingspan/.venv/bin/nox", *NIGHT]
    assert service["Service"]["WorkingDirectory"] == "%h/wingspan"
    assert "/usr/lib/wsl/lib" in service["Service"]["Environment"]
    assert timer["Timer"] == {"OnCalendar": "*-*-* 02:30:00", "Persistent": "true"}
    assert timer["Install"]["WantedBy"] == "timers.target"


def test_systemd_itself_finds_no_fault(tmp_path):
    """Where it is installed; elsewhere the parser above is what there is."""
    if shutil.which("systemd-analyze") is None:
        return
    nox = tmp_path / "wingspan" / ".venv" / "bin" / "nox"
    nox.parent.mkdir(parents=True)
    nox.write_text("#!/bin/sh\n")
    nox.chmod(0o755)
    for name in ("wingspan-nightly.service", "wingspan-nightly.timer"):
        (tmp_path / name).write_text((TIMERS / name).read_text().replace("%h", str(tmp_path)))
    units = [str(tmp_path / name) for name in ("wingspan-nightly.timer", "wingspan-nightly.service")]
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if str(tmp_path) in line] == []
    calendar = ["systemd-analyze", "calendar", unit("wingspan-nightly.timer")["Timer"]["OnCalendar"]]
    assert subprocess.run(calendar, capture_output=True, check=False).returncode == 0


def test_the_page_about_nights_says_how_to_install_each():
    text = (TIMERS.parent / "nightly.md").read_text()
    for path in TIMERS.iterdir():
        assert path.name in text
