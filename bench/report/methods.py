"""How what stands on the page was measured, judged and predicted, and the biases that are known of this very evidence.

In: `Findings`, and a `Lesson` where claims are on trial. Out: a section. Every sentence of the table is counted from them: what
cannot be counted here is left to docs/measuring.md, docs/verdicts.md and docs/predicting.md, which the section names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pandas as pd

from bench.predict.score import Card, Scored, summarise
from bench.report import doubts, wording
from bench.report.document import Column, Section, tabulate
from bench.report.evidence import plainly
from bench.report.findings import Findings
from bench.report.forewarned import forewarned
from bench.report.language import both, percent, say, strung, to_say
from bench.report.lesson import Lesson
from bench.report.rulings import party
from bench.report.verdicts import rests_on
from bench.trust.flags import FLAGS

Row = tuple[str, str]
STAND_IN = "stand-in"
_MEASURED = to_say(
    "Measured: each run is a process of its own, its warm-up ends by a stated rule, rates are medians within a run, and intervals"
    " are 95% across runs. A peak is the framework's own count; the driver's and the system's stand beside it. See"
    " docs/measuring.md."
)
_JUDGED = to_say(
    "Judged: each tier of evidence by itself, by one stated rule for each kind of claim; the strongest tier that settles a claim"
    " decides. See docs/verdicts.md."
)
_PREDICTED = to_say(
    "Predicted: memory by closed form from the model's sizes, rates from the work of each phase against the machine's rated"
    " speed, both corrected by what published and own runs teach; intervals are 80%. See docs/predicting.md."
)
_BIAS = (Column("concerning", "about"), Column("on this page", "text"))
_PEAKS = ("framework_peak_bytes", "device_peak_bytes", "host_peak_bytes")


def methods(findings: Findings, lesson: Lesson | None = None) -> Section | None:
    """The section; None where there are neither runs nor claims."""
    told = [*(_of_lesson(lesson, findings) if lesson else ()), *(() if findings.runs.empty else _of_runs(findings))]
    if not told:
        return None
    texts = [say(_MEASURED), *((say(_JUDGED), say(_PREDICTED)) if lesson else ())]
    table = tabulate(say("Known biases"), [{"about": about, "text": text} for about, text in told], _BIAS)
    return Section("methods", say("Methods and biases"), tuple(texts), tables=(table,))


def _of_lesson(lesson: Lesson, findings: Findings) -> Iterator[Row]:
    if lesson.judged:
        text = to_say("Of {all} verdicts, by the strongest evidence of each: {counts}.")
        yield say("what verdicts rest on"), say(text, all=len(lesson.judged), counts=rests_on(lesson.judged))
    yield from _without_runs(lesson, findings)
    yield from _predictor(lesson.card)
    yield from ((say("predictions of {stacks}", stacks=stacks), text) for stacks, text in _warnings(lesson))
    yield from _published(lesson)
    yield from _choices(lesson)
    room = to_say("{machine}: {capacity} of {memory}")
    there = [
        say(room, machine=each.name, capacity=wording.size(each.capacity_bytes), memory=wording.size(each.memory_bytes))
        for each in lesson.machines
    ]
    text = to_say("What a process can have of the memory is the catalogue's figure, not measured here: {machines}.")
    yield say("capacities"), say(text, machines=strung(there))


def _without_runs(lesson: Lesson, findings: Findings) -> Iterator[Row]:
    """The machines of the claims, and their stacks, of which nothing was measured here."""
    runs = findings.runs
    ran = runs[(runs["outcome"] == "ok") & (runs["tier"] == "measured")] if len(runs) else runs
    seen = set(zip(*(ran[name] for name in ("machine", "backend", "device")), strict=True)) if len(ran) else set()
    named = {name for each in lesson.claims for side in each.sides for name in side.machines}
    if missing := sorted(named - {machine for machine, *_ in seen}):
        text = to_say("No run on {machines} ended ok: no figure of theirs was measured by this project.")
        yield say("machines without a run"), say(text, machines=both(missing))
    stacks = {(each.profile.name, each.cell.backend, each.cell.device) for one in lesson.winners.contests for each in one.stacks}
    unseen = [party(f"{backend}@{device} on {machine}") for machine, backend, device in sorted(stacks - seen)]
    if unseen:
        text = to_say("The winner map has no run of {stacks}: what it says of them is predicted.")
        yield say("stacks without a run"), say(text, stacks=", ".join(unseen))


def _predictor(card: Card) -> Iterator[Row]:
    """How far it was off on what it was not fitted to."""
    for about, values in ((say("predicted peaks"), card.peaks), (say("predicted rates"), card.rates)):
        if every := summarise(values):
            text = to_say(
                "{count} published, each source predicted by the others: {error} off on average, {covered} within the 80%"
                " interval."
            )
            told = [say(text, count=every.count, error=percent(every.mape, 1), covered=percent(every.coverage))]
            if stated := summarise([each for each in values if each.seen.stated]):
                text = to_say(
                    "Of those, {count} state every condition and are of our stacks: {error} off, {covered} within it ({sources})."
                )
                sources = sorted({each.seen.family for each in values if each.seen.stated})
                told.append(
                    say(
                        text,
                        count=stated.count,
                        error=percent(stated.mape, 1),
                        covered=percent(stated.coverage),
                        sources=", ".join(sources),
                    )
                )
            told.append(say("By stack: {stacks}.", stacks=_by_stack(values)))
            yield about, " ".join(told)
    if card.fits:
        text = to_say(
            "{count} outcomes on devices of known capacity. Said to fit, and out of memory: {false}. Said not to fit, and ran:"
            " {no}."
        )
        wrong = Counter(each.wrong for each in card.fits)
        yield say("predicted fits"), say(text, count=len(card.fits), false=wrong["false fit"], no=wrong["false no"])


def _by_stack(values: Iterable[Scored]) -> str:
    return ", ".join(f"{stack} {wording.whole(n)}" for stack, n in Counter(each.seen.stack for each in values).most_common())


def _warnings(lesson: Lesson) -> Iterator[Row]:
    """What `wingspan advise` warns of, by the stacks that it concerns."""
    stacks: dict[str, set[str]] = {}
    for contest in lesson.winners.contests:
        for each in contest.stacks:
            for note in each.notes:
                stacks.setdefault(note, set()).add(each.who)
    yield from ((both(sorted(whom)), forewarned(note)) for note, whom in stacks.items())


def _published(lesson: Lesson) -> Iterator[Row]:
    known = {row.id for row in lesson.published.rows}
    judging = {name for each in lesson.judged for one in each.estimates for name in one.evidence} & known
    shown = {name for each in lesson.judged for one in each.others for name in one.evidence} & known - judging
    if known:
        text = to_say(
            "{count} rows that others published, of which {judging} judge a claim and {shown} more are shown beside one. They"
            " lie in results/published, each with its source. Nobody here saw those runs, and what people report is no fair"
            " sample of what they ran."
        )
        yield say("published rows"), say(text, count=len(known), judging=len(judging), shown=len(shown))


def _choices(lesson: Lesson) -> Iterator[Row]:
    """What this project chose where the lesson leaves it open."""
    asked = [each for each in lesson.claims if each.models and "serve" not in each.methods]
    if not asked:
        return
    counts = Counter((name, plainly(value)) for each in asked for name, value in each.conditions.items())
    usual = [f"{name} {value}" for (name, value), count in counts.items() if count > len(asked) / 2]
    models = list(dict.fromkeys(name for each in asked for name in each.models))
    text = to_say(
        "What the lesson leaves open was chosen by this project: the conditions ({conditions}), the models that stand for sizes"
        " ({models}), and tolerances ({tolerances})."
    )
    tolerances = Counter(each.tolerance for each in lesson.claims if each.kind not in ("support", "fit", "order"))
    told = ", ".join(say("{share} of {n}", share=percent(share), n=count) for share, count in tolerances.most_common())
    yield (
        say("conditions"),
        say(text, conditions=", ".join(usual), models=", ".join(models), tolerances=told),
    )


def _of_runs(findings: Findings) -> Iterator[Row]:
    ran = findings.runs[findings.runs["outcome"] == "ok"]
    flagged = ran[ran["flags"].map(bool).astype(bool)]
    if len(flagged):
        text = to_say("Of {ok} runs that ended ok {count} are flagged: {flags}.")
        yield say("flagged runs"), say(text, ok=len(ran), count=len(flagged), flags=strung(_flags(flagged["flags"])))
    cells = findings.summaries[findings.summaries["n_ok"] > 0]
    few = [int((cells["n_clean"] == count).sum()) for count in (0, 1)]
    if sum(few):
        text = to_say("Of {cells} cells that ran, {none} have no run whose times count and {one} have a single one: no interval.")
        yield say("few runs"), say(text, cells=len(cells), none=few[0], one=few[1])
    held = int(findings.runs["tier"].str.startswith(STAND_IN).sum())
    text = to_say("Runs held to another machine's memory: {count}. They speak of fit alone.")
    yield say("stand-ins"), say(text, count=held) if held else say("No run was held to another machine's memory.")
    yield say("meters"), _meters(ran)


def _flags(flags: pd.Series) -> Iterator[str]:
    for name, count in flags.explode().value_counts().items():
        spoilt = doubts.kinds(FLAGS[str(name)].spoils) if name in FLAGS else say("not known")
        yield say("{flag} {count} (spoils: {kinds})", flag=str(name), count=int(count), kinds=spoilt)


def _meters(ran: pd.DataFrame) -> str:
    """How many runs each meter saw; they do not count the same."""
    seen = [int(ran[name].notna().sum()) if name in ran else 0 for name in _PEAKS]
    text = to_say(
        "Of {ok} ok runs a peak was counted by the framework in {own}, by the driver in {driver}, as memory of the process in"
        " {process}: the three differ in what they count. {watts}"
    )
    return say(text, ok=len(ran), own=seen[0], driver=seen[1], process=seen[2], watts=_watts(ran))


def _watts(ran: pd.DataFrame) -> str:
    metered = ran[ran["power_w"].notna()] if "power_w" in ran else ran.iloc[:0]
    if metered.empty:
        return say("No watts were metered.")
    scopes = Counter(each if isinstance(each, str) else say("scope not recorded") for each in metered["power_scope"])
    told = ", ".join(f"{name} {wording.whole(count)}" for name, count in scopes.most_common())
    return say("Watts, by what they cover: {scopes}.", scopes=told)
