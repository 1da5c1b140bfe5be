"""Methods, modules, optimizers and dtypes of published measurements, in the terms that a cell is declared in.

In: a `Cited` row, however it spells them. Out: the method, the bits of the base, the adapted modules; or None where the row does
not say, and a reason where it says something that no cell can declare.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from bench.cited import Cited
from bench.spec import ATTENTION_MODULES, BLOCK_MODULES, Method, Optimizer

MLP = tuple(name for name in BLOCK_MODULES if name not in ATTENTION_MODULES)
QKV = ("q_proj", "k_proj", "v_proj")
TARGETS: Mapping[str, tuple[str, ...]] = {
    **{name.removesuffix("_proj"): (name,) for name in BLOCK_MODULES},
    **{name: tuple(BLOCK_MODULES) for name in ("all", "alllinear", "linear", "alllinearlayers")},
    **{name: tuple(ATTENTION_MODULES) for name in ("attention", "attn", "selfattn")},
    **dict.fromkeys(("mlp", "ffn", "feedforward"), MLP),
    **dict.fromkeys(("cattn", "qkv", "wpack", "querykeyvalue"), QKV),
    "gateup": ("gate_proj", "up_proj"),
}
"""A target in one form. c_attn is q, k and v in one matrix: one adapter in the place of three, a few megabytes apart."""
SILENT = frozenset({"default", "layers", "modules"})
EMBEDDINGS = re.compile(r"embed|lm_?head|wte", re.IGNORECASE)
EIGHT = re.compile(r"8[-_ ]?bit", re.IGNORECASE)
UNDECLARABLE = re.compile(
    r"in[_ ]?(the )?(bwd|backward)|paged|lora-?fa|adafactor|lion|galore|lomo|apollo|muon|badam|shampoo|adalomo|sophia|4[-_ ]?bit",
    re.IGNORECASE,
)
"""Optimizers that no cell can declare; with adapters they are too small to matter."""
SIXTEEN = re.compile(r"bf16|bfloat16|fp16|float16|half", re.IGNORECASE)
THIRTY_TWO = re.compile(r"mixed|amp\b|fp32|float32|32-true|full precision|tf32", re.IGNORECASE)
FOUR_IN_NAME = re.compile(r"4[-_ ]?bit|int4|nf4|gptq|awq", re.IGNORECASE)


def method_of(row: Cited) -> Method | None:
    """By the word for it; an adapter on a quantised base is a QLoRA, whatever the source calls it."""
    word = re.sub(r"[^a-z]+", " ", (row.method or "").lower()).strip()
    if word in (
        "full",
        "full fine tuning",
        "full finetuning",
        "full finetune",
        "full fine tune",
        "full ft",
        "fft",
        "full parameter",
    ):
        return "full"
    if word in ("qlora", "q lora") or (word == "lora" and bits_of(row) in (4, 8)):
        return "qlora"
    return "lora" if word == "lora" else None


def bits_of(row: Cited) -> int | None:
    """As stated; else 4 where the method or the model's name means that, and 16 where the dtype does."""
    if row.quant_bits is not None:
        return row.quant_bits
    if re.sub(r"[^a-z]+", "", (row.method or "").lower()) == "qlora" or FOUR_IN_NAME.search(row.model or ""):
        return 4
    return 16 if SIXTEEN.search(row.dtype or "") else None


def modules_of(text: str | None) -> str | None:
    """What `workload` takes for them; None where the source does not say, or says what is unknown here."""
    names = [re.sub(r"[^a-z]+", "", word.lower().replace("_proj", "")) for word in re.split(r"[,;/+|&]|\band\b", text or "")]
    named = [name for name in names if name and name not in SILENT]
    if not named or any(name not in TARGETS for name in named):
        return None
    wanted = {module for name in named for module in TARGETS[name]}
    return ",".join(name for name in BLOCK_MODULES if name in wanted)


def optimizer_of(row: Cited) -> Optimizer:
    """With adapters a paged or an unusual one counts as AdamW: its states are too small to matter."""
    text = row.optimizer or ""
    if EIGHT.search(text):
        return "adamw_8bit"
    return "sgd" if re.fullmatch(r"(torch\.?optim\.?)?sgd", text.strip(), re.IGNORECASE) else "adamw"


def undeclarable(row: Cited, affine: bool = False) -> str | None:
    """The first of what no cell can declare. `affine`: the stack packs weights as MLX does, in 4 bits or in 8."""
    method, bits, dtype = method_of(row), bits_of(row), row.dtype or ""
    adapters = bool(re.search(r"adapters? (in )?(fp|float)32", dtype, re.IGNORECASE))
    obstacles = {
        f"method {row.method or 'unstated'}: nothing that a cell can declare": method is None,
        f"base in {bits or 'unstated'} bits": bits not in ((4, 8, 16) if affine else (4, 16)),
        "a quantised base that is all trained": method == "full" and bits in (4, 8),
        "a QLoRA of a base that is said to be in 16 bits": method == "qlora" and bits == 16,
        "optimizer: paged, stepped in the backward pass, or of another kind, which no cell can declare": (
            method == "full" and UNDECLARABLE.search(row.optimizer or "")
        ),
        "float32 weights, frozen or under autocast": bool(THIRTY_TWO.search(dtype)) and not adapters,
        "weights or activations in main memory": "offload" in (row.notes or "").lower(),
        "the embeddings or the head are trained too": EMBEDDINGS.search(row.lora_targets or ""),
    }
    return next((reason for reason, stands in obstacles.items() if stands), None)
