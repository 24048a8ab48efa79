"""The baselines are fairseq's own Transformer, or that over other layers."""

import pytest
import torch
from helpers import make_classifier, make_lm, make_model, source_batch

from fairseq_odeformers.models.baselines import layers


def test_is_the_transformer_of_fairseq():
    """The same options give the same parameters, and those the same output."""
    switches = ["--encoder-normalize-before", "--decoder-normalize-before"]
    theirs = make_model("transformer", *switches).eval()
    ours = make_model("transformer_prenorm").eval()
    ours.load_state_dict(theirs.state_dict())
    tokens, lengths = source_batch()
    assert torch.equal(ours(tokens, lengths, tokens)[0], theirs(tokens, lengths, tokens)[0])


@pytest.mark.parametrize(
    "arch, layer",
    [
        ("vanilla_transformer", layers.PlainEncoderLayer),
        ("transformer_classifier_rezero", layers.ReZeroEncoderLayer),
        ("transformer_classifier_orthogonal", layers.OrthogonalEncoderLayer),
        ("transformer_lm_rezero", layers.ReZeroDecoderLayer),
        ("transformer_lm_orthogonal", layers.OrthogonalDecoderLayer),
    ],
)
def test_layers(arch, layer):
    """All are of the baseline, and no LayerNorm is left beside layers without it."""
    stack = make_lm(arch).decoder if "_lm" in arch else make_classifier(arch).encoder
    assert stack.layers and all(type(own) is layer for own in stack.layers)
    assert stack.layer_norm is None
