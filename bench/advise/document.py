"""An advice as JSON.

In: an `Advice`. Out: the document of `advise --json`: SI units in the names, each figure with its interval, tier and evidence.
"""

from __future__ import annotations

from typing import Any

from bench.advise.answer import Advice, MethodAdvice, Option, Question
from bench.advise.figure import Figure
from bench.advise.mend import Mend, Mends
from bench.advise.stack import Stack
from bench.advise.told import changes_told, energy_note, sentence, unknown
from bench.spec import workload


def document(advice: Advice) -> dict[str, Any]:
    """The document of `advise --json`."""
    question = advice.question
    return {
        "model": question.model.name,
        "parameters": question.model.parameters,
        "tokens": question.tokens,
        "price_per_kwh": question.price_per_kwh,
        "machines": [profile.name for profile in question.machines],
        "possible": [each.method for each in advice.methods if each.possible],
        "methods": [_method_json(question, each) for each in advice.methods],
        "unknown": [*unknown(advice)],
    }


def _method_json(question: Question, found: MethodAdvice) -> dict[str, Any]:
    chosen, ratio = found.recommended, found.energy_ratio
    return {
        "method": found.method,
        "possible": found.possible,
        "workload": _declared(question, found.method),
        "recommended": chosen.stack.profile.name if chosen else None,
        "probability": chosen.chance if chosen else None,
        "tiers": list(found.tiers),
        "text": sentence(found),
        "energy_ratio": ratio[0] if ratio else None,
        "energy_note": energy_note(found),
        "options": [_option_json(each) for each in found.options],
    }


def _declared(question: Question, method: str) -> dict[str, Any]:
    work = workload(**question.of(method))
    names = ("batch_size", "sequence_length", "gradient_checkpointing", "optimizer", "rank", "modules", "quantization_bits")
    return {"digest": work.digest, **{name: getattr(work, name) for name in names}}


def _option_json(option: Option) -> dict[str, Any]:
    return {
        **_stack_json(option.stack),
        "probability": option.chance,
        "duration_s": _figure_json(option.duration),
        "energy_j": _figure_json(option.energy),
        "cost": _figure_json(option.cost),
        "stacks": [_stack_json(each) for each in option.stacks],
        "mends": None if option.mends is None else _mends_json(option.mends),
    }


def _stack_json(stack: Stack) -> dict[str, Any]:
    fit = stack.fit
    room = fit.headroom if fit else None
    return {
        "machine": stack.profile.name,
        "cell": stack.cell.id,
        "backend": stack.cell.backend,
        "device": stack.cell.device,
        "fits": fit.fits if fit else None,
        "fit_probability": fit.probability if fit else None,
        "fit_tier": fit.tier if fit else None,
        "fit_evidence": list(fit.evidence) if fit else [],
        "headroom_share": room,
        "headroom_bytes": None if room is None else round(room * stack.capacity_bytes),
        "capacity_bytes": stack.capacity_bytes,
        "peak_bytes": _figure_json(stack.peak),
        "tokens_per_s": _figure_json(stack.rate),
        "power_w": _figure_json(stack.power),
        "notes": list(stack.notes),
    }


def _figure_json(figure: Figure | None) -> dict[str, Any] | None:
    if figure is None:
        return None
    names = ("value", "low", "high", "tier", "scope")
    return {**{name: getattr(figure, name) for name in names}, "evidence": list(figure.evidence)}


def _mends_json(found: Mends) -> dict[str, Any]:
    return {
        "alone": [_mend_json(each) for each in found.alone],
        "together": None if found.together is None else _mend_json(found.together),
        "lacking_bytes": found.lacking_bytes,
    }


def _mend_json(mend: Mend) -> dict[str, Any]:
    return {"changes": dict(mend.changes), "text": changes_told(mend.changes), **_stack_json(mend.stack)}
