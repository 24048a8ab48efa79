"""Steps and layers against the equations, the Transformer, and Nesterov's method."""

import math

import pytest
import torch
import torch.nn.functional as F
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_config import DecoderConfig, EncDecBaseConfig
from fairseq.modules.transformer_layer import (
    TransformerDecoderLayerBase,
    TransformerEncoderLayerBase,
)
from helpers import assert_same_gradients, sub_layers
from torch import nn

from fairseq_odeformers.models.yuriiformer import naive
from fairseq_odeformers.models.yuriiformer.layer import (
    MomentumBlock,
    MomentumDecoderLayer,
    MomentumEncoderLayer,
    Step,
)
from fairseq_odeformers.models.yuriiformer.spec import LayerSpec

C, H, INNER, L = 8, 2, 12, 3
KINDS = ("encoder", "language model", "translator's decoder")
kinds = pytest.mark.parametrize("kind", KINDS)


def config():
    sizes = dict(embed_dim=C, ffn_embed_dim=INNER, attention_heads=H, normalize_before=True)
    return TransformerConfig(
        encoder=EncDecBaseConfig(**sizes), decoder=DecoderConfig(**sizes), dropout=0.0
    )


def make_block(kind, nu, velocity):
    """A block whose parameters all differ from their initial values."""
    torch.manual_seed(0)
    cls = MomentumEncoderLayer if kind == "encoder" else MomentumDecoderLayer
    without_source = [True] * (kind == "language model")
    specs = [LayerSpec(velocity, nu, first=number == 0) for number in range(L)]
    layers = [cls(config(), spec, *without_source) for spec in specs]
    block = MomentumBlock(nn.ModuleList(layers))
    for parameter in block.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return block


def set_scalars(step, mu, beta, gamma, nu=None):
    """Set the scalars of a step, as values of any size."""
    for name, value in (("mu", mu), ("beta", beta), ("gamma", gamma), ("nu", nu)):
        if value is not None:
            setattr(step, name, lambda value=float(value): torch.tensor([value]))


def norm(module):
    """LN by torch, where an identity stays an identity."""
    if isinstance(module, nn.Identity):
        return module
    return lambda x: F.layer_norm(x, (C,), module.weight, None, module.eps)


def formula(block, x, v, source, causal):
    """The layers by the equations, from and to (T, C)."""
    make_ffn, make_attention = sub_layers(H)
    steps = []
    for layer in block.depths:
        identity = nn.LayerNorm(C)  # sub_layers wants a LayerNorm, which the step replaces
        attend, _ = make_attention(layer.self_attn, identity, causal=causal)
        oracles = [(layer.self_attn_step, attend)]
        if source is not None:
            attend, _ = make_attention(layer.encoder_attn, identity, source=source)
            oracles.append((layer.encoder_attn_step, attend))
        ffn, _ = make_ffn(layer.fc1, layer.fc2, identity)
        for step, oracle in [*oracles, (layer.ffn_step, ffn)]:
            mu, beta, gamma = 0.0, 0.0, 1.0
            if not step.from_rest:
                mu, beta = step.raw_mu.sigmoid(), step.raw_beta.sigmoid()
                gamma = (1 + step.raw_gamma.exp()).log()
            nu = (1 + step.raw_nu.exp()).log() if step.learns_nu else 1.0
            norms = norm(step.layer_norm), norm(step.velocity_layer_norm)
            steps.append(naive.Step(oracle, *norms, mu, beta, gamma, nu))
    return naive.stack(steps, x, v, norm=lambda x: x)


def run(block, kind, x, source, **start):
    """The output of the block for one text (T, 1, C) and a source."""
    if kind == "encoder":
        return block(x, encoder_padding_mask=None, **start)
    mask = torch.full((len(x), len(x)), -math.inf).triu(1)
    return block(x, source, self_attn_mask=mask, **start)[0]


@kinds
@pytest.mark.parametrize("nu", ["fixed", "learned"])
@pytest.mark.parametrize("velocity", ["zero", "embedding"])
def test_layers_equal_the_formula(float64, kind, nu, velocity):
    """The output and the gradients of the inputs and all parameters equal the formula's.

    fairseq's encoder-decoder attention computes its softmax in float32, whatever the input.
    """
    block = make_block(kind, nu, velocity)
    x, v, source = (torch.randn(5, 1, C, requires_grad=True) for _ in range(3))
    start = {"velocity": v} if velocity == "embedding" else {}
    source = source if kind == "translator's decoder" else None
    ours = run(block, kind, x, source, **start)
    rest = v if start else torch.zeros_like(v)
    theirs = formula(
        block, x[:, 0], rest[:, 0], None if source is None else source[:, 0], kind != "encoder"
    )
    used = [x, *start.values(), *([] if source is None else [source])]
    tolerance = 1e-9 if source is None else 1e-5
    assert_same_gradients(ours[:, 0], theirs, [*used, *block.parameters()], tolerance)


