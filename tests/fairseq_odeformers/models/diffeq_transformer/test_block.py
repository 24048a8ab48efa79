"""Blocks against the paper's equations, against a Transformer, and against an ODE's solution."""

import math

import pytest
import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_config import EncDecBaseConfig
from helpers import assert_same_gradients
from torchdiffeq import odeint

from fairseq_odeformers.models.diffeq_transformer import naive
from fairseq_odeformers.models.diffeq_transformer.block import (
    DiffEqCausalBlock,
    DiffEqDecoderBlock,
    DiffEqEncoderBlock,
)
from fairseq_odeformers.models.diffeq_transformer.maps import (
    TimeDependent,
    TimeDependentLinear,
    time_features,
)
from fairseq_odeformers.models.diffeq_transformer.spec import BlockSpec
from fairseq_odeformers.modules.transformer_layer import EncoderLayer

C, H, INNER, L = 8, 2, 12, 3
BLOCKS = [DiffEqEncoderBlock, DiffEqCausalBlock]


def make_block(cls=DiffEqEncoderBlock, **options):
    """A block whose parameters all differ from their initial values."""
    torch.manual_seed(0)
    sizes = dict(embed_dim=C, ffn_embed_dim=INNER, attention_heads=H, steps=L)
    block = cls(BlockSpec(**sizes, **options))
    for parameter in block.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.2)
    return block


def run(block, x):
    """The output (T, C) of the block for a single text (T, C)."""
    if isinstance(block, DiffEqCausalBlock):
        mask = torch.full((len(x), len(x)), -math.inf).triu(1)
        return block(x.unsqueeze(1), self_attn_mask=mask)[0][:, 0]
    return block(x.unsqueeze(1))[:, 0]


def formulas(block, frequencies=4, features=naive.time_features):
    """Attn_t and FFN_t of the parameters of a block, by the paper's equations."""
    causal = isinstance(block, DiffEqCausalBlock)

    def embed(module, t):
        first, _, second = module.embedding
        phi = features(t, frequencies)
        return naive.time_embedding(phi, first.weight, first.bias, second.weight, second.bias)

    def linear(module, t):
        e = embed(module, t)
        weight = naive.weight(e, module.weight.permute(2, 1, 0), module.constant.T)
        return weight, naive.bias(e, module.bias.T)

    def norm(module, t, x):
        return naive.layer_norm(x, embed(module, t), module.weight.T, module.bias.T)

    def attention(t, x):
        attn = block.self_attn
        maps = (linear(projection, t) for projection in (attn.qkv_proj, attn.out_proj))
        return naive.attention(norm(attn.layer_norm, t, x), *maps, H, causal)

    def ffn(t, x):
        ff = block.feed_forward
        return naive.feed_forward(norm(ff.layer_norm, t, x), linear(ff.fc1, t), linear(ff.fc2, t))

    return attention, ffn


FEATURES = {"harmonic": naive.time_features, "released": naive.released_time_features}


@pytest.mark.parametrize("form", FEATURES)
@pytest.mark.parametrize("cls", BLOCKS)
def test_block_equals_the_formula(float64, cls, form):
    """The output and the gradients of the input and all parameters equal the formula's."""
    block = make_block(cls, time_features=form)
    x = torch.randn(5, C, requires_grad=True)
    theirs = naive.solve(x, L, *formulas(block, features=FEATURES[form]), final_norm=lambda x: x)
    assert_same_gradients(run(block, x), theirs, [x, *block.parameters()], 1e-9)


@pytest.mark.parametrize("cls", [*BLOCKS, DiffEqDecoderBlock])
def test_single_precision_gradients_equal_float64s(cls):
    """Single-precision gradients equal float64's, also with a source and padding."""
    results = []
    for dtype in (torch.float32, torch.float64):
        block = make_block(cls).to(dtype)
        torch.manual_seed(1)
        x, source = (torch.randn(n, 2, C).to(dtype) for n in (5, 6))
        padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
        inputs = {"encoder_padding_mask": padding}
        if cls is not DiffEqEncoderBlock:
            inputs = {"self_attn_padding_mask": padding, "self_attn_mask": torch.ones(5, 5)}
        if cls is DiffEqDecoderBlock:
            inputs["encoder_out"] = source
        out = block(x, **inputs)
        out = out if cls is DiffEqEncoderBlock else out[0]
        loss = (out * torch.arange(C) * ~padding.T.unsqueeze(-1)).sum()
        results.append(torch.autograd.grad(loss, [*block.parameters()]))
    for ours, exact in zip(*results):
        assert (ours - exact).abs().max() < 1e-4 * max(1, exact.abs().max().item())


