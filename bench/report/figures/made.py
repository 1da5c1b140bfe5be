"""What a sketch asks for, drawn.

In: a `Sketch`. Out: the figure in the language that is spoken, None where there is nothing to draw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.report.document import Drawn, FigureName, Sketch
from bench.report.figures import claims, energy, memory, rates, reach, winners

_MAKERS: Mapping[FigureName, Callable[..., Drawn | None]] = {
    "winners": winners.winners,
    "reach": reach.reach,
    "claims": claims.claims,
    "memory": memory.memory,
    "speed": rates.speed,
    "ratios": rates.ratios,
    "energy": energy.energy,
}


def made(sketch: Sketch) -> Drawn | None:
    """The figure of the sketch."""
    return _MAKERS[sketch.figure](*sketch.data)
