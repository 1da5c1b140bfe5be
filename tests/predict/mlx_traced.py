"""Graphs of small functions of MLX."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from bench.predict.mlx_graph import Graph, read


def exported(function: Any, *given: Any) -> Graph:
    events: list[Any] = []
    mx.export_function(events.append, function, *given)
    return read(events)
