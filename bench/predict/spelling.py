"""Names as people print them, brought to one form, so that a model or a machine is known however it is spelt.

In: a printed name. Out: for a model a key that the hub's owner, the variant (base, Instruct), the format of its weights and the
separators leave as it is; for a machine the chip, its memory, its GPU cores, and how many of them. Rules, no list of names: what
a name means is in the catalogue.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

BITS = re.compile(r"\b\d+[-_ ]?bits?\b")
SIZE = re.compile(r"\d+(?:\.\d+)?[bm]")
FORMATS = re.compile(
    r"[qw]\d.*|(?:bf|fp|f|nf|int|float|bfloat)\d+|bnb|gptq|awq|gguf|mlx|dwq|hqq|exl2|quantized|quant|dynamic|k|m|s"
)
"""How the weights are stored: `q4_k_m` comes apart at its underscores."""
VARIANTS = frozenset({"instruct", "inst", "chat", "base", "it", "pt", "hf", "meta", "thinking", "unsloth", "model"})
"""What was trained into the weights, or who offers them: the architecture is the same."""
DATE = re.compile(r"\d{4}|\d{6}")

COUNT_FIRST = re.compile(r"^\s*(\d{1,2})\s*[x×*]\s*(?=\D|\d{4})", re.IGNORECASE)
COUNT_LAST = re.compile(r"\s*[x×*]\s*(\d{1,2})\s*$", re.IGNORECASE)
MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*-?\s*gi?b\b(?: vram| hbm\d*e?)?", re.IGNORECASE)
CORES = re.compile(r"(\d+)[- ]cores?\b(?! cpu)(?: gpu)?", re.IGNORECASE)
MAKERS = frozenset(
    re.split(
        " ",
        "nvidia geforce rtx gtx tesla quadro gpu gpus card class sxm sxm2 sxm3 sxm4 sxm5 hbm3 founders edition generation "
        "apple silicon chip mac macbook studio mini air imac unified memory ram vram with single one a the of colab free tier "
        "google aws gcp azure kaggle runpod lambda vast",
    )
)
"""Words beside the chip's own name."""
APPLE = re.compile(r"\b(m\d)\s*(pro|max|ultra)?\b", re.IGNORECASE)


def model_key(printed: str) -> str:
    """One form of a model's name: what remains of its words, and its size. `Meta-Llama-3-8B-Instruct-bnb-4bit`: `llama3 8b`."""
    text = re.sub(r"\(.*?\)", " ", printed.lower().rsplit("/", 1)[-1])
    words = [word for word in re.split(r"[^a-z0-9.]+", BITS.sub(" ", text)) if word]
    sizes = [word for word in words if SIZE.fullmatch(word)]
    dropped = {*VARIANTS, *sizes[-1:]}
    rest = [word for word in words if word not in dropped and not FORMATS.fullmatch(word) and not DATE.fullmatch(word)]
    return " ".join(["".join(rest), *sizes[-1:]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """Of a machine's name: the chip in one form (`4090`, `a100`, `m2max`), its memory in what the source calls GB, the cores of
    its GPU, and how many such devices it names.
    """

    chip: str
    memory_gb: float | None = None
    cores: int | None = None
    count: int = 1


def machine_parts(printed: str) -> Printed:
    """`2x NVIDIA GeForce RTX 4090 24GB`: two `4090` of 24 GB. The chip is empty where the name holds none."""
    first, last = COUNT_FIRST.search(printed), COUNT_LAST.search(printed)
    count = int((first or last).group(1)) if first or last else 1  # type: ignore[union-attr]  # one of them is a match
    name = COUNT_LAST.sub("", COUNT_FIRST.sub("", printed))
    memory, cores = MEMORY.search(name), CORES.search(name)
    bare = CORES.sub(" ", MEMORY.sub(" ", name)).lower()
    apple = APPLE.search(bare)
    chip = "".join(filter(None, apple.groups())) if apple else _board(bare)
    return Printed(
        chip=chip,
        memory_gb=float(memory.group(1)) if memory else None,
        cores=int(cores.group(1)) if cores else None,
        count=count,
    )


def is_apple(printed: str) -> bool:
    """Whether the name is that of a Mac or of Apple silicon, known here or not."""
    return bool(APPLE.search(printed) or re.search(r"\bapple\b|\bmac", printed, re.IGNORECASE))


def _board(name: str) -> str:
    """A board's number and letters: `rtx 4070 ti super` is `4070tisuper`, and `rtx 6000 ada` is not `rtx 6000`."""
    words = [word for word in re.split(r"[^a-z0-9]+", re.sub(r"(?<=rtx)(?=\d)|(?<=gtx)(?=\d)", " ", name)) if word]
    return "".join(word for word in words if word not in MAKERS)
