"""Serving: how fast prompts are read and answers come, and what a token of an answer costs.

In: `Findings`. Out: a section with a table by cell and the ratios of prefill rates; None where nothing was asked to be served.
(Decode rates stand among the rates of everything else, and their ratios among the ratios.)
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from bench import analysis
from bench.report import wording
from bench.report.document import Column, Record, Section, Table, filled, records, tabulate
from bench.report.findings import UNRECORDED, Findings
from bench.report.labels import party_names, work_names
from bench.report.language import say, to_say

_TEXT = to_say(
    "A batch of prompts goes forward together, and every sequence is continued greedily to the same length. Prefill ends when the"
    " first token of each sequence is known on the host, which is the time to first token; the tokens after it are decoded one by"
    " one. A prefill rate counts the prompts' tokens, a decode rate all generated tokens but each sequence's first, energy all of"
    " them. Peaks hold the weights and the cache of keys and values."
)
_NOTE = to_say(
    "Rates and times are geometric means of clean runs, with the 95% interval across runs; each run's own are taken over the"
    " median batch of requests. Lengths are batch × (prompt + generated tokens). Joules name their scope."
)


def _measured(name: str) -> Any:
    """A figure of speed; a stand-in's says nothing."""
    return lambda row: wording.number(row[name]) if row["tier"] == "measured" else ""


def _interval(name: str) -> Any:
    return lambda row: wording.between(row[f"{name}_low"], row[f"{name}_high"])


def _joules(row: Record) -> str:
    joules = wording.number(row["j_per_token"])
    return f"{joules} ({', '.join(row['power_scopes'])})" if joules else ""


_CELL = (
    Column("workload", "row"),
    Column("lengths", "lengths", "number"),
    Column("weights", "weights"),
    Column("backend", "place"),
    Column("clean runs", "n_clean", "number"),
    Column("requests, warm-up + measured", wording.steps, "number"),
    Column("prefill tokens/s", _measured("prefill_tokens_per_s"), "number"),
    Column("95% interval", _interval("prefill_tokens_per_s"), "number"),
    Column("time to first token, s", _measured("time_to_first_token_s"), "number"),
    Column("decode tokens/s", _measured("tokens_per_s"), "number"),
    Column("95% interval", _interval("tokens_per_s"), "number"),
    Column("J per generated token", _joules, "number"),
    Column("peak, framework", lambda row: wording.size(row["framework_peak_bytes"]), "number"),
    Column("peak, process", lambda row: wording.size(row["host_peak_bytes"]), "number"),
    Column("peak, device", lambda row: wording.size(row["device_peak_bytes"]), "number"),
    Column("implementation", "implementation_name"),
    Column("outcomes", wording.outcomes),
    Column("evidence", lambda row: wording.tier(row["tier"])),
)
_RATIO = (
    Column("workload", "row"),
    Column("first", "above"),
    Column("second", "below"),
    Column("ratio", lambda row: f"{wording.number(row['ratio'])}×", "number"),
    Column("95% interval", lambda row: wording.between(row["low"], row["high"]), "number"),
    Column("clean runs", lambda row: f"{row['n_above']} ÷ {row['n_below']}"),
    Column("implementations", "implementations"),
)
_RATIO_NOTE = to_say(
    "The first's prefill rate by the second's, for equal work alone, as under ratios; above 1 the first is faster."
)


def serving(findings: Findings) -> Section | None:
    """What was served, and how; None where no suite asked for it."""
    runs = findings.runs[findings.runs["method"] == "serve"]
    if runs.empty:
        return None
    return Section("serving", say("Serving"), (say(_TEXT),), tables=(_by_cell(findings, runs), *_ratios(findings, runs)))


def _by_cell(findings: Findings, runs: pd.DataFrame) -> Table:
    asked = {run["workload_digest"]: run for run in records(runs)}
    rows = [
        {**row, "lengths": _lengths(asked[row["workload_digest"]]), "weights": _weights(asked[row["workload_digest"]])}
        for row in records(findings.summaries[findings.summaries["method"] == "serve"])
    ]
    return tabulate(say("Serving by cell"), rows, filled(_CELL, rows), [say(_NOTE)])


def _lengths(run: Record) -> str:
    batch, prompt, generated = (wording.whole(run.get(name)) for name in ("batch_size", "prompt_tokens", "generated_tokens"))
    return f"{batch} × ({prompt} + {generated})" if batch and prompt and generated else say(UNRECORDED)


def _weights(run: Record) -> str:
    """The precision of the weights: bits where they are quantised, else their type."""
    bits = wording.whole(run.get("quantization_bits"))
    dtype = run.get("weights_dtype")
    if bits:
        return say("{bits} bits", bits=bits)
    return dtype if isinstance(dtype, str) and dtype else say(UNRECORDED)


def _ratios(findings: Findings, runs: pd.DataFrame) -> tuple[Table, ...]:
    """Ratios of prefill rates of equal work; none where there are no two parties."""
    compared = analysis.compare(runs, "prefill_tokens_per_s")
    compared = compared[compared["refused"] == ""]
    if compared.empty:
        return ()
    sides = {side: party_names(compared, f"{side}_") for side in ("above", "below")}
    names = {side: _implementations(findings, compared, side) for side in ("above", "below")}
    rows = records(compared.assign(**sides, row=work_names(compared), implementations=names["above"] + " ÷ " + names["below"]))
    return (tabulate(say("Ratios of prefill rates"), rows, _RATIO, [say(_RATIO_NOTE)]),)


def _implementations(findings: Findings, compared: pd.DataFrame, side: str) -> pd.Series[str]:
    keys = zip(compared[f"{side}_backend"], compared[f"{side}_implementation"], strict=True)
    return pd.Series([findings.implementations.get(key, say(UNRECORDED)) for key in keys], compared.index, dtype=object)