# --- Transformers as special cases ---------------------------------------------------


def fairseq_layers(count):
    sizes = EncDecBaseConfig(
        embed_dim=C, ffn_embed_dim=INNER, attention_heads=H, normalize_before=True
    )
    layers = [EncoderLayer(TransformerConfig(encoder=sizes, dropout=0.0)) for _ in range(count)]
    for parameter in (parameter for layer in layers for parameter in layer.parameters()):
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return layers


def parallel_transformer(layers, x, scale=1.0):
    """x + scale (Attn(LN(x)) + FFN(LN'(x))), layer by layer, by fairseq's modules: (T, C)."""
    x = x.unsqueeze(1)
    for layer in layers:
        y = layer.self_attn_layer_norm(x)
        attended, _ = layer.self_attn(y, y, y, need_weights=False)
        x = x + scale * (attended + layer.fc2(layer.fc1(layer.final_layer_norm(x)).relu()))
    return x[:, 0]


def linear_maps(block, layer):
    """The linear maps of a block, each with fairseq's linear maps and their weight and bias."""
    attention = layer.self_attn
    qkv = [attention.q_proj, attention.k_proj, attention.v_proj]
    pairs = [(block.self_attn.qkv_proj, qkv), (block.self_attn.out_proj, [attention.out_proj])]
    pairs += [(block.feed_forward.fc1, [layer.fc1]), (block.feed_forward.fc2, [layer.fc2])]
    for ours, theirs in pairs:
        weight, bias = (
            torch.cat([getattr(x, name) for x in theirs]) for name in ("weight", "bias")
        )
        yield ours, weight, bias


def norms(block, layer):
    yield block.self_attn.layer_norm, layer.self_attn_layer_norm
    yield block.feed_forward.layer_norm, layer.final_layer_norm


