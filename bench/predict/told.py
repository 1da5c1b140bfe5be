"""A prediction for a reader: parts, total, fit, rate, power, and what to keep in mind.

In: a cell, its prediction, the machine's name. Out: lines of text. GB is 10⁹ bytes; intervals are 80%.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.predict.prediction import Memory, Prediction
from bench.reading.strict import printable
from bench.spec import Cell

MEANINGS = {
    "weights": "the model, as it stands in memory",
    "adapters": "the matrices that are trained beside it",
    "gradients": "of what is trained, at the fullest moment",
    "optimizer": "its state",
    "activations": "kept for the backward pass, and temporaries, the optimizer's too",
    "logits": "scores of the vocabulary, and the loss",
    "overhead": "workspaces, dequantised weights, unfinished work",
}
SERVING = {"activations": "keys and values of all positions, and the prefill's temporaries"}
WAYS = {
    "rules": "by rules (closed form)",
    "trace": "traced: the step itself, under fake tensors",
    "graph": "from the step's own graph, evaluated on paper",
}
FITS = {"yes": "fits", "tight": "may or may not fit", "no": "does not fit"}


def describe(cell: Cell, found: Prediction, machine: str) -> str:
    """Everything, a line each."""
    memory = found.memory
    lines = [f"{cell.id} on {machine}: {_work(cell)}", *_parts(cell, memory), _peak(memory), _fit(found, machine)]
    lines += [*_speed(cell, found), f"how       {WAYS[memory.how]}; intervals hold 8 of 10"]
    lines += [f"note      {note}" for note in (*memory.notes, *found.speed.notes)]
    return "\n".join(printable(line) for line in lines)


def amount(nbytes: float) -> str:
    """Gigabytes to two places; three digits in the largest unit below, down to whole bytes."""
    if nbytes >= 1e9:
        return f"{nbytes / 1e9:.2f} GB"
    for unit, size in (("MB", 1e6), ("kB", 1e3)):
        if nbytes >= size:
            return f"{nbytes / size:.3g} {unit}"
    return f"{nbytes:.0f} byte" + ("" if round(nbytes) == 1 else "s")


def rate(value: float) -> str:
    """Three digits, and no power of ten to read."""
    return f"{float(f'{value:.3g}'):,g}" if value < 1e6 else f"{value:.2e}"


def shortage(found: Prediction) -> str:
    """Why a cell is not tried: what it needs, with its interval, against what there is."""
    memory, there = found.memory, found.capacity_bytes or 0
    low, high = memory.held_low_bytes / 1e9, memory.held_high_bytes / 1e9
    return (
        f"needs about {memory.held_bytes / 1e9:.3g} GB ({low:.3g} to {high:.3g}) by prediction, and this machine gives a process "
        f"{there / 1e9:.3g} GB; --try-anyway tries"
    )


def foretold(found: Prediction) -> str:
    """A prediction in a few words, for the line of a plan."""
    fits = "" if found.fits is None else f", fits: {found.fits} ({found.fit_probability:.2f})"
    power = "" if found.speed.power_w is None else f", {found.speed.power_w:.3g} W"
    return f"peak {amount(found.memory.peak_bytes)}, held {amount(found.memory.held_bytes)}{fits}{_rate(found)}{power}"


def _rate(found: Prediction) -> str:
    speed = found.speed
    if speed.tokens_per_s is None:
        return ""
    return (
        f", {rate(speed.tokens_per_s)} tokens/s ({rate(speed.tokens_per_s_low or 0.0)} to {rate(speed.tokens_per_s_high or 0.0)})"
    )


def _work(cell: Cell) -> str:
    work = cell.workload
    if work.serves:
        return f"{work.batch_size} × {work.prompt_tokens} tokens of prompt, {work.generated_tokens} generated"
    checkpointing = "with" if work.gradient_checkpointing else "without"
    adapters = f", rank {work.rank} in {work.adapter_dtype}" if work.has_adapters else ""
    return (
        f"{work.batch_size} × {work.sequence_length} tokens, {checkpointing} gradient checkpointing, {work.optimizer}{adapters}"
    )


def _parts(cell: Cell, memory: Memory) -> Iterator[str]:
    meanings = {**MEANINGS, **(SERVING if cell.workload.serves else {})}
    for name, value in memory.parts.items():
        if value:
            yield f"{name:<12}{amount(value):>12}  {meanings[name]}"


def _peak(memory: Memory) -> str:
    low, high = amount(memory.peak_low_bytes), amount(memory.peak_high_bytes)
    return f"{'peak':<12}{amount(memory.peak_bytes):>12}  ({low} to {high}), by the framework's own count"


def _fit(found: Prediction, machine: str) -> str:
    memory = found.memory
    low, high = amount(memory.held_low_bytes), amount(memory.held_high_bytes)
    held = f"{'held':<12}{amount(memory.held_bytes):>12}  of the device ({low} to {high})"
    if found.fits is None or found.capacity_bytes is None:
        return f"{held}; how much {machine} can give is not known"
    there = f"{machine} gives a process {found.capacity_bytes / 1e9:.1f} GB"
    return f"{held}; {there}: {FITS[found.fits]} (probability {found.fit_probability:.2f})"


def _speed(cell: Cell, found: Prediction) -> Iterator[str]:
    speed = found.speed
    if speed.tokens_per_s is None:
        return
    what = "tokens/s generated" if cell.workload.serves else "tokens/s"
    low, high = rate(speed.tokens_per_s_low or 0.0), rate(speed.tokens_per_s_high or 0.0)
    line = f"{'speed':<12}{rate(speed.tokens_per_s):>9} {what} ({low} to {high})"
    if speed.prefill_tokens_per_s is not None:
        line += f", {rate(speed.prefill_tokens_per_s)} of the prompt"
    yield f"{line}, were it to fit" if found.fits == "no" else line
    if speed.power_w is not None:
        ends = "" if speed.power_low_w is None else f" ({speed.power_low_w:.3g} to {speed.power_high_w or speed.power_w:.3g})"
        yield f"{'power':<12}{speed.power_w:>9.3g} W{ends}, {speed.power_scope}; {speed.j_per_token or 0:.3g} J a token"
