"""An advice for a reader at a terminal.

In: an `Advice`. Out: for each method a line that says which machine and how sure that is, then what each machine takes and what
would make it fit, and at the end what is not known. GB is 10⁹ bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.advise.answer import J_PER_KWH, PRICE_PER_KWH, Advice, MethodAdvice, Option
from bench.advise.figure import Figure
from bench.advise.mend import Mends
from bench.advise.stack import Stack
from bench.predict.told import FITS, amount, rate
from bench.reading.strict import printable

SURE = ((0.95, "almost surely"), (0.8, "very likely"), (0.6, "probably"), (0.0, "little better than a guess: perhaps"))
"""From which probability on the choice is called so."""
SCOPES = {
    "gpu-board": "of the GPU's board alone",
    "wall": "at the wall",
    "soc": "of the chip alone",
    "package": "of the processor alone",
}
CHANGES = {
    "batch_size": "batches of {} with accumulation",
    "gradient_checkpointing": "gradient checkpointing",
    "optimizer": "the optimizer's states in 8 bits",
    "modules": "adapters on {} only",
    "rank": "rank {}",
    "sequence_length": "a context of {:,} tokens",
    "method": "{} instead",
}
WITH_ANOTHER = ("gradient_accumulation",)
"""Fields that change along with another."""


def describe(advice: Advice) -> str:
    """Everything, a line each."""
    question = advice.question
    lines = [f"{question.model.name} on {question.tokens:,} tokens; possible: {_possible(advice)}"]
    for each in advice.methods:
        lines += ["", sentence(each), *(f"  {line}" for option in each.options for line in _option_lines(option))]
        lines += [f"  {note}" for note in [energy_note(each)] if note]
    lines += ["", *(f"note  {each}" for each in unknown(advice))]
    return "\n".join(printable(line) for line in lines)


def _possible(advice: Advice) -> str:
    possible = ", ".join(each.method for each in advice.methods if each.possible) or "nothing of what was asked"
    perhaps = ", ".join(each.method for each in advice.methods if each.hope)
    return f"{possible}; probably not: {perhaps}" if perhaps else possible


def sentence(found: MethodAdvice) -> str:
    """The recommendation, and how sure it is."""
    chosen = found.recommended
    if chosen is None:
        return _without(found)
    parts = [f"{found.method}: {chosen.stack.profile.name} with {chosen.stack.cell.backend}", *_against(found, chosen)]
    said = next(word for least, word in SURE if chosen.chance >= least)
    also = f"; else {other.stack.profile.name}" if (other := _fallback(found, chosen)) else ""
    return f"{', '.join(parts)}; {said} right ({_percent(chosen.chance)}, {' and '.join(found.tiers) or 'no evidence'}){also}"


def _without(found: MethodAdvice) -> str:
    """Nothing is recommended; what may fit after all is named, as what probably does not."""
    machines = ", ".join(each.stack.profile.name for each in found.options) or "the machines"
    hope = found.hope
    if hope is None:
        return f"{found.method}: fits none of {machines}"
    chance = f"{_percent(hope.stack.chance)}, {' and '.join(hope.tiers)}"
    return f"{found.method}: probably fits none of {machines}; the likeliest is {hope.stack.profile.name} ({chance})"


def _percent(chance: float) -> str:
    """Nothing is certain here."""
    return "over 99%" if chance > 0.99 else f"{chance:.0%}"


def _against(found: MethodAdvice, chosen: Option) -> Iterator[str]:
    if chosen.stack.fit is not None and chosen.stack.fit.fits == "tight":
        yield "if it fits there"
    if chosen.duration is not None:
        others = [each for each in found.options if each is not chosen and each.fits and each.duration is not None]
        against = " and ".join(f"{_span(each.duration)} on {each.stack.profile.name}" for each in others if each.duration)
        yield f"about {_span(chosen.duration)}" + (f" against {against}" if against else "")
    alone = [each for each in found.options if each is not chosen and not each.fits]
    if alone and len(alone) == len(found.options) - 1:
        yield f"as it does not fit {' or '.join(each.stack.profile.name for each in alone)}"


def _fallback(found: MethodAdvice, chosen: Option) -> Option | None:
    """Where to go should it not fit."""
    if chosen.stack.fit is None or chosen.stack.fit.fits == "yes":
        return None
    sure = [each for each in found.options if each is not chosen and each.stack.fit is not None and each.stack.fit.fits == "yes"]
    return max(sure, key=lambda each: each.chance, default=None)


def _option_lines(option: Option) -> Iterator[str]:
    stack, fit = option.stack, option.stack.fit
    yield f"{stack.profile.name} ({stack.who}): {_fit(stack)}"
    yield "  " + ", ".join(_costs(option))
    if option.mends is not None and fit is not None:
        yield from (f"  would fit with {line}" for line in _mended(option.mends))
        if option.mends.lacking_bytes:
            yield f"  nothing helps: the smallest variant lacks {amount(option.mends.lacking_bytes)}"


def _fit(stack: Stack) -> str:
    fit = stack.fit
    if fit is None:
        return "whether it fits is not known"
    room = ""
    if fit.headroom is not None:
        there = amount(abs(fit.headroom) * stack.capacity_bytes)
        room = f", {there} {'of' if fit.headroom >= 0 else 'more than'} its {amount(stack.capacity_bytes)}"
        room += " free" if fit.headroom >= 0 else ""
    peak = f", peak {amount(stack.peak.value)} ({stack.peak.tier})" if stack.peak else ""
    return f"{FITS[fit.fits]} ({fit.probability:.2f}, {fit.tier}{room}){peak}"


def _costs(option: Option) -> Iterator[str]:
    if option.duration is None:
        yield "how fast is not known"
        return
    duration, power = option.duration, option.stack.power
    yield f"{_span(duration)}{_ends(duration)} ({duration.tier})" + ("" if option.fits else " were it to fit")
    if option.energy is not None and option.cost is not None and power is not None:
        scope = SCOPES.get(option.energy.scope or "", "of what, is not recorded")
        yield f"{option.energy.value / J_PER_KWH:.3g} kWh {scope} ({option.energy.tier})"
        yield f"costs {option.cost.value:.2f}"


def _ends(duration: Figure) -> str:
    if duration.low is None or duration.high is None:
        return ""
    return f" ({_time(duration.low)} to {_time(duration.high)})"


def _span(duration: Figure) -> str:
    return _time(duration.value)


def _time(seconds: float) -> str:
    """Two or three digits, in the unit that they read best in."""
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{rate(seconds / size)} {unit}"
    return f"{rate(seconds)} s"


def _mended(found: Mends) -> Iterator[str]:
    for each in [*found.alone, *([found.together] if found.together else [])]:
        fit, speed = each.stack.fit, each.stack.rate
        chance = f"{fit.probability:.2f}, {fit.tier}" if fit else ""
        yield f"{changes_told(each.changes)}, {each.stack.cell.backend} ({chance})" + (
            f", {rate(speed.value)} tokens/s" if speed else ""
        )


def changes_told(changes: Mapping[str, Any]) -> str:
    return " and ".join(CHANGES[name].format(value) for name, value in changes.items() if name not in WITH_ANOTHER)


def energy_note(found: MethodAdvice) -> str | None:
    """How the energies compare, or why they are not compared."""
    known = [each for each in found.options if each.fits and each.energy is not None]
    if len(known) < 2:
        return None
    if found.energy_ratio is not None:
        ratio, scope = found.energy_ratio
        least = min(known, key=lambda each: each.energy.value if each.energy else 0.0)
        return f"energy: {least.stack.profile.name} takes the least, {ratio:.3g} times less than the most ({scope})"
    told = ", ".join(f"{each.stack.profile.name} {_scope(each)}" for each in known)
    return f"energy and money are not compared: the watts cover different things ({told})"


def _scope(option: Option) -> str:
    return SCOPES.get((option.energy.scope if option.energy else None) or "", "not recorded")


def unknown(advice: Advice) -> Iterator[str]:
    """What the figures leave out."""
    yield "time is that of training steps; loading, evaluation and saving come on top, and padding counts as tokens"
    options = [option for each in advice.methods for option in each.options]
    scopes = sorted({option.energy.scope or "" for option in options if option.energy is not None})
    if "gpu-board" in scopes:
        yield "a board's energy leaves out the rest of its computer, which takes power as well"
    if any(option.energy is not None and option.stack.power and option.stack.power.low is None for option in options):
        yield "watts have no interval of their own: that of energy and money is the time's"
    default = advice.question.price_per_kwh == PRICE_PER_KWH
    yield f"money at {advice.question.price_per_kwh:g} a kWh" + (
        ": euro, the average of EU households in late 2024; --price-per-kwh sets your own" if default else ""
    )
    if any(option.stack.cell.device == "metal" for option in options):
        yield "what a Mac gives a process of its memory is the catalogue's figure; the system's own may be higher, or be set so"
    yield from dict.fromkeys(note for option in options for note in option.stack.notes)
    yield "predicted intervals hold 8 of 10, measured ones 95%"
