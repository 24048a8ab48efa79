"""The modern layer: the written-out formula, positions, decoding, biases and widths."""

import math

import pytest
import torch
from helpers import Task, assert_same_gradients, make_any

from fairseq_odeformers.models.baselines import naive
from fairseq_odeformers.models.baselines.modern import (
    ModernDecoderLayer,
    ModernEncoderLayer,
    ModernSpec,
    RMSNorm,
    rotate,
)
from fairseq_odeformers.models.common.naive import multi_head_attention

C, H, T, S, B = 12, 3, 5, 7, 2
ARCHS = ["transformer_modern", "transformer_classifier_modern", "transformer_lm_modern"]


def make_layer(cls=ModernEncoderLayer, **options):
    """A layer with norms whose weights are not all ones."""
    torch.manual_seed(0)
    layer = cls(ModernSpec(embed_dim=C, attention_heads=H, **options))
    for parameter in layer.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.2)
    return layer.eval()


def causal_mask(size):
    return torch.full((size, size), -math.inf).triu(1)


# --- the formula ---------------------------------------------------------------------


def formula(layer, x, causal=False, source=None):
    """The output (T, C) of the layer for a single text (T, C), by the equations."""

    def norm(module):
        return lambda x: naive.rms_norm(x, module.weight, module.eps)

    def project(attention, x, y):
        weights = (getattr(attention, f"{name}_proj").weight.T for name in ("q", "k", "v"))
        return [state @ weight for state, weight in zip((x, y, y), weights)]

    def attend(x):
        q, k, v = project(layer.self_attn, x, x)
        return naive.rotary_attention(q, k, v, H, causal) @ layer.self_attn.out_proj.weight.T

    def attend_to_source(x):
        q, k, v = project(layer.encoder_attn, x, source)
        return multi_head_attention(q, k, v, H, False) @ layer.encoder_attn.out_proj.weight.T

    def ffn(x):
        maps = (getattr(layer.feed_forward, f"{name}_proj") for name in ("gate", "up", "down"))
        return naive.swiglu(x, *(linear.weight.T for linear in maps))

    branches = [(attend, norm(layer.self_attn_layer_norm)), (ffn, norm(layer.final_layer_norm))]
    if source is not None:
        branches.insert(1, (attend_to_source, norm(layer.encoder_attn_layer_norm)))
    return naive.layer(x, *branches)


def test_encoder_layer_equals_the_formula(float64):
    """The output and the gradients of the input and all parameters equal the formula's."""
    layer, x = make_layer(), torch.randn(T, C, requires_grad=True)
    ours = layer(x.unsqueeze(1))[:, 0]
    assert_same_gradients(ours, formula(layer, x), [x, *layer.parameters()])


@pytest.mark.parametrize("causal", [True, False])
def test_decoder_layer_equals_the_formula(float64, causal):
    layer = make_layer(ModernDecoderLayer)
    x, source = torch.randn(T, C, requires_grad=True), torch.randn(S, C, requires_grad=True)
    mask = causal_mask(T) if causal else None
    ours, *_ = layer(x.unsqueeze(1), source.unsqueeze(1), self_attn_mask=mask)
    theirs = formula(layer, x, causal, source)
    assert_same_gradients(ours[:, 0], theirs, [x, source, *layer.parameters()])


@pytest.mark.parametrize("padded", [False, True])
def test_attention_maps_produce_the_output(float64, padded):
    """The answered weights, applied to the values and projected, give the attention's output."""
    layer = make_layer(ModernDecoderLayer)
    x, source, padding = torch.randn(T, B, C), torch.randn(S, B, C), None
    source_padding = torch.zeros(B, S).bool()
    if padded:
        padding = torch.zeros(B, T).bool()
        padding[1, :2] = source_padding[0, 4:] = True
    calls = [
        (layer.self_attn, (x, padding, True), x),
        (layer.self_attn, (x, padding, False), x),
        (layer.encoder_attn, (x, source, source_padding), source),
    ]
    for attention, inputs, values in calls:
        (maps,) = attention.attention_maps(*inputs)
        assert maps.cross == (attention is layer.encoder_attn)
        heads = maps.weights[0] @ attention.heads(attention.v_proj, values)
        out = attention.out_proj(heads.permute(2, 0, 1, 3).flatten(2))
        torch.testing.assert_close(out, attention(*inputs))


# --- positions -----------------------------------------------------------------------


