"""What torch takes of a card beside its tensors: a step on the CPU, and a card whose counters are played."""

from __future__ import annotations

from importlib.metadata import version

import pytest
import torch

from bench.backends.card_share import card_share

WORKSPACE = 8_519_680
GIB = 2**30


class Card:
    """torch.cuda's counters as a card's: a workspace for each thread from the first product on, kept until it is let go."""

    def __init__(self) -> None:
        self.products = 0
        self.cleared = 0

    def clear(self) -> None:
        self.cleared += 1
        self.products = 0

    def memory_allocated(self) -> int:
        return 512 + WORKSPACE * min(2, self.products)

    def memory_reserved(self) -> int:
        return 20 * 2**20

    def mem_get_info(self) -> tuple[int, int]:
        return 23 * GIB, 24 * GIB

    def synchronize(self) -> None:
        return None


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    found = Card()
    for name in ("memory_allocated", "memory_reserved", "mem_get_info", "synchronize"):
        monkeypatch.setattr(torch.cuda, name, getattr(found, name))
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", found.clear, raising=False)
    backward = torch.Tensor.backward

    def counted(tensor: torch.Tensor) -> None:
        found.products += 2  # forward in this thread, backward in autograd's
        backward(tensor)

    monkeypatch.setattr(torch.Tensor, "backward", counted)
    return found


def test_workspaces_are_what_stays_by_dtype_and_all_else_is_told_with_them(card: Card) -> None:
    found = card_share("cpu", ("bfloat16", "float32"))
    assert found["workspace_bytes"] == {"bfloat16": 2 * WORKSPACE, "float32": 2 * WORKSPACE}
    assert card.cleared == 2
    assert (found["reserved_bytes"], found["held_bytes"]) == (20 * 2**20, GIB)
    assert found["versions"]["torch"] == version("torch")
