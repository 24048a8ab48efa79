"""The forms of TimeEvolvingAttention against plain softmax; the blocks are against the formula."""

import os
from functools import cache

import pytest
import torch
from helpers import assert_same_gradients

from fairseq_odeformers.models.transevolve import attention
from fairseq_odeformers.models.transevolve.attention import (
    DirectAttention,
    FusedAttention,
    TimeEvolvingAttention,
)
from fairseq_odeformers.models.transevolve.factored import FactoredAttention
from fairseq_odeformers.models.transevolve.spec import BACKENDS, MASKED_BIAS, BlockSpec
from fairseq_odeformers.modules.attention import split_heads

FORMS = BACKENDS[1:]
B, T, S, C, H, L = 2, 5, 7, 12, 3, 4


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def make_attention(backend="auto", dropout=0.0):
    choices = dict(attention_dropout=dropout, attention_backend=backend)
    return TimeEvolvingAttention(BlockSpec(C, C, H, L, C, **choices))


def form(backend):
    """A function from q, k, bias and causal to attention at all depths, for values of width 4."""
    return make_attention(backend).evolve


@pytest.mark.parametrize("backend", FORMS)
def test_all_depths_equal_single_depths(float64, backend):
    q, k, bias = torch.randn(B, H, T, 8), torch.randn(B, H, S, 8), torch.randn(B, H, S, L)
    values = torch.randn(B, H, S, 4, requires_grad=True)
    attend, again = (form(backend)(q, k, bias) for _ in range(2))
    one_by_one = torch.stack([attend(depth, values) for depth in range(L)])
    assert_same_gradients(again.all_depths(values), one_by_one, [values])


def test_unused_depths_and_partial_gradients():
    """All forms agree if depths are unused, gradients stop at the values, or one is taken twice."""
    inputs = torch.randn(B, H, T, 8), torch.randn(B, H, S, 8), torch.randn(B, H, S, L)
    values = torch.randn(B, H, S, 4)
    results = []
    for backend in FORMS:
        q, k, bias, value = (x.clone().requires_grad_() for x in (*inputs, values))
        attend = form(backend)(q, k, bias)
        out = attend(2, attend(0, value)[:, :, [0, 1, 2, 3, 4, 0, 1]])
        first = torch.autograd.grad(out.sum(), value, retain_graph=True)
        second = torch.autograd.grad(out.square().sum(), (q, k, bias, value), retain_graph=True)
        third = torch.autograd.grad(out.square().sum(), (q, k, bias, value))
        results.append((*first, *second))
        assert all(torch.equal(a, b) for a, b in zip(second, third))
    for other in results[1:]:
        for ours, theirs in zip(other, results[0]):
            assert (ours - theirs).norm() / theirs.norm() < 1e-5


