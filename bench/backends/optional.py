"""Packages that a cell asks for beyond those of its backend.

In: a cell. Out: what this environment lacks of them, with the remedy. A rung of the ladder whose package is not installed is a
hole that can be filled, and never another rung in its place.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.backends.interface import absent
from bench.spec import Cell, Scalar

OPTIONAL: Mapping[tuple[str, Scalar], tuple[str, str]] = {
    ("attention", "flash-attn"): (
        "flash_attn",
        "with nvcc at hand, pip install hatchling setuptools && pip install --no-build-isolation '.[cuda-flash]'",
    ),
    ("kernels", "liger"): ("liger_kernel", "pip install '.[cuda-unsloth]'"),
}
"""By field of the implementation and its value: the module, and how to get it."""


def optional_missing(cell: Cell) -> tuple[tuple[str, str], ...]:
    """(module, remedy) of each package that the cell's implementation needs and this environment lacks; imports none."""
    asked = (need for (name, value), need in OPTIONAL.items() if getattr(cell.implementation, name) == value)
    return tuple((module, remedy) for module, remedy in asked if absent(module))
