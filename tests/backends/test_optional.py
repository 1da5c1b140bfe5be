"""What a rung needs beyond its backend is asked for by name, and nothing is imported."""

import pytest

from bench.backends import optional
from bench.backends.optional import optional_missing
from bench.catalog import catalogue
from bench.spec import Cell, Implementation, workload

WORK = workload(model=catalogue().models["tiny-llama-xs"], method="lora")


def cell(**asked) -> Cell:
    return Cell(WORK, "hf", "cuda", Implementation(**asked))


@pytest.mark.parametrize("asked", [{}, {"attention": "sdpa"}, {"attention": "flash"}, {"compile": True}])
def test_most_ways_need_nothing_more(asked):
    assert optional_missing(cell(**asked)) == ()


def test_what_is_not_installed_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setattr(optional, "absent", lambda *names: [name for name in names if name != "liger_kernel"])
    ((module, remedy),) = optional_missing(cell(attention="flash-attn", kernels="liger"))
    assert module == "flash_attn"
    assert "pip install --no-build-isolation" in remedy
    assert optional_missing(cell(kernels="liger")) == ()
