"""The folder that unsloth is given, and the function that is swapped meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.backends.unsloth_folder import model_folder, replaced


def test_the_folder_holds_a_configuration_and_a_tokenizer_and_goes_away() -> None:
    with model_folder({"model_type": "llama", "hidden_size": 64}) as name:
        assert json.loads((Path(name) / "config.json").read_text()) == {"model_type": "llama", "hidden_size": 64}
        assert (Path(name) / "tokenizer.json").is_file()
        assert not list(Path(name).glob("*.safetensors"))
    assert not Path(name).exists()


def test_what_stood_there_comes_back_even_after_a_fault() -> None:
    owner, seen = SimpleNamespace(load="old"), []

    def load_and_fail() -> None:
        with replaced(owner, "load", "new"):
            seen.append(owner.load)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        load_and_fail()
    assert (seen, owner.load) == (["new"], "old")


def test_an_inherited_class_method_is_inherited_again() -> None:
    class Base:
        @classmethod
        def load(cls) -> str:
            return cls.__name__

    class Heir(Base):
        pass

    with replaced(Heir, "load", lambda: "ours"):
        assert Heir.load() == "ours"
        assert Base.load() == "Base"
    assert Heir.load() == "Heir"
    assert "load" not in vars(Heir)
