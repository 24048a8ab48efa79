"""Which embeddings of a translator are one, by the options that tie them."""

import pytest
from fairseq.models import ARCH_MODEL_REGISTRY, FairseqEncoderDecoderModel
from helpers import count_parameters, make_model
from make_checkpoints import MODELS

from fairseq_odeformers.registry import default_options

TRANSLATORS = [
    arch for arch in MODELS if issubclass(ARCH_MODEL_REGISTRY[arch], FairseqEncoderDecoderModel)
]
LANGUAGE_MODELS = [
    arch for arch in MODELS if "share_decoder_input_output_embed" in default_options(arch)
]
EMBEDDING = 50 * 16  # parameters


@pytest.mark.parametrize("arch", TRANSLATORS)
def test_embeddings_are_tied_by_options(arch):
    """Options tie the embeddings of encoder, decoder and output, or the last two, or none."""
    counts = []
    for option, tied in (
        (["--share-all-embeddings"], 3),
        (["--share-decoder-input-output-embed"], 2),
        ([], 1),
    ):
        model = make_model(arch, *option)
        source, target = model.encoder.embed_tokens.weight, model.decoder.embed_tokens.weight
        output = model.decoder.output_projection.weight
        assert (source is target) == (tied == 3)
        assert (output is target) == (tied >= 2)
        counts.append(count_parameters(model))
    assert counts == [counts[0], counts[0] + EMBEDDING, counts[0] + 2 * EMBEDDING]


@pytest.mark.parametrize("arch", [arch for arch in LANGUAGE_MODELS if arch not in TRANSLATORS])
def test_embeddings_of_a_language_model_are_tied_by_options(arch):
    tied, plain = (
        make_model(arch, *option) for option in (["--share-decoder-input-output-embed"], [])
    )
    for model in (tied, plain):
        same = model.decoder.output_projection.weight is model.decoder.embed_tokens.weight
        assert same == (model is tied)
    assert count_parameters(plain) == count_parameters(tied) + EMBEDDING
