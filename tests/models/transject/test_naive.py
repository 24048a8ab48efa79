"""The formula that the layers are held against, itself held against scalars and its theorem."""

import math

import pytest
import torch

from fairseq_odeformers.models.transject import naive

pytestmark = pytest.mark.usefixtures("float64")
T, C, E, DEPTH, ALPHA = 3, 4, 2, 3, 0.7


def orthogonal(*size):
    return torch.nn.init.orthogonal_(torch.empty(*size))


def elu(x):
    return x if x > 0 else math.exp(x) - 1


def test_layer_scalar_by_scalar():
    """Each token and column of Eqs. 2 to 4."""
    torch.manual_seed(0)
    x, sigma, w = torch.randn(T, C), torch.rand(C), torch.randn(C)
    us, vs = (torch.stack([orthogonal(C, C) for _ in range(E)]) for _ in range(2))
    w1, w2, b1, b2 = orthogonal(C, C), orthogonal(C, C), torch.randn(C), torch.randn(C)
    out = naive.mixture(x, sigma, us, vs, w, ALPHA, DEPTH)
    out = naive.feed_forward(out, w1, b1, w2, b2, ALPHA, DEPTH)

    def product(row, matrix, j):
        return sum(row[i] * matrix[i][j].item() for i in range(C))

    step, states = ALPHA / DEPTH, []
    for u, v in zip(us, vs):
        state = []
        for row in x.tolist():
            scaled = [product(row, u, j) * sigma[j].item() for j in range(C)]
            state.append([row[j] + step * elu(product(scaled, v, j)) for j in range(C)])
        states.append(state)
    gates = [
        math.exp(sum(w[j].item() * max(state[t][j] for t in range(T)) for j in range(C)))
        for state in states
    ]
    for t in range(T):
        row = [
            sum(gate / sum(gates) * state[t][j] for gate, state in zip(gates, states))
            for j in range(C)
        ]
        hidden = [elu(product(row, w1, j) + b1[j].item()) for j in range(C)]
        expected = [row[j] + step * elu(product(hidden, w2, j) + b2[j].item()) for j in range(C)]
        assert out[t].tolist() == pytest.approx(expected)


def test_eigenvalues_scalar_by_scalar():
    """g, sigma and the reconstruction, from the entries of X_0^T X_0."""
    torch.manual_seed(0)
    x, u = torch.randn(T, C), orthogonal(C, C)
    n = range(C)
    gram = [[sum(x[t, i].item() * x[t, j].item() for t in range(T)) for j in n] for i in n]
    g = [sum(u[i, k].item() * gram[i][j] * u[j, k].item() for i in n for j in n) for k in n]
    rebuilt = [[sum(u[i, k].item() * g[k] * u[j, k].item() for k in n) for j in n] for i in n]
    error = sum((gram[i][j] - rebuilt[i][j]) ** 2 for i in n for j in n) / max(g) ** 2
    assert naive.eigenvalues(x, u).tolist() == pytest.approx(g)
    assert naive.standardized(naive.eigenvalues(x, u)).tolist() == pytest.approx(
        [value / max(g) for value in g]
    )
    assert naive.reconstruction(x, u).item() == pytest.approx(error)


def test_linear_attention_is_orthogonal_attention():
    """Theorem 1: with X^T X = Q diag(sigma) Q^T, U = W_Q W_K^T Q and V = Q^T W_V."""
    torch.manual_seed(0)
    x, (w_q, w_k, w_v) = torch.randn(7, C), (orthogonal(C, C) for _ in range(3))
    eigenvalues, q = torch.linalg.eigh(x.T @ x)
    ours = naive.attention(x, w_q @ w_k.T @ q, eigenvalues, q.T @ w_v)
    assert (ours - naive.linear_attention(x, w_q, w_k, w_v)).abs().max() < 1e-12
    assert naive.reconstruction(x, q) < 1e-12
    assert (naive.eigenvalues(x, q) - eigenvalues).abs().max() < 1e-12
