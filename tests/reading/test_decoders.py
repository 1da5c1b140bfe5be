"""Decoders are told from what else there is."""

import pytest

from bench.reading.architecture import model_of
from bench.reading.decoders import other_kind
from bench.reading.strict import BadFile


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"model_type": "t5"}, "an encoder-decoder"),
        ({"model_type": "new", "is_encoder_decoder": True}, "an encoder-decoder"),
        ({"model_type": "bert"}, "an encoder"),
        ({"model_type": "new", "architectures": ["NewForMaskedLM"]}, "an encoder"),
        ({"model_type": "bert", "is_decoder": True}, None),
        ({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}, None),
        ({"model_type": "new"}, None),
        ({"model_type": ["bert"]}, None),
        ({}, None),
    ],
)
def test_an_encoder_is_told_by_its_type_or_by_what_its_file_says(config, kind):
    assert other_kind(config) == kind


def test_it_is_refused_by_file_and_key():
    with pytest.raises(BadFile, match=r'^a/config\.json: model_type: "t5" is an encoder-decoder, and only decoder-only models'):
        model_of("t5", {"model_type": "t5", "vocab_size": 100}, "a/config.json")
