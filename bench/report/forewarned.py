"""What the predictor warns of, in the reader's language.

In: a note of a prediction (`Stack.notes`), as `wingspan predict` and `advise` print it, in English. Out: the same said in the
language that is spoken; a note that is not known here stays as it is. Notes are known by their shape, as rulings are.
"""

from __future__ import annotations

from bench.report.language import current, digits, percent, to_say
from bench.report.shapes import Places, by_shape

_NOTES = (
    to_say("uncalibrated: cuBLAS workspaces, the CUDA context and its kernels' own memory are stated constants"),
    to_say("unsloth's rules come from reading its source, and its interval is by judgement: nothing of it was traced or run"),
    to_say("low end: MLX's queue of unfinished work is empty; value: it is full"),
    to_say("computed by CUDA's rules: torch's attention on MPS may make scores of length × length on top"),
    to_say("eager attention keeps scores of length × length in every block"),
    to_say("unknown architecture {family}: read as a Llama with its sizes, hence a wider interval"),
    to_say("unknown architecture {family}: read as a mixture of {experts} experts with its sizes, hence a wider interval"),
    to_say("no rates are known for this device: no speed predicted"),
    to_say("no speed is predicted of torch on MPS: nothing is known of which share of the GPU it reaches"),
    to_say("{machine} has no rated bandwidth or products: no speed predicted"),
    to_say("no speed is predicted of a mixture of experts: which of them a token takes is not counted"),
    to_say("speed: of generating, shares of the rated bandwidth are assumed (reports/prediction.md: published rates beside)"),
    to_say("speed: assumed shares of the rated speed, nothing was fitted"),
    to_say(
        "speed: its share of the machine's rates was fitted on few sources (rates: {rows}, sources: {sources}), so its interval"
        " is mostly an assumption"
    ),
    to_say("watts: {share} of the limit of {limit} W, as other machines drew; no reading of this one is known"),
)


def forewarned(note: str) -> str:
    """A note of a prediction, for people."""
    if current() == "en":
        return note
    said = by_shape(note, _NOTES, _PLACES)
    return note if said is None else said


def _percent(text: str) -> str:
    return percent(float(text.removesuffix("%")) / 100)


_PLACES: Places = {"share": _percent, "limit": digits, "rows": digits, "sources": digits}
