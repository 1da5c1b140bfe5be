"""Rulings on claims, and what is said of their evidence, in the reader's language.

In: texts as `bench.claims` words them, in English. Out: the same said in the language that is spoken; a text that is none of
theirs, as what a source says, stays as it is. The judges do not know that there are readers, so their sentences are known here
by their shape, as those of `bench.report.reasons` are.
"""

from __future__ import annotations

from bench.report import wording
from bench.report.language import both, current, digits, either, percent, say, strung, to_say
from bench.report.reasons import resaid
from bench.report.shapes import Places, by_shape, shape

_SAY = (
    to_say("{count} of {all} say {what}"),
    to_say("{count} of {all} says {what}"),
    to_say("{count} of {all} lie {what}"),
    to_say("{count} of {all} lies {what}"),
)
_WHAT = (
    to_say("the claim's number, within {tolerance}"),
    to_say("the claim's number"),
    to_say("in the claimed range, within {tolerance}"),
    to_say("in the claimed range"),
    to_say("outside the claimed range"),
    to_say("above 1"),
    to_say("below 1"),
    to_say("another number than the claim's, in its direction"),
    to_say("another number than the claim's, of its order of magnitude"),
    to_say("another number than the claim's"),
    to_say("another order of magnitude"),
    to_say("the opposite direction"),
    to_say("as claimed"),
    to_say("that it fits"),
    to_say("that it does not fit"),
    to_say("that it runs, if slowly"),
    to_say("that it does not run"),
    to_say("that it fits, with room to spare"),
    to_say("that it fits, with less room than claimed"),
)
_NAMED = to_say("{what}: {names}")
_MORE = to_say("{names} and {count} more")
_WHOLE = (
    to_say("{count} of {all} have no interval: one run, or one source, says nothing of its spread"),
    to_say("{count} of {all} intervals reach over the edge of what is claimed"),
    to_say("it may fit or not: some runs ended either way, or a prediction is between"),
    to_say("{one} wins {first}, {two} {second}, {ties} are equal, of {all}"),
    to_say("{one} wins {count} of {all}"),
    to_say("{one} wins {count}"),
    to_say("neither can do {count}"),
    to_say("{count} cannot be told apart"),
    to_say("of {count} nothing is known"),
    to_say("of {all} techniques {first} are on {one} alone, {second} on {two} alone"),
    to_say("so on {count} of {all}"),
    to_say("nothing that answers it is known"),
    to_say("no run has answered it yet, nobody published it under its conditions, and no prediction is about it"),
    to_say("no run on {machines} has answered it yet, nobody published it under its conditions, and no prediction is about it"),
)
_REST = (
    to_say("{tiers} evidence alone settles nothing"),
    to_say("the 80% interval reaches what is claimed"),
    to_say("the 80% interval of {count} of them reaches what is claimed"),
)
_UNUSABLE = (
    to_say("{count} answers were found, and none can be used: {reason}"),
    to_say("one answer was found, and cannot be used: {reason}"),
)
_CONDITIONS = (
    to_say("by closed form and calibration"),
    to_say("parts at the peak, by following storages"),
    to_say("bytes read and written a second; a rating is not reached"),
    to_say("workload {digest}"),
    to_say("only {machine} can"),
    to_say("neither can"),
    to_say("it may fit {machine}, or not"),
    to_say("meter {meter}"),
    to_say("{metric}, clean runs"),
)
_NOTED = (
    to_say("wall power during token generation (whole PC)"),
    to_say("wall power during token generation (whole machine)"),
    to_say("{count} GPUs, {how}, CPU offload of weights"),
    to_say("{count} GPUs, {how}"),
    to_say("{time} s for {count} dummy samples"),
    to_say("tok/s = {formula} for BOTH cards together (derived)"),
    to_say("watts = peak per card over the {models} runs"),
    to_say("watts = peak per card"),
)
"""Of what stands in the notes on published rows, the clauses that are this project's own and reach the page."""
_OPEN = frozenset(
    {
        *(to_say("batch size"), to_say("sequence length"), to_say("gradient accumulation"), to_say("gradient checkpointing")),
        *(to_say("optimizer"), to_say("weights dtype"), to_say("adapter dtype"), to_say("quantization bits"), to_say("rank")),
        *(to_say("modules"), to_say("adapter layers"), to_say("prompt tokens"), to_say("generated tokens")),
        *(to_say("attention kernel"), to_say("trl version")),
    }
)
"""What a source may leave open, as `bench.claims` names it."""
_REFUSALS = (
    to_say("under other conditions: {conditions}"),
    to_say("meter {meter}: not the framework's own peak"),
    to_say("another trainer ({name})"),
    to_say("another program ({name})"),
    to_say("another machine ({name})"),
    to_say("another method ({name})"),
    to_say("another model ({name})"),
    to_say("several cards ({name})"),
    to_say("read while it generated, not while it trained"),
    to_say("the highest watts, not the mean while training"),
    to_say("it states no figure of what is claimed"),
    to_say("one machine's rate, with none beside it"),
    to_say("cited beside the claim, and no more"),
    to_say("a vendor's claim, not a measurement"),
    to_say("ended for another reason than memory"),
    to_say("its own source calls it a fault of the environment"),
    to_say("{tiers} evidence comes before it"),
    to_say("{tiers} evidence alone settles nothing"),
    to_say("covers what is not stated, the claim's {wanted}"),
    to_say("covers {scope}, the claim's {wanted}"),
    to_say("its watts cover {scope}, the claim's {wanted}"),
)
_ELSEWHERE = to_say("{who} on an unknown machine")
_ON = to_say("{who} on {machine}")
_AGAINST = to_say("{first} against {second}")


