"""Linear attention: its formula over pairs of tokens, and a cost that is linear in the length."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from fairseq_odeformers.models.baselines.linear_attention import LinearAttention

C, H, T, B = 8, 2, 6, 3


def make_attention():
    torch.manual_seed(0)
    return LinearAttention(C, H, self_attention=True)


def naive(attention, x, padding):
    """Katharopoulos et al. 2020, Eqs. 4 and 7, for each text, head and query: (T, B, C)."""
    phi = lambda x: F.elu(x) + 1  # noqa: E731
    projections = attention.q_proj, attention.k_proj, attention.v_proj
    out = torch.zeros_like(x)
    for b in range(B):
        for h in range(H):
            columns = slice(h * C // H, (h + 1) * C // H)
            q, k, v = (project(x[:, b])[:, columns] for project in projections)
            for i in range(T):
                weights = phi(q[i]) @ phi(k).T * ~padding[b]
                out[i, b, columns] = weights @ v / weights.sum()
    return attention.out_proj(out)


def batch():
    torch.manual_seed(1)
    return torch.randn(T, B, C), torch.arange(T) >= torch.tensor([[T], [4], [1]])


def test_attention_equals_the_formula(float64):
    attention, (x, padding) = make_attention(), batch()
    out, weights = attention(x, x, x, padding, need_head_weights=True)
    assert (out - naive(attention, x, padding)).abs().max() < 1e-12
    assert (weights.sum(-1) - 1).abs().max() < 1e-12
    assert not weights.masked_select(padding.unsqueeze(1)).any()
    assert attention(x, x, x, padding)[1] is None
    without = attention(x, x, x)[0]
    assert (without - naive(attention, x, torch.zeros_like(padding))).abs().max() < 1e-12


def test_cost_is_linear_in_the_length():
    attention, flops = make_attention(), []
    for length in (100, 200):
        x = torch.randn(length, 1, C, requires_grad=True)
        with FlopCounterMode(display=False) as counter:
            attention(x, x, x)[0].sum().backward()
        flops.append(counter.get_total_flops())
    assert flops[1] == 2 * flops[0]


@pytest.mark.parametrize("sign", [-1, 1])
def test_features_that_underflow_give_finite_outputs(sign):
    """Outputs and gradients are finite if features of all queries or keys round to zero."""
    attention, (x, padding) = make_attention(), batch()
    for project in (attention.q_proj, attention.k_proj):
        torch.nn.init.constant_(project.bias, -50 * sign)
    x.requires_grad_()
    out, _ = attention(x, x, x, padding)
    out.sum().backward()
    assert out.isfinite().all() and x.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_sums_in_single(dtype):
    """A sum of 4,096 features exceeds float16's largest number and the digits of bfloat16."""
    attention = make_attention().to(dtype)
    torch.nn.init.constant_(attention.k_proj.bias, 40)
    x = torch.randn(4096, 1, C).to(dtype)
    out, single = attention(x, x, x)[0], attention.float()(x.float(), x.float(), x.float())[0]
    assert out.dtype == dtype
    assert (out - single).abs().max() < 0.02
