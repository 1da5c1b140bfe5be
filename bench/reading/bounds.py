"""How large the parts of an architecture may be: what a `config.json` says beyond these is a slip of the pen.

In: nothing. Out: annotated types for the readers of configurations. The widest of everything makes fewer than 2**63 parameters,
which the results must hold; a test counts them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le

from bench.reading.rope import MAX_POSITIONS

Vocabulary = Annotated[int, Ge(4), Le(2**24)]  # three ids are reserved, see bench.data
Width = Annotated[int, Ge(1), Le(2**20)]
Inner = Annotated[int, Ge(1), Le(2**24)]
Heads = Annotated[int, Ge(1), Le(2**14)]
Layers = Annotated[int, Ge(1), Le(1024)]
Positions = Annotated[int, Ge(1), Le(MAX_POSITIONS)]
Spread = Annotated[float, Gt(0), Le(100)]
Epsilon = Annotated[float, Gt(0), Le(1)]
Share = Annotated[float, Ge(0), Le(1)]
LayerType = Literal["full_attention", "sliding_attention"]