@torch.no_grad()
def test_a_block_without_time_is_a_transformer_with_shared_weights(float64):
    """With zero G, B, u and v a step is a layer of the constants c, its branches divided by L."""
    block, (layer,) = make_block(), fairseq_layers(1)
    for module, weight, bias in linear_maps(block, layer):
        module.weight.zero_(), module.bias.zero_(), bias.zero_()
        module.constant.copy_(weight)
    for module in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj):
        module.bias.zero_()
    for module in (layer.self_attn.out_proj, layer.fc1, layer.fc2):
        module.bias.zero_()
    for ours, theirs in norms(block, layer):
        ours.weight.zero_(), ours.bias.zero_()
        theirs.weight.fill_(1), theirs.bias.zero_()
    x = torch.randn(5, C)
    assert torch.allclose(run(block, x), parallel_transformer([layer] * L, x, 1 / L), atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("width", [L, 2 * L])
def test_a_block_with_unit_vectors_is_any_parallel_transformer(float64, width):
    """A2 is solved for so that e(t_k) is the k-th unit vector and G has a layer for each step."""
    block, layers = make_block(time_embed_dim=width), fairseq_layers(L)
    for module in block.modules():
        if hasattr(module, "embedding"):
            first, activation, second = module.embedding
            hidden = activation(first(module.features))  # L, E
            second.weight.zero_()
            second.weight[:L] = torch.linalg.pinv(hidden).T
            second.bias.zero_()
            module.weight.zero_(), module.bias.zero_()
            assert torch.allclose(module.embed(), torch.eye(L, width), atol=1e-9)
    for k, layer in enumerate(layers):
        outputs = block.self_attn.out_proj, block.feed_forward.fc2
        for module, weight, bias in linear_maps(block, layer):
            scale = L if module in outputs else 1
            module.constant.zero_()
            module.weight[k], module.bias[k] = scale * weight, scale * bias
        for ours, theirs in norms(block, layer):
            ours.weight[k], ours.bias[k] = theirs.weight - 1, theirs.bias
    x = torch.randn(5, C)
    assert torch.allclose(run(block, x), parallel_transformer(layers, x), atol=1e-5)


# --- steps of an ODE -----------------------------------------------------------------


@torch.no_grad()
def test_twice_the_steps_halve_the_error(float64):
    """The reference is torchdiffeq's solution of a field whose weights change slowly with t."""
    attention, ffn = formulas(make_block(time_frequencies=0), frequencies=0)
    x, errors = torch.randn(5, C), []
    field = lambda t, x: attention(t.item(), x) + ffn(t.item(), x)  # noqa: E731
    *_, end = odeint(field, x, torch.tensor([0.0, 1.0]), rtol=1e-9, atol=1e-9)
    for steps in (32, 64):
        block = make_block(time_frequencies=0, eval_steps=steps)
        errors.append((run(block, x) - end).norm().item())
    assert errors[0] / errors[1] == pytest.approx(2, abs=0.1)
    assert errors[1] < 0.1


# --- weights -------------------------------------------------------------------------


@pytest.mark.parametrize("steps, frequencies", [(1, 1), (12, 4), (36, 128), (24, 512)])
def test_released_features_equal_the_codes(steps, frequencies):
    """Features are exact in single precision, where angles of up to 1,000 have errors of 3e-5."""
    features = time_features(steps, frequencies, "released")
    assert features.dtype == torch.float32
    for k, row in enumerate(features):
        t = (k + 1) / steps
        angles = [
            1000 * t * math.exp(-math.log(10_000) * i / frequencies) for i in range(frequencies)
        ]
        expected = [t, *(math.sin(a) for a in angles), *(math.cos(a) for a in angles)]
        torch.testing.assert_close(row, torch.tensor(expected), rtol=0, atol=1e-6)


def test_released_features_have_known_values():
    """Features of t = 1/12 with four frequencies equal those of qkvflow/nn/time_embed.py."""
    known = [0.08333333, 0.99671093, 0.88729411, 0.74017685, 0.08323692]
    known += [-0.08103905, -0.46120404, 0.67241224, 0.99652979]
    features = time_features(12, 4, "released")[0]
    torch.testing.assert_close(features, torch.tensor(known), rtol=0, atol=1e-6)


def test_released_weights_start_as_in_the_code():
    """G, A1 and A2 have a standard deviation of 0.02, B has 1e-4, and all constants are zero."""
    torch.manual_seed(0)
    sizes = dict(embed_dim=64, ffn_embed_dim=128, attention_heads=4, steps=6, time_embed_dim=20)
    options = dict(time_features="released", time_frequencies=32, initialization="released")
    for module in DiffEqEncoderBlock(BlockSpec(**sizes, **options)).modules():
        if isinstance(module, TimeDependentLinear):
            assert module.weight.std().item() == pytest.approx(0.02, rel=0.05)
            assert module.bias.std().item() == pytest.approx(1e-4, rel=0.1)
            assert not module.constant.any()
        if isinstance(module, TimeDependent):
            for layer in module.embedding[::2]:
                assert layer.weight.std().item() == pytest.approx(0.02, rel=0.15)
                assert not layer.bias.any()


def test_weights_start_with_fairseqs_scale():
    """Weights have fairseq's scale at every time, for a short and a long embedding."""
    torch.manual_seed(0)
    sizes = dict(embed_dim=64, ffn_embed_dim=128, attention_heads=4)
    config = TransformerConfig(encoder=EncDecBaseConfig(**sizes))
    layer = EncoderLayer(config)
    for width in (1, 20):
        block = DiffEqEncoderBlock(BlockSpec(**sizes, steps=6, time_embed_dim=width, eval_steps=50))
        for module, ordinary, _ in linear_maps(block, layer):
            for weight, _ in module.compute():
                assert 0.75 < weight.std() / ordinary.std() < 1.1


@pytest.mark.parametrize("cls", BLOCKS)
def test_weights_are_computed_once_per_pass(cls):
    """Evaluation computes them only in its first pass, until they may change."""
    block, made = make_block(cls), []
    maps = [m for m in block.modules() if hasattr(m, "embedding")]
    for module in maps:
        module.embedding.register_forward_hook(lambda *call: made.append(call))
    x = torch.randn(4, C)
    for prepare, passes in [(block.train, 2), (block.eval, 1), (block.train, 2)]:
        made.clear()
        prepare()
        with torch.set_grad_enabled(block.training):
            first, second = run(block, x), run(block, x)
        assert torch.equal(first, second)
        assert len(made) == passes * len(maps)
