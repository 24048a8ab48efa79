"""TransEvolve as a fairseq model: its dictionaries, start and activations."""

import math

import pytest
import torch
import torch.nn.functional as F
from helpers import Task, make_classifier, make_model

from fairseq_odeformers.models.common.recording import record_calls
from fairseq_odeformers.models.transevolve.block import TransEvolveLayer


def test_base_architecture_takes_two_dictionaries():
    model = make_model("transevolve", task=Task(50, 60))
    assert model.encoder.embed_tokens.weight.size(0) == 50
    assert model.decoder.output_projection.weight.size(0) == 60
    assert model.decoder.output_projection.weight is not model.decoder.embed_tokens.weight


@pytest.mark.parametrize(
    ("extra", "out_proj", "feed_forward", "bias"),
    [
        ([], 2 / 2, 2 / (1 + 3), False),
        (["--encoder-normalize-before"], 1 / 2, 1 / 3, True),
        (["--encoder-normalize-before", "--initialization", "glorot"], 2 / 2, 2 / 4, False),
        (["--initialization", "transformer"], 1 / 2, 1 / 3, True),
    ],
)
def test_initial_weights_have_the_codes_variances(extra, out_proj, feed_forward, bias):
    """Variances equal the authors' code or fairseq's Transformer.

    Multiplied by the width d, Glorot's is 2 / (rows + columns), with d_ff = 3 d here, and torch's
    for a linear layer 1 / (3 inputs). Queries and keys have 1 / (d + d') either way.
    """
    sizes = "--encoder-embed-dim 128 --encoder-ffn-embed-dim 384 --encoder-attention-heads 2"
    model = make_model("transevolve_fullff_2", *extra, sizes=sizes.split())
    block = model.encoder.layers[0]
    attn, depth = block.self_attn, block.depths[0]
    for weight in (attn.q_proj.weight, attn.k_proj.weight, attn.time_query):
        assert (weight.var() * 256).item() == pytest.approx(1, rel=0.05)
        assert weight.abs().max() <= math.sqrt(3 / 256)
    assert (attn.time_weight.var() * 128 / 2).item() == pytest.approx(1, rel=0.15)
    assert (depth.self_attn_out_proj.weight.var() * 128).item() == pytest.approx(out_proj, rel=0.05)
    first = depth.feed_forward[0]
    assert (first.weight.var() * 128).item() == pytest.approx(feed_forward, rel=0.05)
    assert first.bias.any() == bias


@pytest.mark.parametrize("ffn_type", ["full", "random"])
@pytest.mark.parametrize("make", [make_model, make_classifier])
def test_activation_options_reach_every_ffn(make, ffn_type):
    """The activation function replaces ReLU in each FFN, and dropout follows it in training."""
    arch = "transevolve_classifier" if make is make_classifier else "transevolve"
    extra = "--activation-fn gelu --activation-dropout 0.25 --ffn-type"
    model, x = make(arch, *extra.split(), ffn_type), torch.randn(400, 16)
    layers = [m.feed_forward for m in model.modules() if isinstance(m, TransEvolveLayer)]
    assert len(layers) == (4 if make is make_classifier else 8)
    for layer in layers:
        with record_calls([layer[1] if ffn_type == "full" else layer.activation]) as calls:
            layer.train()(x)
            layer.eval()(x)
        (expected, dropped), (other, kept) = ((F.gelu(*call.args), call.output) for call in calls)
        assert torch.equal(other, kept)
        left = dropped != 0
        assert left.float().mean().item() == pytest.approx(0.75, abs=0.03)
        assert torch.allclose(dropped[left], expected[left] / 0.75, atol=1e-5)
