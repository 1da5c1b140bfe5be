"""What is asked of a frontier: ladders of cells.

In: a suite's cells and its table `[frontier]`. Out: a `Question` for each edge to find: cells that differ in one field alone,
from the smallest to the largest; and whether one cell surely needs at least the memory of another, which is what a run teaches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.model import Model
from bench.spec import TRAINING_FIELDS, WORKLOAD_FIELDS, Cell, Frontier, Span, Workload

Value = int | str
MODEL = "model"
_SIZES = ("batch_size", "sequence_length", "prompt_tokens")
_DIMENSIONS = (
    *("num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size", "num_attention_heads", "num_key_value_heads"),
    *("head_dim", "parameters"),
)
"""Of a `config.json`: what makes a model of one family need more memory (`parameters` is the fake backend's)."""
_NO_CONDITIONS = (*_SIZES, "model", "revision", "seed", "learning_rate")
"""Fields of a workload that are sizes, or on which memory does not depend."""


@dataclass(frozen=True, slots=True)
class Question:
    """One edge to find: the largest of `values` along `axis` that fits. Of models there is a base each, else one for all.

    `axis` is a field that may be searched (`bench.spec.SEARCHED`), or `model`.
    """

    axis: str
    values: Sequence[Value]
    bases: tuple[Cell, ...]

    def cell(self, index: int) -> Cell:
        """The cell at one of the values, counted from the smallest."""
        return self.bases[index] if self.axis == MODEL else at(self.bases[0], self.axis, int(self.values[index]))

    @property
    def id(self) -> str:
        """The id of its cells without the field searched, which stands behind it: `llama-3.1-8b/lora/hf@cuda: batch_size`."""
        name, _, rest = self.bases[0].id.partition("/")
        return f"{'*' if self.axis == MODEL else name}/{rest}: {self.axis}"

    @property
    def held(self) -> dict[str, int]:
        """The sizes that stay as they are."""
        sizes = {name: getattr(self.bases[0].workload, name) for name in _SIZES if uses(self.bases[0].workload, name)}
        return {name: size for name, size in sizes.items() if name != self.axis and size is not None}


def questions(frontier: Frontier, cells: Sequence[Cell]) -> tuple[Question, ...]:
    """What is asked of the cells: along each span those whose method has the field, then the largest model."""
    asked = [_along(span, cell) for cell in cells for span in frontier.spans if uses(cell.workload, span.field)]
    return (*(question for question in asked if question.values), *(_largest(cells) if frontier.model else ()))


def uses(work: Workload, name: str) -> bool:
    """Whether the work has that field at all."""
    return name not in TRAINING_FIELDS if work.serves else name != "prompt_tokens"


def at(cell: Cell, name: str, value: int) -> Cell:
    """The cell with another value of a field searched, which its id then names."""
    work = cell.workload
    changed: dict[str, Any] = {name: value}
    if name == "prompt_tokens":
        changed["sequence_length"] = value + (work.generated_tokens or 0)
    return replace(cell, workload=replace(work, **changed), swept=(*cell.swept, (name, value)))


def _along(span: Span, cell: Cell) -> Question:
    """No sequence is longer than the model has positions."""
    most, work = span.most, cell.workload
    positions = work.model.config.get("max_position_embeddings")
    if positions is not None and span.field != "batch_size":
        generated = (work.generated_tokens or 0) if span.field == "prompt_tokens" else 0
        most = min(most, positions - generated)
    return Question(span.field, range(span.least, most + 1, span.step), (cell,))


def _largest(cells: Sequence[Cell]) -> Iterator[Question]:
    """The cells that differ in nothing but the model, by its size (or as the suite lists them, where that is unknown)."""
    groups: dict[Any, list[Cell]] = {}
    for cell in cells:
        work = cell.workload
        sizes = tuple(getattr(work, name) for name in _SIZES)
        groups.setdefault((cell.backend, cell.device, cell.implementation, _conditions(work), sizes), []).append(cell)
    for group in groups.values():
        ordered = sorted(group, key=lambda cell: cell.workload.model.parameters or 0)
        if len(ordered) > 1:
            yield Question(MODEL, tuple(cell.workload.model.name for cell in ordered), tuple(ordered))


def needs_no_less(more: Cell, less: Cell) -> bool:
    """Whether the first cell surely needs at least the memory of the second.

    The same stack, implementation, method and conditions, models of one family, and no size or dimension smaller. A dimension
    that only one of two models states leaves it open.
    """
    first, second = more.workload, less.workload
    same = (more.backend, more.device, more.implementation) == (less.backend, less.device, less.implementation)
    sizes = all((getattr(first, name) or 0) >= (getattr(second, name) or 0) for name in _SIZES)
    return same and sizes and _conditions(first) == _conditions(second) and _no_smaller(first.model, second.model)


def _conditions(work: Workload) -> tuple[Any, ...]:
    """Everything but sizes that memory may depend on."""
    return tuple(getattr(work, name) for name in WORKLOAD_FIELDS if name not in _NO_CONDITIONS)


def _no_smaller(more: Model, less: Model) -> bool:
    if more.architecture == less.architecture:
        return True
    large, small = more.config, less.config
    if any(large.get(name) != small.get(name) for name in ("model_type", "tie_word_embeddings")):
        return False
    stated = [(large.get(name), small.get(name)) for name in _DIMENSIONS if name in large or name in small]
    return bool(stated) and all(one is not None and other is not None and one >= other for one, other in stated)
