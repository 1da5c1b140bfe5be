"""Why two parties were not compared, in the reader's language.

In: a reason as `bench.fairness`, `bench.ladder` and `bench.analysis` word it, in English. Out: the same said in the language that
is spoken; a reason that is none of theirs stays as it is. What compares does not know that there are readers, so its sentences
are known here by their shape: each text below is one, with the places that it fills.
"""

from __future__ import annotations

from bench.report import wording
from bench.report.language import current, digits, percent, say, strung, to_say
from bench.report.shapes import Places, by_shape, shape

STEPS = to_say("measured steps")
REQUESTS = to_say("measured requests")
_DIFFERS = to_say("the work differs: {fields}")
_FIELD = to_say("{field} {first} against {second}")
_NO_FIELD = to_say("the architectures are not the same")
_SIDE = to_say("{who}: {reason}")
_WHOLE = (
    to_say("they were given different tokens"),
    to_say("trainable parameters were not recorded on both sides"),
    to_say("{who} is {tier}, which says nothing of speed"),
    to_say("{who} has no clean run ({outcomes})"),
    to_say("trainable parameters differ by {share} ({least} against {most})"),
    to_say("they took different numbers of {steps} ({first} against {second})"),
    to_say("the figures cover different things ({scopes} against {others})"),
    to_say("the version of {package} was not recorded on both sides"),
    to_say("the versions of {package} differ ({versions} against {others})"),
    to_say("{metric} is not above zero in every run"),
)
_OF_A_SIDE = (
    to_say("its runs were given different tokens"),
    to_say("its tokens were not recorded"),
    to_say("what its figures cover was not recorded"),
    to_say("its {steps} were not recorded"),
    to_say("its runs took different numbers of {steps} ({counts})"),
    to_say("its figures cover different things ({scopes})"),
    to_say("its runs were done in {ways} different ways"),
)


def resaid(reason: str) -> str:
    """The reason in the language that is spoken."""
    if current() == "en":
        return reason
    if found := shape(_DIFFERS).fullmatch(reason):
        return say(_DIFFERS, fields=strung(_field(part) for part in found["fields"].split("; ")))
    if (whole := by_shape(reason, _WHOLE, _PLACES)) is not None:
        return whole
    who, _, rest = reason.rpartition(": ")
    known = by_shape(rest, _OF_A_SIDE, _PLACES) if who else None
    return reason if known is None else say(_SIDE, who=_party(who), reason=known)


def _field(part: str) -> str:
    if part == _NO_FIELD:
        return say(_NO_FIELD)
    found = shape(_FIELD).fullmatch(part)
    return say(_FIELD, **found.groupdict()) if found else part


def _party(name: str) -> str:
    """`hf@cuda on pc` with the word between said; a rung has none."""
    who, on, machine = name.partition(" on ")
    return f"{who} {say('on')} {machine}" if on else name


def _outcomes(counted: str) -> str:
    """Outcomes as `bench.analysis` counts them, "2 crashed, 1 ok"; what is not so stays as it is."""
    parts = [part.partition(" ") for part in counted.split(", ")]
    return ", ".join(wording.counted(name, int(n)) if n.isdigit() else f"{n} {name}" for n, _, name in parts)


def _share(percentage: str) -> str:
    return percent(float(percentage.rstrip("%")) / 100, 2)


def _steps(what: str) -> str:
    return say(what) if what in (STEPS, REQUESTS) else what


_PLACES: Places = {
    "who": _party,
    "tier": wording.tier,
    "outcomes": _outcomes,
    "share": _share,
    "least": digits,
    "most": digits,
    "steps": _steps,
}
