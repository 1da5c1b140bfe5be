"""Rulings on claims, and what is said of their evidence, in the reader's language.

In: texts as `bench.claims` words them, in English. Out: the same said in the language that is spoken; a text that is none of
theirs, as what a source says, stays as it is. The judges do not know that there are readers, so their sentences are known here
by their shape, as those of `bench.report.reasons` are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.report import wording
from bench.report.language import both, current, digits, either, percent, say, strung, to_say
from bench.report.reasons import resaid, shape

_SAY = (to_say("{count} of {all} say {what}"), to_say("{count} of {all} says {what}"))
_WHAT = (
    to_say("the claim's number, within {tolerance}"),
    to_say("another number than the claim's, in its direction"),
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
    to_say("of {all} techniques {first} are on the first side alone, {second} on the second alone"),
    to_say("so on {count} of {all}"),
    to_say("nothing that answers it is known"),
    to_say("no run has answered it yet, nobody published it under its conditions, and no prediction is about it"),
    to_say("no run on {machines} has answered it yet, nobody published it under its conditions, and no prediction is about it"),
)
_REST = (
    to_say("elsewhere it does not"),
    to_say("the rest cannot be told apart"),
    to_say("{tiers} evidence alone settles nothing"),
    to_say("the 80% interval reaches what is claimed"),
)
_UNUSABLE = to_say("{count} answers were found, and none can be used: {reason}")
_CONDITIONS = (
    to_say("by closed form and calibration"),
    to_say("parts at the peak, by following storages"),
    to_say("bytes read and written a second; a rating is not reached"),
    to_say("workload {digest}"),
    to_say("only {machine} can"),
    to_say("it may fit {machine}, or not"),
    to_say("meter {meter}"),
    to_say("{metric}, clean runs"),
)
_REFUSALS = (
    to_say("under other conditions: {conditions}"),
    to_say("meter {meter}: not the framework's own peak"),
    to_say("another trainer ({name})"),
    to_say("another program ({name})"),
    to_say("read while it generated, not while it trained"),
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
    if found := shape(_UNUSABLE).fullmatch(reason):
        return say(_UNUSABLE, count=found["count"], reason=refusal(found["reason"]))
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
    """What is said of the conditions of a piece of evidence."""
    return text if current() == "en" else _resaid(text, _CONDITIONS)


def refusal(text: str) -> str:
    """Why a piece of evidence judges nothing."""
    if current() == "en":
        return text
    known = _resaid(text, _REFUSALS)
    return resaid(text) if known == text else known


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
    for each in known:
        if found := shape(each).fullmatch(text):
            return say(each, **{name: _PLACES.get(name, str)(value) for name, value in found.groupdict().items()})
    return text


def _tiers(names: str) -> str:
    return both(wording.tier(name) for name in names.split(" and "))


def _machines(names: str) -> str:
    return either(names.split(" or "))


def _percent(text: str) -> str:
    number = text.removesuffix("%")
    return percent(int(number) / 100) if number.isdigit() else digits(text)


_PLACES: Mapping[str, Callable[[str], str]] = {"tiers": _tiers, "machines": _machines, "tolerance": _percent}
"""How what stands in a place is said, where it isn't data."""
