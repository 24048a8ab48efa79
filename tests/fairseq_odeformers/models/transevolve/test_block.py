"""Blocks against the paper's formula, and their bookkeeping of beam search."""

import math

import pytest
import torch
from helpers import assert_same_gradients, layer_norm

from fairseq_odeformers.models.transevolve import naive
from fairseq_odeformers.models.transevolve.block import (
    TransEvolveCausalBlock,
    TransEvolveDecoderBlock,
    TransEvolveEncoderBlock,
    TransEvolveLayer,
    shared_rows,
)
from fairseq_odeformers.models.transevolve.feed_forward import FullFeedForward
from fairseq_odeformers.models.transevolve.spec import BACKENDS, BlockSpec


@pytest.mark.parametrize("branch", ["self_attn", "encoder_attn", "feed_forward"])
def test_a_branch_is_dropped_once(branch):
    """Each element that a branch adds to the state is zero with the probability of dropout."""
    torch.manual_seed(0)
    spec = BlockSpec(
        embed_dim=64, ffn_embed_dim=64, attention_heads=2, depth=1, dropout=0.3, time_dim=16
    )
    layer = TransEvolveLayer(spec, 1, cross_attention=True).train()
    outputs = {
        "self_attn": layer.self_attn_out_proj,
        "encoder_attn": layer.encoder_attn_out_proj,
        "feed_forward": layer.feed_forward[2],
    }
    for name, output in outputs.items():
        if name != branch:
            for parameter in output.parameters():
                torch.nn.init.zeros_(parameter)
    heads = torch.randn(2, 4, 2, 50, 32)
    x = torch.randn(4, 50, 64)
    added = layer(x, *heads) - x
    assert added.eq(0).float().mean().item() == pytest.approx(0.3, abs=0.03)


def block_formula(block, x, padding, source=None, source_padding=None):
    """X^L from X^0 (B, T, d) as Eqs. 9, 11 and 12 write it, or with a source (B, S, d) Eq. 13.

    The masks are true where a key is padding. LayerNorm is after the block, or before the inputs of
    Eq. 6, and then nothing normalises X.
    """

    def initial_scores(attn, x, y):
        """The initial scores with a random W~k, to which softmax is invariant."""
        weights = attn.q_proj.weight.T, attn.k_proj.weight.T, attn.time_query
        w_k_tilde = torch.randn_like(attn.time_query)
        return naive.initial_scores(x, y, *weights, w_k_tilde, attn.num_heads)

    x0 = block.layer_norm(x) if block.normalize_before else x
    own_scores, mask = initial_scores(block.self_attn, x0, x0), padding[:, None, None]
    if isinstance(block, TransEvolveCausalBlock):
        mask = mask | torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)
    if source is not None:
        source_scores = initial_scores(block.encoder_attn, x0, source)

    def attentions(layer, index):
        w, w_o = block.self_attn.time_weight[index], layer.self_attn_out_proj.weight.T
        yield naive.Attention(own_scores, w, lambda x: own_values(layer, x), w_o, mask)
        if source is not None:
            w, w_o = block.encoder_attn.time_weight[index], layer.encoder_attn_out_proj.weight.T
            values, source_mask = source_values(layer, source), source_padding[:, None, None]
            yield naive.Attention(source_scores, w, lambda _: values, w_o, source_mask)

    def ffn(layer):
        return lambda y: feed_forward_formula(layer.feed_forward, layer.final_layer_norm(y))

    depths = [([*attentions(layer, n)], ffn(layer)) for n, layer in enumerate(block.depths)]
    x = naive.block(x, depths)
    return x if block.normalize_before else block.layer_norm(x)


def own_values(layer, x):
    """The normalised states, or as an option maps them in each layer."""
    x = layer_norm(layer.self_attn_layer_norm, x)
    if "self_attn_value_proj.weight" in layer.state_dict():
        x = x @ layer.self_attn_value_proj.weight.T
    return x


def source_values(layer, source):
    """The encoder output as it is (Eq. 13), or as options transform it in each layer."""
    parts = dict(layer.encoder_attn_value.named_children())
    if "layer_norm" in parts:
        source = layer_norm(parts["layer_norm"], source)
    return source @ parts["proj"].weight.T if "proj" in parts else source


