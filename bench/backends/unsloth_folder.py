"""A model's folder without weights: what unsloth's loaders read before they ask for any.

In: a configuration as JSON. Out: a folder that lasts for one load. unsloth takes a name or a folder and nothing else; our weights
are made in memory (`hf_build`, `mlx_build`) and handed over where its loader would open files, so a configuration and a tokenizer
are all that has to lie there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.backends.hf_train import bare_tokenizer


@contextmanager
def model_folder(config: Mapping[str, Any]) -> Iterator[str]:
    """A folder with `config.json` and a tokenizer of the reserved ids; removed afterwards."""
    with TemporaryDirectory(prefix="wingspan-unsloth-") as name:
        (Path(name) / "config.json").write_text(json.dumps(dict(config)))
        bare_tokenizer().save_pretrained(name)
        yield name


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """`owner.name` is `value` meanwhile. Afterwards it is what stood there, or what it inherits where nothing did."""
    own, kept = name in vars(owner), vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, kept) if own else delattr(owner, name)
