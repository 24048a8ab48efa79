"""TimeEvolvingAttention against the paper's formula, and its two forms against each other."""

import math

import pytest
import torch

from fairseq_odeformers.models.transevolve.attention import (
    FORMS,
    DirectAttention,
    FactoredAttention,
    FusedAttention,
    TimeEvolvingAttention,
    merge_heads,
    split_heads,
)

B, T, S, C, H, L = 2, 5, 7, 12, 3, 4


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def literal_attention(attn, x, y, values, depth, w_k_tilde, mask):
    """softmax(A0 + A1 T^T + T A2 + A3 (T . T)) V at depth l, head by head (paper, Eqs. 6-9).

    ``mask`` is true where a query may not look at a key (B, T, S).
    """
    d_time = attn.time_weight.size(1)
    head = (C + d_time) // H
    time_head, value_head = d_time // H, C // H
    period = d_time * L / (2 * math.pi)
    w = attn.time_weight[depth - 1]
    basis = [math.sin(j * depth / period) for j in range(1, d_time // 2 + 1)]
    basis += [math.cos(j * depth / period) for j in range(1, d_time // 2 + 1)]
    time = torch.stack([w[j] * basis[j] for j in range(d_time)])  # T^l
    q, k = x @ attn.q_proj.weight.T, y @ attn.k_proj.weight.T
    a1, a2 = q @ w_k_tilde.T, k @ attn.time_query.T
    a3 = (attn.time_query * w_k_tilde).sum(1)
    heads = []
    for h in range(H):
        qk, th = slice(h * head, (h + 1) * head), slice(h * time_head, (h + 1) * time_head)
        scores = q[..., qk] @ k[..., qk].transpose(1, 2) / math.sqrt(head)
        scores = (
            scores + (a1[..., th] @ time[th]).unsqueeze(2) + (a2[..., th] @ time[th]).unsqueeze(1)
        )
        scores = scores + (a3[th] * time[th] ** 2).sum()
        weights = scores.masked_fill(mask, -math.inf).softmax(-1)
        heads.append(weights @ values[..., h * value_head : (h + 1) * value_head])
    return torch.cat(heads, -1)


def grads(output, attn, inputs):
    weight = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    return torch.autograd.grad(
        (output * weight).sum(), [*attn.parameters(), *inputs], retain_graph=True
    )


@pytest.mark.parametrize("backend", FORMS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("time_dim", [12, 6])
def test_equals_the_literal_formula(float64, backend, causal, time_dim):
    """Forward and gradients: the terms of A1, A3 and W~k, left out, have no effect."""
    attn = TimeEvolvingAttention(C, H, L, time_dim, backend=backend)
    x = torch.randn(B, T, C, requires_grad=True)
    y = x if causal else torch.randn(B, S, C, requires_grad=True)
    values = torch.randn(*y.shape, requires_grad=True)
    padding = torch.zeros(B, y.size(1), dtype=torch.bool)
    padding[1, -2:] = True
    mask = padding.unsqueeze(1).expand(-1, T, -1)
    if causal:
        mask = mask | torch.ones(T, T, dtype=torch.bool).triu(1)
    w_k_tilde = torch.randn(time_dim, C + time_dim)

    attend = attn.evolve(*attn(x, y, padding), causal)
    inputs = [x, values] if causal else [x, y, values]
    for depth in range(1, L + 1):
        out = merge_heads(attend(depth - 1, split_heads(values, H)))
        expected = literal_attention(attn, x, y, values, depth, w_k_tilde, mask)
        assert (out - expected).abs().max() < 1e-9
        for ours, theirs in zip(grads(out, attn, inputs), grads(expected, attn, inputs)):
            assert (ours - theirs).abs().max() < 1e-9


@pytest.mark.parametrize("form", FORMS.values())
def test_all_depths_are_the_single_depths(float64, form):
    attend = form(
        torch.randn(B, H, T, 8), torch.randn(B, H, S, 8), torch.randn(B, H, S, L), causal=False
    )
    values = torch.randn(B, H, S, 4)
    one_by_one = torch.stack([attend(depth, values) for depth in range(L)])
    assert torch.allclose(attend.all_depths(values), one_by_one, rtol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_factored_equals_fused_with_large_logits(causal):
    """In float32, with scores and biases spread over [-30, 30] (an ulp is 2e-6)."""
    q, k = torch.randn(B, H, 64, 8), torch.randn(B, H, 64, 8)
    q = q * (30 / (q @ k.transpose(-2, -1)).abs().max())
    bias = torch.empty(B, H, 64, L).uniform_(-30, 30)
    values = torch.randn(B, H, 64, 4)
    factored, fused = FactoredAttention(q, k, bias, causal), FusedAttention(q, k, bias, causal)
    for depth in range(L):
        a, b = factored(depth, values), fused(depth, values)
        assert (a - b).norm() / b.norm() < 1e-5


@pytest.mark.parametrize("form", FORMS.values())
@pytest.mark.parametrize("causal", [False, True])
def test_stays_exact_where_training_takes_the_logits(form, causal):
    """Scores, and biases about a mean, that span 100 in float32: value and gradient."""
    q, k = torch.randn(B, H, 64, 8), torch.randn(B, H, 64, 8)
    q = q * (50 / (q @ k.transpose(-2, -1)).abs().max())
    bias = torch.empty(B, H, 64, L).uniform_(-50, 50) + 100 * torch.randn(B, H, 64, 1)
    inputs = [q, k, bias, torch.randn(B, H, 64, 4)]
    weight = torch.randn(B, H, 64, 4)
    results = []
    for dtype in (torch.float32, torch.float64):
        q, k, bias, values = (x.to(dtype).requires_grad_() for x in inputs)
        out = form(q, k, bias, causal)(1, values)
        grad = torch.autograd.grad((out * weight).sum(), (q, k, bias, values))
        results.append([out, *grad])
    for ours, exact in zip(*results):
        assert (ours - exact).norm() / exact.norm() < 1e-4


@pytest.mark.parametrize("form", FORMS.values())
@pytest.mark.parametrize("scale", [1, 1e-4, 1e-7])
def test_gradients_stay_exact_however_small(form, scale):
    """With attention that is nearly uniform over many keys, and a loss of any magnitude."""
    inputs = [torch.randn(1, 1, 512, n) for n in (8, 8, L, 4)]
    weight = scale * torch.randn(1, 1, 512, 4)
    results = []
    for dtype in (torch.float32, torch.float64):
        q, k, bias, values = (x.to(dtype).requires_grad_() for x in inputs)
        out = form(q * 0.1, k * 0.1, bias * 0.1, False)(1, values)
        results.append(torch.autograd.grad((out * weight).sum(), (q, k, bias, values)))
    for ours, exact in zip(*results):
        assert (ours - exact).norm() / exact.norm() < 1e-4


def test_factored_form_holds_long_sums():
    """8,192 keys of equal weight and values of 10."""
    q, k, bias = torch.zeros(1, 1, 1, 8), torch.zeros(1, 1, 8192, 8), torch.zeros(1, 1, 8192, L)
    out = FactoredAttention(q, k, bias, False)(0, torch.full((1, 1, 8192, 4), 10.0))
    assert torch.allclose(out, torch.tensor(10.0), rtol=1e-4)


@pytest.mark.parametrize("backend", FORMS)
def test_a_shift_of_all_biases_at_a_depth_changes_nothing(backend):
    """Whatever its size, and beside padding that it does not reach."""
    attn = TimeEvolvingAttention(C, H, L, C, backend=backend)
    x = torch.randn(B, T, C)
    padding = torch.zeros(B, T, dtype=torch.bool)
    padding[0, :2] = True
    q, k, bias = attn(x, x, padding)
    shift = torch.tensor([0.0, -300.0, 0.0, 0.0]) * ~padding[:, None, :, None]
    out, shifted = (attn.evolve(q, k, b)(1, split_heads(x, H)) for b in (bias, bias + shift))
    assert (out - shifted)[:, :, 2:].abs().max() < 1e-3


@pytest.mark.parametrize("backend", FORMS)
def test_fully_masked_rows_stay_finite(backend):
    """Left padding under a causal mask: the first rows see padding alone, in value and gradient."""
    attn = TimeEvolvingAttention(C, H, L, C, backend=backend)
    x = torch.randn(B, T, C, requires_grad=True)
    padding = torch.zeros(B, T, dtype=torch.bool)
    padding[0, :2] = True
    out = attn.evolve(*attn(x, x, padding), causal=True)(0, split_heads(x, H))
    assert out.isfinite().all()
    assert all(g.isfinite().all() for g in grads(out, attn, [x]))


def test_gradients_match_finite_differences(float64):
    attn = TimeEvolvingAttention(4, 2, 2, 4, backend="factored")
    x, values = (
        torch.randn(1, 3, 4, requires_grad=True),
        torch.randn(1, 2, 3, 2, requires_grad=True),
    )
    assert torch.autograd.gradcheck(
        lambda x, v: attn.evolve(*attn(x, x), causal=True)(1, v), (x, values)
    )


def test_dropout_acts_on_queries_and_keys_in_training_only():
    attn = TimeEvolvingAttention(C, H, L, C, dropout=0.5)
    x = torch.randn(B, T, C)
    assert (attn.queries(x) == 0).any() and (attn.keys(x)[0] == 0).any()
    attn.eval()
    assert (attn.queries(x) != 0).all() and (attn.keys(x)[0] != 0).all()


@pytest.mark.parametrize(
    ("queries", "keys", "dtype", "form"),
    [
        (1, 2000, torch.float32, DirectAttention),
        (32, 2000, torch.float32, DirectAttention),
        (2000, 32, torch.float32, DirectAttention),
        (33, 33, torch.float32, FactoredAttention),
        (33, 2048, torch.float32, FactoredAttention),
        (33, 2049, torch.float32, FusedAttention),
        (33, 33, torch.float16, FusedAttention),
        (33, 33, torch.bfloat16, FusedAttention),
    ],
)
def test_auto_chooses_by_length_and_precision(queries, keys, dtype, form):
    attn = TimeEvolvingAttention(C, H, L, C).to(dtype)
    x, y = torch.randn(1, queries, C, dtype=dtype), torch.randn(1, keys, C, dtype=dtype)
    with torch.no_grad():
        assert type(attn.evolve(*attn(x, y))) is form


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((12, 5, 12), "embed_dim 12 .* 5 heads"),
        ((12, 3, 5), "--time-dim 5.*even"),
        ((12, 3, 8), "--time-dim 8 .* 3"),
        ((12, 0, 12), "0 heads: give at least 1"),
        ((12, 3, 0), "--time-dim 0"),
    ],
)
def test_sizes_that_do_not_fit_are_named(sizes, message):
    embed_dim, num_heads, time_dim = sizes
    with pytest.raises(ValueError, match=message):
        TimeEvolvingAttention(embed_dim, num_heads, L, time_dim)
