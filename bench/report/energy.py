"""Power and energy: watts, joules, and always whose.

In: `Findings`. Out: a section with a figure, a table by cell and a table by run; None where no run has measured power.
"""

from __future__ import annotations

import pandas as pd

from bench.report import wording
from bench.report.document import Column, Record, Section, Sketch, Table, filled, records, tabulate
from bench.report.findings import UNRECORDED, Findings
from bench.report.language import either, percent, say, strung, to_say
from bench.trust.flags import spoils

_MEASURED = ["power_w", "energy_j", "j_per_token", "wall_power_w", "wall_energy_j"]
_DRAWN = [
    *("work", "method", "workload_digest", "parameters", "backend", "device", "machine"),
    *("outcome", "tier", "scope", "j_per_token", "clean_energy", "cell"),
]
"""What the figure is made of."""
_SCOPES = {
    "process": to_say("one process"),
    "gpu-board": to_say("the whole board of the GPU and nothing of the computer around it"),
    "soc": to_say("the rails of the system on a chip that its sensors see, without display, disk and losses of the power supply"),
    "package": to_say("the packages of the processors, without a GPU's board"),
    "wall": to_say("everything behind the plug"),
    "machine": to_say("the whole computer"),
    UNRECORDED: to_say("their rows do not say what these figures cover"),
}
_OTHER = to_say("as its meter says")
_TEXT = to_say(
    "Power and energy cover the window of the measured steps, and only what their scope names. Figures of different scopes are"
    " neither pooled nor divided by one another. Above idle means that the power at rest, measured before the sweep, is taken"
    " off. An empty entry was not measured."
)
_CELL_NOTE = to_say(
    "Geometric means of the runs whose energy no flag spoils, with the 95% interval of energy per token across runs. Nothing is"
    " pooled where runs of a cell differ in scope."
)
_RUN_NOTE = to_say(
    "J per token, of serving per generated token, is taken from the counter where there is one, else from the integral of power"
    " samples. The difference is the counter's energy less the integral's, as a share of the integral. A wall meter's figures"
    " stand apart, with its own scope."
)


def _interval(row: Record) -> str:
    return wording.between(row["j_per_token_low"], row["j_per_token_high"])


def _disagreement(run: Record) -> str:
    counter, integral = run["energy_counter_j"], run["energy_integral_j"]
    return percent(counter / integral - 1, 1, signed=True) if integral > 0 and counter >= 0 else ""


def _spoiling(run: Record) -> str:
    return ", ".join(flag for flag in run["flags"] if spoils([flag], "energy"))


_PER_TOKEN = (
    Column("J per token", lambda row: wording.number(row["j_per_token"]), "number"),
    Column("J per token above idle", lambda row: wording.number(row["j_per_token_above_idle"]), "number"),
)

_CELL = (
    Column("workload", "row"),
    Column("method", "method"),
    Column("backend", "place"),
    Column("scope", "scope"),
    Column("clean runs", "n_clean_energy", "number"),
    Column("mean power", lambda row: wording.watts(row["power_w"]), "number"),
    _PER_TOKEN[0],
    Column("95% interval", _interval, "number"),
    _PER_TOKEN[1],
    Column("implementation", "implementation_name"),
    Column("evidence", lambda row: wording.tier(row["tier"])),
)
_RUN = (
    Column("cell", "cell"),
    Column("machine", "machine"),
    Column("scope", "scope"),
    Column("mean power", lambda run: wording.watts(run["power_w"]), "number"),
    Column("peak power", lambda run: wording.watts(run["peak_power_w"]), "number"),
    Column("idle power", lambda run: wording.watts(run["idle_power_w"]), "number"),
    *_PER_TOKEN,
    Column("window", lambda run: wording.seconds(run["energy_window_s"]), "number"),
    Column("energy by counter, J", lambda run: wording.number(run["energy_counter_j"]), "number"),
    Column("energy by integral, J", lambda run: wording.number(run["energy_integral_j"]), "number"),
    Column("difference", _disagreement, "number"),
    Column("wall meter: power", lambda run: wording.watts(run["wall_power_w"]), "number"),
    Column("wall meter: energy, J", lambda run: wording.number(run["wall_energy_j"]), "number"),
    Column("flags that spoil it", _spoiling),
    Column("run id", "run_id", "code"),
)


def energy(findings: Findings) -> Section | None:
    """Power and energy of every cell and every run that has them."""
    runs = findings.runs[findings.runs[_MEASURED].notna().any(axis=1)]
    if runs.empty:
        return None
    runs = runs.assign(scope=runs["power_scope"].where(runs["power_scope"] != "", UNRECORDED))
    scopes = sorted({*runs.loc[runs[_MEASURED[:3]].notna().any(axis=1), "scope"], *_wall(runs)})
    covers = to_say("{scope}: {covers}")
    legend = strung(say(covers, scope=_named(scope), covers=say(_SCOPES.get(scope, _OTHER))) for scope in scopes)
    texts = (say(_TEXT), say("Scopes here: {scopes}.", scopes=legend))
    runs = runs.assign(scope=[_named(scope) for scope in runs["scope"]])
    tables = (_by_cell(findings.summaries, runs), _by_run(runs))
    return Section("energy", say("Power and energy"), texts, figure=Sketch("energy", (runs[_DRAWN],)), tables=tables)


def _named(scope: str) -> str:
    """A scope's name, which is the same in every language, or that there is none."""
    return say(UNRECORDED) if scope == UNRECORDED else scope


def _wall(runs: pd.DataFrame) -> list[str]:
    return ["wall"] if runs[["wall_power_w", "wall_energy_j"]].notna().any(axis=None) else []


def _by_cell(summaries: pd.DataFrame, runs: pd.DataFrame) -> Table:
    """A row for each summary with a run that measured power; a stand-in's watts say nothing and are left out."""
    scopes = dict(zip(runs["run_id"], runs["scope"], strict=True))
    rows = []
    for row in records(summaries[summaries["tier"] == "measured"]):
        seen = sorted({scopes[run_id] for run_id in row["run_ids"] if run_id in scopes})
        rows += [{**row, "scope": either(seen)}] if seen else []
    return tabulate(say("Power and energy by cell"), rows, _CELL, [say(_CELL_NOTE)])


def _by_run(runs: pd.DataFrame) -> Table:
    rows = records(runs)
    return tabulate(say("Power and energy by run"), rows, filled(_RUN, rows), [say(_RUN_NOTE)])