def feed_forward_formula(ffn, x):
    if isinstance(ffn, FullFeedForward):
        return naive.full_feed_forward(
            x, ffn[0].weight.T, ffn[0].bias, ffn[2].weight.T, ffn[2].bias
        )
    first = whole(ffn.u1), ffn.s1, whole(ffn.v1_rows), ffn.b1
    return naive.random_feed_forward(x, first, (whole(ffn.u2), ffn.s2, whole(ffn.v2_rows), ffn.b2))


def whole(part):
    """A square matrix with the part that a layer keeps; the rest, at random, has no effect."""
    size = max(part.shape)
    matrix = torch.randn(size, size, dtype=part.dtype)
    matrix[: part.size(0), : part.size(1)] = part
    return matrix


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"normalize_before": True},
        {"self_attention_value_projection": True, "cross_attention_value_norm": True},
        {"cross_attention_value_projection": True, "ffn_type": "random"},
        {"cross_attention_value_norm": True, "cross_attention_value_projection": True},
        {"normalize_before": True, "ffn_type": "random"},
    ],
)
@pytest.mark.parametrize("backend", BACKENDS[1:])
@pytest.mark.parametrize(
    "cls", [TransEvolveEncoderBlock, TransEvolveCausalBlock, TransEvolveDecoderBlock]
)
def test_blocks_equal_the_formula(float64, cls, backend, choices):
    """Outputs and gradients of inputs and parameters equal the formula's, also with padding.

    The omitted terms of A1, A3 and W~k have no effect.
    """
    torch.manual_seed(0)
    block = cls(BlockSpec(8, 12, 2, depth=3, time_dim=4, attention_backend=backend, **choices))
    for parameter in block.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    x, source = (torch.randn(n, 2, 8, requires_grad=True) for n in (4, 5))
    padding, source_padding = (torch.arange(n) >= torch.tensor([[n], [n - 2]]) for n in (4, 5))
    inputs, batch, sources = [x, *block.parameters()], [x.transpose(0, 1), padding], ()
    if block.cross_attention:
        inputs.append(source)
        batch += [source.transpose(0, 1), source_padding]
        sources = source, source_padding
    if isinstance(block, TransEvolveCausalBlock):
        causal = {"self_attn_mask": torch.empty(0), "self_attn_padding_mask": padding}
        out, _, _ = block(x, *sources, **causal)
    else:
        out = block(x, padding)
    assert_same_gradients(out, block_formula(block, *batch).transpose(0, 1), inputs)


def test_each_depth_has_its_own_rotation():
    """Phases at depth l are normal, of standard deviation 2 pi j l / L in column j (Eq.

    10). The mean square of their sines determines l, and no two matrices of a block are correlated.
    """
    torch.manual_seed(0)
    size, L = 8192, 12
    spec = BlockSpec(4, size, 2, L, time_dim=4, ffn_type="random")
    rotations = [layer.feed_forward for layer in TransEvolveEncoderBlock(spec).depths]
    sines = torch.stack([layer.u2[:, 0] for layer in rotations]) * math.sqrt(size)
    deviation = 2 * math.pi * torch.arange(1, L + 1) / L
    expected = (1 - (-2 * deviation.square()).exp()) / 2
    assert (sines.square().mean(1) - expected).abs().max() < 0.02
    matrices = [m.flatten() for layer in rotations for m in (layer.u2, layer.v1_rows)]
    correlation = torch.corrcoef(torch.stack(matrices)).fill_diagonal_(0)
    assert correlation.abs().max() < 0.05


@pytest.mark.parametrize(
    ("new_order", "beams", "expected_beams"),
    [
        ([0, 0, 0, 1, 1, 1], 1, 3),  # the search starts: a sentence becomes three hypotheses
        ([1, 0, 0, 4, 5, 3], 3, 3),  # hypotheses change places within their sentence
        ([4, 3, 3], 3, 3),  # the first sentence is finished
        ([2, 0, 1], 1, 1),  # one hypothesis per sentence
        ([0, 0, 1], 1, 1),  # uneven: every hypothesis gets its own row
        ([0, 3, 3, 0], 3, 1),
        ([5, 0], 3, 1),
    ],
)
def test_shared_rows_keep_the_content_of_every_hypothesis(new_order, beams, expected_beams):
    new_order = torch.tensor(new_order)
    rows, new_beams = shared_rows(new_order, beams)
    assert new_beams == expected_beams
    assert len(rows) * new_beams == len(new_order)
    content = torch.tensor([10, 20, 30, 40, 50, 60])  # of the rows
    served = content[rows].repeat_interleave(new_beams)
    assert torch.equal(served, content.repeat_interleave(beams)[new_order])