def test_the_factored_form_refuses_second_uses():
    """A depth attends only once, and gradients have no gradients."""
    q, k, bias = torch.randn(B, H, T, 8), torch.randn(B, H, S, 8), torch.randn(B, H, S, L)
    values = torch.randn(B, H, S, 4, requires_grad=True)
    attend = form("factored")(q, k, bias)
    (grad,) = torch.autograd.grad(attend(1, values).square().sum(), values, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()
    with pytest.raises(RuntimeError, match="depth 2 has already attended"):
        attend(1, values)


# Kinds of hard inputs; the other inputs of a case are random.
PRECISIONS = torch.float32, torch.float64
CASES = int(os.environ.get("ATTENTION_CASES", 200))


def hard_case(seed):
    """Scores and biases up to +-1,000 of every kind, padding, and whether a mask is causal."""
    random = torch.Generator().manual_seed(seed)

    def uniform(*shape, bound=1.0):
        return (torch.rand(shape, generator=random) * 2 - 1) * bound

    def choose(*choices):
        return choices[torch.randint(len(choices), (), generator=random)]

    keys = choose(1, 2, 7, 40)
    causal = choose(False, True)
    queries = keys if causal else choose(1, 5, 40)
    q, k = uniform(1, 2, queries, 8), uniform(1, 2, keys, 8)
    q = q * choose(1e-3, 1, 30, 1000) / (q @ k.transpose(2, 3)).abs().max()
    scale = choose(0, 1, 40, 100, 127, 200, 1000)
    bias = uniform(1, 2, keys, L, bound=scale)
    kind = choose("random", "step", "spike", "slope", "opposite", "common")
    if kind == "step":  # the largest are later keys, which a causal mask hides
        bias = torch.where(torch.arange(keys).view(-1, 1) > keys // 2, scale, -scale).float()
    elif kind == "spike":
        bias = torch.zeros(1, 2, keys, L)
        bias[:, :, torch.randint(keys, (), generator=random), 1] = choose(-scale, scale)
    elif kind == "slope":
        bias = torch.linspace(-scale, scale, keys).view(-1, 1) * torch.tensor([1.0, -1, 0.5, 0])
    elif kind == "opposite":  # of the scores
        bias = -(q @ k.transpose(2, 3)).mean(2).unsqueeze(-1) * torch.tensor([1.0, 2, -1, 3])
        bias = bias.clamp(-1000, 1000)
    elif kind == "common":
        bias = bias[..., :1] + uniform(1, 2, keys, L)
    bias = bias.expand(1, 2, keys, L).clone()
    hidden = choose(0, 0, keys // 2)
    bias[:, :, keys - hidden :] = MASKED_BIAS
    return q, k, bias, uniform(1, 2, keys, 4), uniform(1, 2, queries, 4), causal


@cache
def solved_case(seed):
    """A hard case with a plain softmax's results in single and in double precision."""
    *inputs, weight, causal = hard_case(seed)
    solutions = (solve(DirectAttention, inputs, weight, causal, dtype) for dtype in PRECISIONS)
    return inputs, weight, causal, *solutions


def solve(attend, inputs, weight, causal, dtype):
    """The values of all depths, and the gradients of the inputs."""
    q, k, bias, values = (x.to(dtype).requires_grad_() for x in inputs)
    attended = attend(q, k, bias, causal)
    out = torch.stack([attended(depth, values) for depth in range(L)])
    gradients = torch.autograd.grad((out * weight.to(dtype)).sum(), (q, k, bias, values))
    return [out.detach(), *gradients]


@pytest.mark.parametrize("backend", BACKENDS)
def test_large_scores_and_biases_stay_exact(backend):
    """Values and gradients are finite, and as close to float64 as 1e-4 where a plain softmax is.

    The error is relative to their size, and for queries and keys to the weights' gradient times
    keys or queries. Rounding moves scores of 1,000 by 1e-4 in a plain softmax, too.
    """
    evolve = form(backend)
    for seed in range(CASES):
        inputs, weight, causal, plain_results, exact_results = solved_case(seed)
        results = solve(evolve, inputs, weight, causal, torch.float32)
        q, k, *_ = inputs
        factors = {"q": k.abs().max(), "k": q.abs().max()}
        names = ("out", "q", "k", "bias", "values")
        for name, ours, plain, exact in zip(names, results, plain_results, exact_results):
            assert ours.isfinite().all(), (seed, name)
            error, rounding = (ours - exact).abs().max(), (plain - exact).abs().max()
            size = max(1, exact.abs().max(), factors.get(name, 1))
            assert error <= 4 * rounding + 1e-4 * size, (seed, name)


@pytest.mark.parametrize("backend", FORMS)
@pytest.mark.parametrize("scale", [1, 1e-4, 1e-7])
def test_small_gradients_stay_exact(backend, scale):
    """Attention is nearly uniform over many keys, and the loss has any magnitude."""
    inputs = [torch.randn(1, 1, 512, n) for n in (8, 8, L, 4)]
    weight = scale * torch.randn(1, 1, 512, 4)
    results = []
    for dtype in (torch.float32, torch.float64):
        q, k, bias, values = (x.to(dtype).requires_grad_() for x in inputs)
        out = form(backend)(q * 0.1, k * 0.1, bias * 0.1)(1, values)
        results.append(torch.autograd.grad((out * weight).sum(), (q, k, bias, values)))
    for ours, exact in zip(*results):
        assert (ours - exact).norm() / exact.norm() < 1e-4


def test_the_factored_form_sums_many_keys():
    """Values of 10 over 8,192 keys of equal weight average to 10."""
    q, k, bias = torch.zeros(1, 1, 1, 8), torch.zeros(1, 1, 8192, 8), torch.zeros(1, 1, 8192, L)
    attend = form("factored")(q, k, bias)
    assert type(attend) is FactoredAttention
    out = attend(0, torch.full((1, 1, 8192, 4), 10.0))
    assert torch.allclose(out, torch.tensor(10.0), rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("backend", FORMS)
def test_fully_masked_rows_stay_finite(backend, dtype):
    """The first rows see only padding, and their values and gradients are finite."""
    attn = make_attention(backend).to(dtype)
    x = torch.randn(B, T, C, dtype=dtype, requires_grad=True)
    padding = torch.zeros(B, T, dtype=torch.bool)
    padding[0, :2] = True
    out = attn.evolve(*attn.project(x, x, padding), causal=True)(0, split_heads(x, H))
    out.square().sum().backward()
    assert out.isfinite().all() and x.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in attn.parameters())


@pytest.mark.parametrize(
    "backend, dtype, size",
    [(backend, torch.float32, size) for backend in FORMS for size in (2e4, 1e6, 1e20)]
    + [(backend, torch.float16, 3e4) for backend in ("direct", "fused")]
    + [(backend, torch.bfloat16, 1e20) for backend in ("direct", "fused")],
)
@pytest.mark.parametrize("causal", [False, True])
def test_padding_has_no_weight_beside_low_biases(backend, dtype, size, causal):
    """All keys have biases of about -size at every depth, and padded values do not contribute."""
    attn = make_attention(backend)
    x = torch.randn(C) + torch.randn(B, T, C) / 100
    padding = torch.zeros(B, T, dtype=torch.bool)
    padding[:, -2:] = True
    with torch.no_grad():
        k = attn.k_proj(x[0, 0])
        attn.time_basis.fill_(1)
        attn.time_weight.fill_(1)
        attn.time_query.copy_(-size * H / C * k / k.square().sum())
    attn, x = attn.to(dtype), x.to(dtype)
    assert (attn.keys(x)[1] < -size / 2).all()
    values = torch.ones_like(x).masked_fill(padding.unsqueeze(-1), 1e3)
    out = attn.evolve(*attn.project(x, x, padding), causal)(1, split_heads(values, H))
    assert torch.allclose(out, torch.ones_like(out), rtol=1e-2)


def test_dropout_of_queries_and_keys_acts_only_in_training():
    attn = make_attention(dropout=0.5)
    x = torch.randn(B, T, C)
    assert (attn.queries(x) == 0).any() and (attn.keys(x)[0] == 0).any()
    attn.eval()
    assert (attn.queries(x) != 0).all() and (attn.keys(x)[0] != 0).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_scales_and_zeroes_attention_weights(backend, causal):
    """Each weight is zero or 1 / (1 - p) times itself, and unchanged on average and in evaluation.

    Values that form an identity matrix return the weights, and the depths drop independently.
    """
    n, p = 40, 0.25
    choices = dict(attention_weights_dropout=p, attention_backend=backend)
    attn = TimeEvolvingAttention(BlockSpec(n, n, 1, 2, 2, **choices))
    q, k, bias = (torch.randn(1, 1, n, size) / 4 for size in (n + 2, n + 2, 2))
    value = torch.eye(n).expand(100, 1, -1, -1)

    def weights():
        """(L, B, H, T, S), depth by depth and from one call for all."""
        inputs = [x.expand(100, -1, -1, -1) for x in (q, k, bias)]
        attend, again = attn.evolve(*inputs, causal), attn.evolve(*inputs, causal)
        return torch.stack([attend(depth, value) for depth in range(2)]), again.all_depths(value)

    exact = DirectAttention(q, k, bias, causal).weights.movedim(2, 0)
    seen = exact.expand(-1, 100, -1, -1, -1) != 0
    for dropped in weights():
        ratio = (dropped / exact)[seen].view(2, 100, -1)
        assert torch.allclose(ratio[ratio != 0], torch.tensor(1 / (1 - p)), rtol=1e-3)
        deviation = (p / (1 - p)) ** 0.5
        assert abs(ratio.mean().item() - 1) < 5 * deviation / ratio.numel() ** 0.5
        assert (ratio.mean(1) - 1).abs().max() < 6 * deviation / 100**0.5
        assert torch.corrcoef(ratio.flatten(1))[0, 1].abs() < 0.02
    attn.eval()
    for kept in weights():
        assert torch.allclose(kept, exact.expand_as(kept), atol=1e-5)


@pytest.mark.parametrize(
    ("queries", "keys", "dtype", "form"),
    [
        (1, 2000, torch.float32, DirectAttention),
        (32, 2000, torch.float32, DirectAttention),
        (2000, 32, torch.float32, DirectAttention),
        (33, 33, torch.float32, FactoredAttention),
        (33, 4096, torch.float32, FactoredAttention),
        (33, 4097, torch.float32, FusedAttention),
        (33, 33, torch.float16, FusedAttention),
        (33, 33, torch.bfloat16, FusedAttention),
    ],
)
def test_auto_selects_by_size_and_precision(queries, keys, dtype, form, monkeypatch):
    monkeypatch.setattr(attention, "FACTORED_BYTES", 4 * H * 33 * 4096)
    attn = make_attention().to(dtype)
    x, y = torch.randn(1, queries, C, dtype=dtype), torch.randn(1, keys, C, dtype=dtype)
    with torch.no_grad():
        assert type(attn.evolve(*attn.project(x, y))) is form


@pytest.mark.parametrize(
    "device, dtype, chosen",
    [
        ("cpu", torch.float32, "factored"),
        ("cpu", torch.bfloat16, "fused"),
        ("meta", torch.float32, "fused"),  # as on a GPU
    ],
)
def test_the_backend_depends_on_the_device(device, dtype, chosen):
    q = torch.empty(1, 2, 64, 8, device=device, dtype=dtype)
    assert TimeEvolvingAttention.fastest_backend(q, q) == chosen
    assert TimeEvolvingAttention.fastest_backend(q, q[:, :, :32]) == "direct"
