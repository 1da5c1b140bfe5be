"""What was found of a technique in a stack, in the reader's language.

In: a reason as `bench.support` stores it, in English: what the probe found, the catalogue's reason, or both. Out: the same in the
language that is spoken. The catalogue has its reasons in every language; the probe's are known by their shape, as those of
`bench.report.reasons` are, and what a package itself said stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from bench.report.language import current, digits, either, say, strung, to_say
from bench.report.shapes import Places, by_shape, shape
from bench.techniques import read_techniques

_FOUND = (
    to_say("{parameter} of {look} is {default} unless told otherwise"),
    to_say("no file of {files} has the word {words}"),
    to_say("no parameter {name}"),
    to_say("no module {name}"),
    to_say("no package {name}"),
    to_say("{file} has “{word}”: look at what it does, then at techniques.toml"),
    to_say("adapters on a 4-bit model are {dtypes} in trl's SFTTrainer"),
    to_say("LoRALinear on a 4-bit layer has {dtypes} adapters"),
    to_say("mx.quantize and mx.quantized_matmul take {mode}"),
    to_say("mx.quantize refuses {mode}: {error}"),
    to_say("the Metal device has {seen} bytes of memory, the computer {total}"),
    to_say("no Metal device here"),
    to_say("forward and backward of {tokens} tokens peak at {peak} MB, their scores take {scores}"),
    to_say("nn.QQLinear in mxfp8 does not train on Metal: {error}"),
    to_say("nn.QQLinear in mxfp8 trains on Metal"),
)
_UNPROBED = to_say("not probed: {why}")
_WHY = (
    to_say("wingspan doctor --support, where the stack is installed, finds it out"),
    to_say("{names} not installed in this environment"),
    to_say("nothing to probe"),
    to_say("not done after {seconds} s"),
    to_say("the probe ended with {code}: {message}"),
    to_say("no Metal device here"),
)
_PARAMETER = to_say("{parameter} of {look}")
_NOBODY = to_say("no such technique, or no stack on that side")
_ANSWER = re.compile(r"(?P<place>[\w-]+@\w+) (?P<has>yes|no|unknown): (?P<reason>.+)")
_OPEN = re.compile(r"; (?=[\w-]+@\w+ )")
_ENDS: Mapping[str, str] = {"yes": to_say("yes"), "no": to_say("no"), "unknown": to_say("not known")}


def support_reason(reason: str) -> str:
    """Why an answer is what it is."""
    if current() == "en":
        return reason
    told = _catalogued()
    if reason in told:
        return told[reason]
    for found, why in _splits(reason):
        if why in told:
            return strung([_found(found), told[why]])
    return _found(reason)


def support_answer(answer: str) -> str:
    """An answer as it stands for evidence: "hf@cuda yes: why"."""
    found = _ANSWER.fullmatch(answer)
    if current() == "en" or not found:
        return answer
    reason = support_reason(found["reason"])
    return say("{place} {answer}: {reason}", place=found["place"], answer=say(_ENDS[found["has"]]), reason=reason)


def support_refusal(refused: str) -> str:
    """Why a technique answers nothing: of each place why it is not known."""
    if current() == "en" or not refused:
        return refused
    if refused == _NOBODY:
        return say(_NOBODY)
    places = (part.partition(" ") for part in _OPEN.split(refused))
    return strung(f"{place} {support_reason(why)}" for place, _, why in places)


def _catalogued() -> dict[str, str]:
    """The catalogue's reasons in the language that is spoken, by the English ones."""
    clues = (clue for technique in read_techniques() for clue in technique.clues.values())
    return {clue.why: clue.reason[current()] for clue in clues if clue.reason}


def _splits(reason: str) -> Iterator[tuple[str, str]]:
    """Before and behind each "; ", which may stand within either part."""
    parts = reason.split("; ")
    for at in range(1, len(parts)):
        yield "; ".join(parts[:at]), "; ".join(parts[at:])


def _found(text: str) -> str:
    if found := shape(_UNPROBED).fullmatch(text):
        why = by_shape(found["why"], _WHY, _PLACES)
        return say(_UNPROBED, why=found["why"] if why is None else why)
    if (known := by_shape(text, _FOUND, _PLACES)) is not None:
        return known
    found = shape(_PARAMETER).fullmatch(text)
    named = found and not any(" " in part for part in found.groups())
    return say(_PARAMETER, **found.groupdict()) if found and named else text


def _words(words: str) -> str:
    return either(words.split(" or "))


_PLACES: Places = {"words": _words, "seen": digits, "total": digits}
