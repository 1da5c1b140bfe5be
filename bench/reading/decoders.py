"""Whether a `config.json` is that of a decoder-only model, the only kind that is trained and served here.

In: the configuration as a dictionary. Out: what kind it is instead, in words; None for a decoder, and for what nobody can tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ENCODERS = frozenset(
    {
        *("albert", "bert", "big_bird", "camembert", "convbert", "data2vec-text", "deberta", "deberta-v2", "distilbert"),
        *(
            "electra",
            "ernie",
            "esm",
            "eurobert",
            "flaubert",
            "fnet",
            "funnel",
            "ibert",
            "layoutlm",
            "longformer",
            "luke",
            "mobilebert",
        ),
        *("modernbert", "mpnet", "mra", "nomic_bert", "nystromformer", "rembert", "roberta", "roberta-prelayernorm"),
        *("roformer", "squeezebert", "xlm", "xlm-roberta", "xlm-roberta-xl", "xmod", "yoso"),
    }
)
"""Values of `model_type` of masked language models."""
ENCODER_DECODERS = frozenset(
    {
        *("bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "encoder-decoder", "fsmt", "led", "longt5", "m2m_100"),
        *("marian", "mbart", "mt5", "mvp", "nllb-moe", "pegasus", "pegasus_x", "plbart", "prophetnet", "speech_to_text"),
        *("switch_transformers", "t5", "t5gemma", "umt5", "whisper"),
    }
)
"""Those of sequence-to-sequence models. Source of both: `models/auto/modeling_auto.py` of transformers 5.24, of text models."""


def other_kind(config: Mapping[str, Any]) -> str | None:
    """`an encoder-decoder` or `an encoder`; None for everything else."""
    family = config.get("model_type")
    if not isinstance(family, str):
        return None
    if config.get("is_encoder_decoder") is True or family in ENCODER_DECODERS:
        return "an encoder-decoder"
    masked = family in ENCODERS or str(config.get("architectures")).endswith("ForMaskedLM']")
    return "an encoder" if masked and config.get("is_decoder") is not True else None