def scores(q, k, first):
    """The scores (T, T) of queries and keys (T, h) that start at a position."""
    q, k = (rotate(x[None, None], first)[0, 0] for x in (q, k))
    return q @ k.T


def test_scores_depend_only_on_position_differences(float64):
    """A text has the same scores wherever it begins, and one repeated token has bands of them."""
    q, k = torch.randn(2, T, 8)
    torch.testing.assert_close(scores(q, k, 0), scores(q, k, 1000))
    q, k = torch.randn(2, 1, 8).expand(2, T, 8)
    same = scores(q, k, 3)
    torch.testing.assert_close(same[1:, 1:], same[:-1, :-1])
    assert (same[0, 1:] - same[0, :-1]).abs().min() > 1e-3  # and they do depend on them


def test_positions_are_exact_in_half_precision():
    """Positions such as 4,097 are exact, although float16 lacks 4,097 and bfloat16 257."""
    x = torch.randn(1, 1, 3, 8, dtype=torch.float64)
    for dtype in (torch.float16, torch.bfloat16):
        rounded = x.to(dtype)
        exact = rotate(rounded.double(), 4097)
        assert (rotate(rounded, 4097) - exact).abs().max() < 4 * torch.finfo(dtype).eps


def test_attention_to_the_source_has_no_positions(float64):
    layer, x = make_layer(ModernDecoderLayer), torch.randn(T, B, C)
    source, order = torch.randn(S, B, C), torch.randperm(S)
    torch.testing.assert_close(layer.encoder_attn(x, source), layer.encoder_attn(x, source[order]))


@torch.no_grad()
def test_decoding_in_pieces_equals_decoding_at_once(float64):
    """Pieces of several tokens, after padding and with a source, keep their positions."""
    layer = make_layer(ModernDecoderLayer)
    x, source = torch.randn(T, B, C), torch.randn(S, B, C)
    padding = torch.zeros(B, T).bool()
    padding[1, :2] = True
    expected, *_ = layer(x, source, self_attn_mask=causal_mask(T), self_attn_padding_mask=padding)
    state, actual, first = {}, [], 0
    for end in (1, 4, T):
        piece = padding[:, first:end]
        out, *_ = layer(x[first:end], source, None, state, self_attn_padding_mask=piece)
        actual.append(out)
        first = end
    torch.testing.assert_close(torch.cat(actual), expected)


# --- biases and widths ---------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHS)
def test_no_parameter_is_a_bias(arch):
    """Each parameter is a matrix or the weight of a norm, so that a layer maps zeros to zeros."""
    model = make_any(arch).eval()
    stacks = [stack for stack in map(model._modules.get, ("encoder", "decoder")) if stack]
    for stack in stacks:
        norms = {id(norm.weight) for norm in stack.modules() if isinstance(norm, RMSNorm)}
        assert all(p.dim() == 2 or id(p) in norms for p in stack.parameters())
        for layer in stack.layers:
            zeros = torch.zeros(T, B, 16)
            out = layer(zeros, encoder_padding_mask=None)
            assert not (out[0] if isinstance(out, tuple) else out).any()


@pytest.mark.parametrize(
    "line, width",
    [
        ("--decoder-embed-dim 512", 1368),
        ("--decoder-embed-dim 320 --decoder-attention-heads 5", 856),
        ("--decoder-embed-dim 96 --decoder-attention-heads 2", 256),  # 8/3 is a multiple itself
        ("--decoder-embed-dim 512 --decoder-ffn-embed-dim 100", 100),
    ],
)
def test_inner_width_is_8_3_of_the_width(line, width):
    """The inner width is rounded up to a multiple of 8, and an option replaces it."""
    with torch.device("meta"):
        model = make_any("transformer_lm_modern", *line.split(), sizes=[])
    maps = model.decoder.layers[0].feed_forward
    assert maps.gate_proj.out_features == maps.up_proj.out_features == width
    assert maps.down_proj.in_features == width


def test_the_decoder_inherits_the_encoders_inner_width():
    for options, width in ([], 40), (["--decoder-ffn-embed-dim", "24"], 24):
        sizes = ["--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "40"]
        model = make_any("transformer_modern", *sizes, *options, sizes=[], task=Task())
        assert model.encoder.layers[0].feed_forward.down_proj.in_features == 40
        assert model.decoder.layers[0].feed_forward.down_proj.in_features == width