@kinds
@pytest.mark.parametrize("nu", ["fixed", "learned"])
def test_a_layer_without_momentum_is_a_transformers(kind, nu):
    """With mu = beta = 0, gamma = nu = 1 and LN_v the identity, a layer is a Transformer's."""
    block, x, source = make_block(kind, nu, "embedding"), *torch.randn(2, 5, 1, C)
    source = source if kind == "translator's decoder" else None
    for step in block.modules():
        if isinstance(step, Step):
            set_scalars(step, 0, 0, 1, 1)
            step.velocity_layer_norm = nn.Identity()
    expected = x
    for layer in block.depths:
        cls = TransformerEncoderLayerBase if kind == "encoder" else TransformerDecoderLayerBase
        twin = cls(config(), *[True] * (kind == "language model"))
        twin.load_state_dict(layer.state_dict(), strict=False)
        for step, name in (("self_attn_step", "self_attn"), ("ffn_step", "final")):
            getattr(twin, f"{name}_layer_norm").weight = getattr(layer, step).layer_norm.weight
        if source is not None:
            twin.encoder_attn_layer_norm.weight = layer.encoder_attn_step.layer_norm.weight
        expected = run(twin, kind, expected, source)
        expected = expected[0] if expected.dim() == 2 else expected
    actual = run(block, kind, x, source, velocity=torch.randn_like(x))
    assert (actual - expected).abs().max() < 1e-6 * expected.abs().max()


@kinds
def test_learned_and_fixed_nu_agree_at_one(kind):
    """The learned nu starts at 1, where both forms compute the same."""
    fixed, learned = (make_block(kind, nu, "zero") for nu in ("fixed", "learned"))
    x, source = torch.randn(2, 5, 1, C)
    state = {name: p for name, p in learned.state_dict().items() if "raw_nu" not in name}
    fixed.load_state_dict(state)
    for name, parameter in learned.named_parameters():
        if "raw_nu" in name:
            parameter.data.copy_(Step(C, learns_nu=True).raw_nu)
    ours, theirs = (run(block, kind, x, source) for block in (fixed, learned))
    assert (ours - theirs).abs().max() < 1e-6


def test_nu_can_be_absorbed_by_the_other_scalars(float64):
    """nu_k g_k, mu_k / nu_(k-1) and beta_k / nu_(k-1) replace nu_k, mu_k and beta_k.

    Here g_k are the weights of LN_v. So a learned nu only widens the range of mu and beta.
    """
    block, x = make_block("encoder", "learned", "zero"), torch.randn(5, 1, C)
    expected, before = run(block, "encoder", x, None), 1.0
    for step in (step for step in block.modules() if isinstance(step, Step)):
        nu = step.nu().item()
        if not step.from_rest:
            mu, beta, gamma = (scalar().item() for scalar in (step.mu, step.beta, step.gamma))
            set_scalars(step, mu / before, beta / before, gamma)
        set_scalars(step, None, None, None, nu=1)
        step.velocity_layer_norm.weight.data *= nu
        before = nu
    assert (run(block, "encoder", x, None) - expected).abs().max() < 1e-9


def test_scalars_have_their_initial_values():
    step = Step(C, learns_nu=True)
    values = [scalar.item() for scalar in (step.mu(), step.beta(), step.gamma(), step.nu())]
    assert values == pytest.approx([0.5, 0.5, math.log(2), 1])


@pytest.mark.parametrize("condition", [4.0, 100.0])
def test_a_step_on_an_energy_is_nesterovs(float64, condition):
    """Without LayerNorms and with mu = beta, iterates and rate on a quadratic are Nesterov's.

    The slowest mode has a double root r = 1 - 1 / sqrt(condition), so it falls as k r^k.
    """
    torch.manual_seed(1)
    curvatures = torch.linspace(1 / condition, 1, 50)
    momentum = (condition**0.5 - 1) / (condition**0.5 + 1)
    step = Step(50)
    step.layer_norm = step.velocity_layer_norm = nn.Identity()
    set_scalars(step, momentum, momentum, 1)
    x, v = torch.randn(50), torch.zeros(50)
    actual = [x]
    for _ in range(200):
        x, v = step.move(x, v, -curvatures * step.look(x, v))
        actual.append(x)
    expected = naive.nesterov(lambda x: curvatures * x, actual[0], momentum, 1, 200)
    assert (torch.stack(actual) - expected).abs().max() < 1e-12
    rate, count = 1 - condition**-0.5, torch.arange(201)
    norms = torch.stack(actual).norm(dim=1)
    bound = norms[0] * (1 + count) * rate**count
    assert (norms <= bound + 1e-14).all()
    plain = norms[0] * (1 - 1 / condition) ** count  # gradient descent, in its slowest mode
    assert condition < 10 or norms[100] < plain[100] / 10
