"""The formula that the layers are held against, itself held against the paper's theorem."""

import torch

from fairseq_odeformers.models.transject import naive


def test_linear_attention_is_orthogonal_attention(float64):
    """Theorem 1 holds with X^T X = Q diag(sigma) Q^T, U = W_Q W_K^T Q and V = Q^T W_V."""
    torch.manual_seed(0)
    x = torch.randn(7, 4)
    w_q, w_k, w_v = (torch.nn.init.orthogonal_(torch.empty(4, 4)) for _ in range(3))
    eigenvalues, q = torch.linalg.eigh(x.T @ x)
    ours = naive.attention(x, w_q @ w_k.T @ q, eigenvalues, q.T @ w_v)
    assert (ours - naive.linear_attention(x, w_q, w_k, w_v)).abs().max() < 1e-12
    assert naive.reconstruction(x, q) < 1e-12
    assert (naive.eigenvalues(x, q) - eigenvalues).abs().max() < 1e-12
