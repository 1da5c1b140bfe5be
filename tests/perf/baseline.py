"""Run the benchmarks and compare them with this machine's own baseline: `nox -s perf`.

In: arguments of pytest, and the baseline `results/perf/<machine>-<its id>/baseline.json`, which is a file of pytest-benchmark.
Out: the verdict as an exit code: 0 nothing is over 20% slower by the median, 1 something is or a test failed, 2 the baseline
cannot be read, which is said before anything is measured. What is slower is measured once more before it counts: on a shared
machine a neighbour comes and goes.

A missing baseline is made by a run that passes, and a benchmark that it lacks is added to it; beyond that it changes only when
someone removes it. What was measured last stands beside it, as `latest.json`. Both are without parameters and single timings,
which would make them grow without end. Not compared is the group `ratio`, whose tests measure two things together and judge for
themselves how they compare.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.environments import installed, normalised
from bench.files import atomic
from bench.machine import this_machine

SLOWER_PERCENT = 20
SLOWER = 1 + SLOWER_PERCENT / 100
BUSY = 0.5
"""Load for each processor above which it is said that figures will be high."""
COLUMNS = "min,median,iqr,rounds"
UNCOMPARED = "ratio"
LATEST = "latest.json"
TIMES = ("min", "max", "mean", "median")
FIGURES = (*TIMES, "iqr", "stddev", "ops", "rounds", "iterations")
"""What pytest-benchmark needs of every benchmark to compare it and to print its table."""
EXIT_CORRUPT = 2
TOLD = 12
"""So many differing packages are named; the rest is counted."""

Document = dict[str, Any]


class Corrupt(Exception):
    """A baseline that cannot be compared with; the message names the file and the remedy."""


def load(path: Path) -> Document | None:
    """The baseline; None where there is none. Raises Corrupt for what pytest-benchmark would stumble over, or pass by."""
    try:
        document = json.loads(path.read_bytes())
        names = [_checked(each) for each in document["benchmarks"]]
        document["machine_info"], document["environment"]["packages"].items()
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Corrupt(_remedy(path, f"{type(error).__name__}: {error}")) from error
    if not names or len(set(names)) < len(names):
        raise Corrupt(_remedy(path, "it holds a benchmark twice" if names else "it holds no benchmark"))
    return dict(document)


def _checked(benchmark: Document) -> str:
    """A benchmark's name, if it has all figures."""
    stats = benchmark["stats"]
    wrong = [name for name in FIGURES if not math.isfinite(stats[name]) or stats[name] < 0 or (name in TIMES and not stats[name])]
    if wrong or not isinstance(stats["outliers"], str) or not isinstance(benchmark["fullname"], str):
        raise ValueError(f"{benchmark['fullname']} has no sound {', '.join(wrong) or 'figures'}")
    return str(benchmark["fullname"])


def _remedy(path: Path, why: str) -> str:
    return f"{path}: not a baseline that can be compared with ({why}); remove the file, and the next run makes it anew"


def lean(measured: Document) -> Document:
    """What pytest-benchmark wrote, without parameters and single timings; and in which environment that was."""
    benchmarks = []
    for each in measured["benchmarks"]:
        stats = {name: value for name, value in each["stats"].items() if name != "data"}
        benchmarks.append({**each, "stats": stats, "params": None, "param": None})
    here = installed()
    environment = {"python": here.python, "packages": here.packages}
    return {**measured, "benchmarks": benchmarks, "environment": environment}


def outdated(baseline: Document) -> list[str]:
    """What differs between the environment of the baseline and this one, a difference each; empty where nothing does."""
    here, there = installed(), baseline["environment"]
    own = {normalised("wingspan")}
    old = {"Python": there["python"], **there["packages"]}
    new = {"Python": here.python, **here.packages}
    changed = sorted(name for name in (old.keys() | new.keys()) - own if old.get(name) != new.get(name))
    lines = [f"{name} {old.get(name, 'absent')} -> {new.get(name, 'absent')}" for name in changed]
    return [*lines[:TOLD], *([f"and {len(lines) - TOLD} more"] if len(lines) > TOLD else [])]


def grown(baseline: Document | None, measured: Document) -> tuple[Document, list[str]]:
    """The baseline with the benchmarks that it lacked, and the names of these."""
    kept = [] if baseline is None else baseline["benchmarks"]
    known = {each["fullname"] for each in kept}
    new = [each for each in measured["benchmarks"] if each["group"] != UNCOMPARED and each["fullname"] not in known]
    return {**(measured if baseline is None else baseline), "benchmarks": [*kept, *new]}, [each["fullname"] for each in new]


