"""A tracker of live storages: sees every tensor that torch's operators make, real or fake, and notes when its storage dies.

In: operators, as torch dispatches them while the tracker is on. Out: a `Timeline`. Views share a storage and count once. What an
operator allocates within itself is not seen; `stand_ins` say what to do instead for those where it matters.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bench.backends.timeline import Place, Timeline

StandIn = Callable[["Tracker", Any, tuple[Any, ...], dict[str, Any]], Any]
"""Called in place of an operator, with the tracker, the operator and its arguments; gives the operator's result."""


class Tracker:
    """Use it as a context. `device` is the type of the tensors that count: `cpu` (fake ones too) or `cuda`."""

    def __init__(self, device: str, stand_ins: Mapping[Any, StandIn] | None = None) -> None:
        self.timeline = Timeline()
        self._place = Place()
        self._part: str | None = None
        self._lists: Mapping[int, Sequence[int | None]] = {}
        self._device = device
        self._stand_ins = dict(stand_ins or {})
        self._numbers: dict[int, int] = {}
        self._watched: dict[int, Any] = {}
        self._mode = _mode(self._dispatched)

    def __enter__(self) -> Tracker:
        self._mode.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._mode.__exit__(*raised)

    def see(self, tensor: Any, block: int | None = None) -> None:
        """Count the storage of a tensor from now on, unless it counts already at the size that it has."""
        if tensor.device.type != self._device:
            return
        storage = tensor.untyped_storage()
        key, size_bytes = storage._cdata, storage.nbytes()
        known = self._numbers.get(key)
        if known is not None:
            if self.timeline.sizes[known] == size_bytes:
                return
            self._died(key, known)  # resized in place
        number = self._numbers[key] = self.timeline.born(size_bytes, self._part, self._place.block if block is None else block)
        self._watched[key] = weakref.ref(storage, lambda _: self._died(key, number))

    def name(self, part: str, tensor: Any, block: int | None = None) -> None:
        """Say which part a tensor is of for all its life, and of which block unless that is known.

        One that was made before the tracker was on counts from now.
        """
        self.see(tensor)
        number = self._numbers.get(tensor.untyped_storage()._cdata)
        if number is not None:
            self.timeline.parts[number] = part
            if self.timeline.blocks[number] is None:
                self.timeline.blocks[number] = block

    def enter(self, place: Place, part: str | None = None, lists: Iterable[Sequence[int | None]] = ()) -> None:
        """What follows happens there, and is of that part unless named otherwise.

        `lists` are blocks of parameters, in an order in which operators take them: one that gives as many tensors gave one for
        each.
        """
        self._part, self._lists = part, {len(blocks): blocks for blocks in lists}
        if self._place != place:
            self._place = place
            self.timeline.mark(place)

    def start(self) -> None:
        """Forget what building took, and keep what lives."""
        self._place = Place()
        self.timeline.start(sorted(self._numbers.values()))

    def transient(self, made: Any, sizes_bytes: Iterable[int]) -> None:
        """Workspaces of one operator, which live beside what it made: all are born, then all die."""
        self._see_all(made)
        for number in [self.timeline.born(size, self._part, self._place.block) for size in sizes_bytes]:
            self.timeline.died(number)

    def within(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call it with the tracker on, from a stand-in, where it is off."""
        with self._mode:
            return function(*args, **kwargs)

    def _died(self, key: int, number: int) -> None:
        if self._numbers.get(key) == number:
            del self._numbers[key], self._watched[key]
            self.timeline.died(number)

    def _dispatched(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        stand_in = self._stand_ins.get(operator)
        made = operator(*args, **kwargs) if stand_in is None else stand_in(self, operator, args, kwargs)
        self._see_all(made)
        return made

    def _see_all(self, made: Any) -> None:
        """Every tensor of an operator's result."""
        from torch import Tensor
        from torch.utils._pytree import tree_leaves

        if isinstance(made, Tensor):
            self.see(made)
            return
        if not isinstance(made, tuple | list):  # a number, or what fake tensors are often asked for: their device
            return
        leaves = [each for each in tree_leaves(made) if isinstance(each, Tensor)]
        blocks = self._lists.get(len(leaves)) or [None] * len(leaves)
        for each, block in zip(leaves, blocks, strict=True):
            self.see(each, block)


def _mode(dispatched: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]) -> Any:
    """A dispatch mode of torch's that hands every operator over."""
    from torch.utils._python_dispatch import TorchDispatchMode

    def handed_over(_: Any, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatched(operator, args, kwargs or {})

    return type("Watching", (TorchDispatchMode,), {"__torch_dispatch__": handed_over})()
