"""The winner map: which of two machines is the one to choose, by method, size and context, by how much, and where that flips.

In: a `WinnerMap` (`bench.refine`). Out: a section with the map drawn, the same as a table, and the flips.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.catalog import MachineProfile
from bench.claims.claim import TIERS
from bench.refine.winners import Contest, Flip, Why, WinnerMap
from bench.report import wording
from bench.report.amounts import room
from bench.report.document import Column, Detail, Record, Section, Sketch, filled, tabulate
from bench.report.language import percent, say, to_say

SURE = 0.9
"""Below this probability the winner gets a question mark."""
MAKERS = ("NVIDIA ", "GeForce ", "Apple ", "Tesla ")
_TEXT = to_say(
    "Every size by every method at four contexts, on both machines by the best stack of each. {alone} of {all} fields rest on"
    " predictions alone."
)
_HOW = to_say(
    "A figure is measured where this project ran the same work there, else predicted; the evidence is named. The chance is the"
    " probability that choosing the winner is right, from the probabilities of fitting and the intervals of rates, or, where"
    " neither fits, of that. Below 50% nobody is named."
)
_TIGHT = to_say(
    "“Tight” means here that it may fit or not, a probability between 10% and 90%, however much the middle value leaves free. A"
    " claim that something barely fits is judged by the room: less than 10% free."
)
_FLIP_TEXT = to_say(
    "Between two neighbours the winner changes. A machine is counted as fitting up to where it does as likely as not, the edge of"
    " the fit frontier too. Along context that was looked for in between, in steps of 256 tokens; along size there are no models"
    " there, so the place is where need and capacity, or the two rates, would cross by interpolation."
)
_CONTEST = (
    Column("model", "model"),
    Column("method", "method"),
    Column("tokens of a sequence", "context", "number"),
    Column("winner", "winner"),
    Column("times as fast", "lead", "number"),
    Column("interval", "interval", "number"),
    Column("chance", "chance", "number"),
    Column("fits the first", "first"),
    Column("fits the second", "second"),
    Column("stacks", "stacks"),
    Column("evidence", "evidence"),
)
_FLIP = (
    Column("method", "method"),
    Column("along", "axis"),
    Column("held fixed", "held"),
    Column("up to", "below", "number"),
    Column("winner there", "before"),
    Column("from", "above", "number"),
    Column("winner from there", "after"),
    Column("about", "about", "number"),
)


def winners(found: WinnerMap | None, profiles: tuple[MachineProfile, ...]) -> Section | None:
    """The section; None without contests."""
    if found is None or not found.contests:
        return None
    names = {profile.name: short_name(profile) for profile in profiles}
    names = {name: names.get(name, name) for name in (found.first, found.second)}
    title = say("Winner map")
    note = say("The first is {first}, the second {second}.", first=found.first, second=found.second)
    rows = [_contest(each, names) for each in found.contests]
    every = tabulate(say("Every field of the map"), rows, filled(_CONTEST, rows))
    details = [Detail("winners-fields", every.title, (say(_HOW), say(_TIGHT), note), (every,))]
    if found.flips:
        flips = tabulate(say("Where the winner flips"), [_flip(each, names) for each in found.flips], _FLIP)
        details.append(Detail("winners-flips", flips.title, (say(_FLIP_TEXT),), (flips,)))
    alone = sum(set(each.tiers) == {"predicted"} for each in found.contests)
    text = say(_TEXT, alone=alone, all=len(found.contests))
    return Section("winners", title, (text,), figure=Sketch("winners", (found, names)), details=tuple(details))


def short_name(profile: MachineProfile) -> str:
    """What distinguishes the machine, short enough for a field of a figure: "RTX 4090", "M3 Ultra"."""
    name = profile.gpu or profile.chip or profile.name
    for maker in MAKERS:
        name = name.removeprefix(maker)
    return wording.shorten(name, 14)


def fit_name(fits: str) -> str:
    """Whether something fits, as `predict` says it, for people."""
    return {"yes": say("yes"), "tight": say("tight"), "no": say("no")}.get(fits, fits)


def outcome(each: Contest, names: Mapping[str, str]) -> str:
    """Who wins, and by how much, in a few words."""
    if each.winner is None:
        return nobody(each.why)
    name = names.get(each.winner, each.winner)
    lead = leads_by(each)
    said = say("{machine} only", machine=name) if each.why == "the only one that fits" else f"{name} {lead}".strip()
    said = say("{winner}, tight", winner=said) if is_tight(each) else said
    return said if each.chance is not None and each.chance >= SURE else f"{said} ?"


def nobody(why: Why) -> str:
    """Why nobody wins, in a few words."""
    return {
        "neither fits": say("neither fits"),
        "probably neither fits": say("probably neither fits"),
        "undecided": say("undecided"),
    }.get(why, say("not known"))


def leads_by(each: Contest) -> str:
    """The winner's rate over the other's; "" where there is none."""
    if each.ratio is None or each.winner is None:
        return ""
    first = each.winner == each.stacks[0].profile.name
    return f"{wording.number(each.ratio if first else 1 / each.ratio, 2)}×"


def is_tight(each: Contest) -> bool:
    """Whether the winner itself may not fit."""
    won = next((stack for stack in each.stacks if stack.profile.name == each.winner), None)
    return won is not None and won.fit is not None and won.fit.fits == "tight"


def _contest(each: Contest, names: dict[str, str]) -> Record:
    lead = leads_by(each)
    ends = (each.low, each.high)
    if lead and each.low and each.high and each.winner != each.stacks[0].profile.name:
        ends = (1 / each.high, 1 / each.low)
    first, second = (_fit(each, place) for place in (0, 1))
    return {
        "model": each.model,
        "method": each.method,
        "context": wording.whole(each.sequence_length),
        "winner": outcome(each, names),
        "lead": lead,
        "interval": wording.between(*ends) if lead else "",
        "chance": "" if each.chance is None else percent(each.chance),
        "first": first,
        "second": second,
        "stacks": " ÷ ".join(stack.who for stack in each.stacks),
        "evidence": ", ".join(wording.tier(tier) for tier in TIERS if tier in each.tiers),
    }


def _fit(each: Contest, place: int) -> str:
    fit = each.stacks[place].fit
    if fit is None:
        return ""
    if fit.headroom is None:
        return fit_name(fit.fits)
    return say("{fits}, {room}", fits=fit_name(fit.fits), room=room(fit.headroom))


def _flip(each: Flip, names: dict[str, str]) -> Record:
    along_size = each.axis == "parameters"
    below, above = each.below, each.above
    return {
        "method": below.method,
        "axis": say("size") if along_size else say("context"),
        "held": say("{n} token|{n} tokens", n=below.sequence_length) if along_size else below.model,
        "below": below.model if along_size else wording.whole(below.sequence_length),
        "before": outcome(below, names),
        "above": above.model if along_size else wording.whole(above.sequence_length),
        "after": outcome(above, names),
        "about": "" if each.about is None else wording.count(each.about) if along_size else wording.number(each.about),
    }