def medians(baseline: Document, measured: Document) -> list[tuple[str, float, float]]:
    """Of each benchmark in both: its name, and the median in seconds then and now."""
    then = {each["fullname"]: each["stats"]["median"] for each in baseline["benchmarks"]}
    now = [(each["fullname"], each["stats"]["median"]) for each in measured["benchmarks"]]
    return [(name, then[name], median_s) for name, median_s in now if name in then]


def slower(baseline: Document, measured: Document) -> list[tuple[str, float, float]]:
    """Those of `medians` that are too much slower now."""
    return [(name, then_s, now_s) for name, then_s, now_s in medians(baseline, measured) if now_s > then_s * SLOWER]


def main(arguments: list[str]) -> int:
    """Check the baseline, run pytest, add what the baseline lacks; the exit code."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--benchmarks", type=Path, default=Path(__file__).parent)
    parser.add_argument("--results", type=Path, default=Path("results"))
    asked, rest = parser.parse_known_args(arguments)
    machine = this_machine()
    path = asked.results / "perf" / f"{machine.name}-{machine.machine_id}" / "baseline.json"
    try:
        baseline = load(path)
    except Corrupt as fault:
        _say(str(fault))
        return EXIT_CORRUPT
    differences = [] if baseline is None else outdated(baseline)
    if differences:
        _say(f"{path} is of another environment: {'; '.join(differences)}. Remove it to start anew from this one")
    if os.getloadavg()[0] > BUSY * (os.cpu_count() or 1):
        _say(f"this machine is busy (load {os.getloadavg()[0]:.1f}): figures of a quiet one are lower")
    code, measured = _measured(asked.benchmarks, rest, path, baseline)
    if measured is not None:
        _write(path.with_name(LATEST), measured)
        _conclude(path, baseline, measured, code, outdated=bool(differences))
    return code


def _measured(benchmarks: Path, rest: list[str], path: Path, baseline: Document | None) -> tuple[int, Document | None]:
    """The exit code and what was measured; what was slower by the second measurement, on which pytest-benchmark decides."""
    if baseline is None:
        return _pytest([str(benchmarks)], rest, path)
    compare = f"--benchmark-compare={path}"
    code, first = _pytest([str(benchmarks)], [compare, *rest], path)
    slow = [] if code or first is None else [name for name, *_ in slower(baseline, first)]
    if first is None or not slow:
        return code, first
    _say(f"slower, so measured once more: {', '.join(slow)}")
    files = [f"{benchmarks / Path(name.partition('::')[0]).name}::{name.partition('::')[2]}" for name in slow]
    code, second = _pytest(files, [compare, f"--benchmark-compare-fail=median:{SLOWER_PERCENT}%"], path)
    again = {} if second is None else {each["fullname"]: each for each in second["benchmarks"]}
    return code, {**first, "benchmarks": [again.get(each["fullname"], each) for each in first["benchmarks"]]}


def _pytest(what: list[str], options: list[str], path: Path) -> tuple[int, Document | None]:
    """Its exit code, and what it measured."""
    latest = path.with_name(LATEST)
    latest.parent.mkdir(parents=True, exist_ok=True)
    latest.unlink(missing_ok=True)
    own = [f"--benchmark-columns={COLUMNS}", f"--benchmark-json={latest}", "--timeout=7200"]
    code = subprocess.run([sys.executable, "-m", "pytest", *what, *own, *options], check=False).returncode
    return code, lean(json.loads(latest.read_bytes())) if latest.exists() else None


def _conclude(path: Path, baseline: Document | None, measured: Document, code: int, *, outdated: bool) -> None:
    """Keep what is new, and say what was compared with what."""
    for name, before_s, now_s in [] if baseline is None else slower(baseline, measured):
        _say(f"slower: {name}: {before_s * 1e3:.3g} ms -> {now_s * 1e3:.3g} ms ({now_s / before_s - 1:+.0%})")
    if code:
        accept = "" if baseline is None else f"; to take it for the new baseline, remove {path} and run again"
        _say(f"not passed; what was measured stands in {path.with_name(LATEST)}{accept}")
        return
    whole, new = grown(baseline, measured)
    if new and not outdated:
        _write(path, whole)
        _say(f"{path}: {'made' if baseline is None else 'added to'}: {', '.join(new)}")
    if baseline is not None:
        compared = len(medians(baseline, measured))
        _say(f"{compared} compared with {path}: no median over {SLOWER_PERCENT}% slower than on {baseline['datetime'][:10]}")


def _write(path: Path, document: Document) -> None:
    """Put it there whole, in place of what was there."""
    with atomic.staged(path, (json.dumps(document, indent=1) + "\n").encode()) as temporary:
        os.replace(temporary, path)


def _say(text: str) -> None:
    print(f"perf: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
