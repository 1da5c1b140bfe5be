"""A child process that looks for named techniques in the packages of this environment.

In: probes as a JSON list on standard input. Out: their findings, in the same order, as JSON: the last line of standard output. It
imports frameworks, so it is a process of its own; where one of them fails to be imported, that is a finding like any other.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from bench.backends.probe_source import Nowhere, default_of, definition, mention
from bench.backends.trials import TRIALS

Found = Literal["yes", "no", "unknown", "untried"]
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How to look for one technique.

    `distributions` must be installed; their versions say of what the finding is true. Then one of: `trial`, a function of
    `bench.backends.trials` that tries it; `look`, as `module:name`, with a `parameter` of it and the `default` that this should
    have; `words` that stand in no file of the distributions, as far as their paths begin with `within`. With `read` what is
    looked for is read in the files and not imported. All empty: there is nothing to probe.
    """

    distributions: tuple[str, ...] = ()
    trial: str | None = None
    look: str | None = None
    parameter: str | None = None
    default: bool | int | float | str | None = None
    words: tuple[str, ...] = ()
    within: str = ""
    read: bool = False

    @property
    def asked(self) -> str:
        """What is looked for, in words: kept beside the finding, which says nothing of another question."""
        if self.trial:
            return f"trial {self.trial}"
        if self.look:
            wanted = "" if self.default is None else f" = {self.default}"
            return self.look + (f"({self.parameter}{wanted})" if self.parameter else "")
        return f"no “{', '.join(self.words)}” in {self.within or ', '.join(self.distributions)}" if self.words else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found. `unknown`: a package is not what it was when the probe was written. `untried`: it could not be probed."""

    found: Found
    reason: str
    versions: dict[str, str]


def find(probe: Probe) -> Finding:
    """The finding of one probe; never raises."""
    versions, missing = _versions(probe.distributions)
    if missing:
        return Finding(found="untried", reason=f"{', '.join(missing)} not installed in this environment", versions=versions)
    if not probe.asked:
        return Finding(found="untried", reason="nothing to probe", versions=versions)
    try:
        found, reason = _answer(probe)
    except Nowhere as error:
        found, reason = "no", str(error)
    except Exception as error:  # whatever a package raises while it is imported: it answers nothing, and is no reason to stop
        found, reason = "untried", f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
    return Finding(found=found, reason=reason, versions=versions)


def _versions(distributions: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    versions, missing = {}, []
    for name in distributions:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            missing.append(name)
    return versions, missing


def _answer(probe: Probe) -> tuple[Found, str]:
    if probe.trial:
        outcome, reason = TRIALS[probe.trial]()
        return ("untried" if outcome is None else "yes" if outcome else "no"), reason
    if probe.look:
        return _looked(probe)
    for name in probe.distributions:
        there = mention(name, probe.words, probe.within)
        if there:
            return "unknown", f"{there}: look at what it does, then at techniques.toml"
    return "no", f"no file of {probe.within or ', '.join(probe.distributions)} has the word {' or '.join(probe.words)}"


def _looked(probe: Probe) -> tuple[Found, str]:
    assert probe.look is not None
    module, _, path = probe.look.partition(":")
    lookup: Callable[[str, str], Any] = definition if probe.read else _imported
    found = lookup(module, path)
    if probe.parameter is None:
        return "yes", probe.look
    default = default_of(found, probe.parameter) if probe.read else _default(found, probe.parameter)
    if probe.default is not None and default != probe.default:
        return "no", f"{probe.parameter} of {probe.look} is {default} unless told otherwise"
    return "yes", f"{probe.parameter} of {probe.look}" + ("" if probe.default is None else f" is {default}")


def _imported(module: str, path: str) -> Any:
    """Raises Nowhere where an importable package lacks it; what the import raises where it fails for another reason."""
    try:
        found: Any = import_module(module)
    except ModuleNotFoundError as error:
        if "." in module and error.name is not None and f"{module}.".startswith(f"{error.name}.") and "." in error.name:
            raise Nowhere(f"no module {module}") from None
        raise
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise Nowhere(f"no {module}:{path}") from None
    return found


def _default(found: Any, parameter: str) -> Any:
    given = inspect.signature(found).parameters.get(parameter)
    if given is None:
        raise Nowhere(f"no parameter {parameter}")
    return None if given.default is given.empty else given.default


def from_json(stored: dict[str, Any]) -> Probe:
    """The inverse of `dataclasses.asdict` after JSON."""
    lists = {name: tuple(stored[name]) for name in ("distributions", "words")}
    return Probe(**{**stored, **lists})


def main() -> None:
    os.environ.update(OFFLINE)
    probes = [from_json(each) for each in json.load(sys.stdin)]
    with redirect_stdout(sys.stderr):
        findings = [asdict(find(each)) for each in probes]
    print(json.dumps(findings))


if __name__ == "__main__":
    main()