def reruled(reason: str) -> str:
    """A ruling in the language that is spoken."""
    if current() == "en":
        return reason
    for text in _UNUSABLE:
        if found := shape(text).fullmatch(reason):
            return say(text, **{**found.groupdict(), "reason": refusal(found["reason"])})
    return strung(_part(part) for part in reason.split("; "))


def _part(part: str) -> str:
    for text in _SAY:
        if found := shape(text).fullmatch(part):
            return say(text, count=found["count"], all=found["all"], what=_what(found["what"]))
    return _resaid(part, (*_WHOLE, *_REST))


def _what(what: str) -> str:
    known = _resaid(what, _WHAT)
    told, colon, names = what.partition(": ")
    if known != what or not colon:
        return known
    return say(_NAMED, what=_resaid(told, _WHAT), names=_names(names))


def _names(names: str) -> str:
    """Works and stacks, "a by b, c by d and 2 more"."""
    found = shape(_MORE).fullmatch(names)
    listed = found["names"] if found else names
    said = ", ".join(_by(each) for each in listed.split(", "))
    return say(_MORE, names=said, count=found["count"]) if found else said


def _by(each: str) -> str:
    what, by, who = each.partition(" by ")
    return say("{what} by {who}", what=what, who=party(who)) if by else each


def condition(text: str) -> str:
    """What is said of the conditions of a piece of evidence; of a published row what this project noted, clause by clause."""
    if current() == "en" or (known := _resaid(text, _CONDITIONS)) != text:
        return text if current() == "en" else known
    clauses = text.split("; ")
    said = [_resaid(clause, _NOTED) for clause in clauses]
    return text if said == clauses else strung(said)


def left_open(name: str) -> str:
    """A condition that a source does not state."""
    return say(name) if name in _OPEN else name


def refusal(text: str) -> str:
    """Why a piece of evidence judges nothing, perhaps for several reasons."""
    if current() == "en":
        return text
    parts = text.split("; ")
    if all(any(shape(each).fullmatch(part) for each in _REFUSALS) for part in parts):
        return strung(_resaid(part, _REFUSALS) for part in parts)
    return resaid(text)


def party(who: str) -> str:
    """Who did it: a stack, perhaps on a machine, or two of them."""
    if current() == "en":
        return who
    if found := shape(_AGAINST).fullmatch(who):
        return say(_AGAINST, **found.groupdict())
    return " ÷ ".join(_place(each) for each in who.split(" ÷ "))


def _place(who: str) -> str:
    if found := shape(_ELSEWHERE).fullmatch(who):
        return say(_ELSEWHERE, who=found["who"])
    found = shape(_ON).fullmatch(who)
    return say(_ON, who=found["who"], machine=found["machine"]) if found else who


def _resaid(text: str, known: tuple[str, ...]) -> str:
    """The text by the first shape that it has; itself where it has none."""
    said = by_shape(text, known, _PLACES)
    return text if said is None else said


def _tiers(names: str) -> str:
    return both(wording.tier(name) for name in names.split(" and "))


def _machines(names: str) -> str:
    return either(names.split(" or "))


def _named(text: str) -> str:
    return say("not stated") if text == "not stated" else text


def _percent(text: str) -> str:
    number = text.removesuffix("%")
    return percent(int(number) / 100) if number.isdigit() else digits(text)


_PLACES: Places = {
    "tiers": _tiers,
    "machines": _machines,
    "tolerance": _percent,
    "name": _named,
}
