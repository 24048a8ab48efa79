"""TransJect as its paper writes it, for reading: with every term and without fast paths.

This module contains the equations of Sengupta et al. (2023) as functions of one sequence without
padding, in the paper's order. :func:`embed` returns X_0, and a :func:`layer` is :func:`mixture`
followed by :func:`feed_forward`. Tests compare the layers with these functions. Tokens are rows.
sigma is the diagonal of Sigma: (C) or, in the causal form, (T, C) with one diagonal per token.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def linear_attention(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> Tensor:
    """Q K^T V without softmax, the starting point of Theorem 1 (Eq. 9): (T, C)."""
    return (x @ w_q) @ (x @ w_k).T @ (x @ w_v)


def attention(x: Tensor, u: Tensor, sigma: Tensor, v: Tensor) -> Tensor:
    """X U Sigma V with orthogonal U and V, the result of Theorem 1 (Eq. 10): (T, C)."""
    return (x @ u * sigma) @ v


def eigenvalues(x0: Tensor, u0: Tensor) -> Tensor:
    """diag(U_0^T X_0^T X_0 U_0), the best Sigma for an orthogonal U_0 (section 3.2): (C)."""
    return torch.diag(u0.T @ x0.T @ x0 @ u0)


def standardize(g: Tensor) -> Tensor:
    """sigma: the eigenvalues divided by the largest one (section 3.2): (C).

    The paper says "standardization"; the authors' code takes tanh and divides by the maximum.
    """
    return g / g.max()


def reconstruction(x0: Tensor, u0: Tensor) -> Tensor:
    """Return the regulariser ||X_0^T X_0 - U_0 diag(g) U_0^T||_F^2 / max(g)^2 (section 3.2): ().

    The paper neither squares nor divides the norm. After the division, the regulariser does not
    depend on the scale of X_0, but it also falls if one eigenvalue is much larger than the others.
    """
    g = eigenvalues(x0, u0)
    difference = x0.T @ x0 - u0 @ torch.diag(g) @ u0.T  # (C, C)
    return difference.square().sum() / g.max() ** 2


def residual(x: Tensor, change: Tensor, alpha: Tensor, depth: int) -> Tensor:
    """X + alpha / L F(X) (Eq. 2): (T, C).

    In the paper, alpha lies between 0 and 1. In the authors' classifier, alpha is a tanh and lies
    between -1 and 1.
    """
    return x + alpha / depth * change


def expert_weights(states: Tensor, w: Tensor) -> Tensor:
    """lambda = softmax over e of w . max_t X^(e), from X^(e) (E, T, C): (E).

    The paper gives no formula for lambda; this one comes from the authors' code.
    """
    return (states.amax(1) @ w).softmax(0)


def mixture(
    x: Tensor, sigma: Tensor, us: Tensor, vs: Tensor, w: Tensor, alpha: Tensor, depth: int
) -> Tensor:
    """sum_e lambda_e (X + alpha / L ELU(X U_e Sigma V_e)) (Eqs. 2 and 3): (T, C).

    Args:
        x: states (T, C).
        us, vs: orthogonal matrices of the experts (E, C, C).
        w: weight of the gate (C).
    """
    changes = (F.elu(attention(x, u, sigma, v)) for u, v in zip(us, vs))
    states = torch.stack([residual(x, change, alpha, depth) for change in changes])  # (E, T, C)
    return (expert_weights(states, w).view(-1, 1, 1) * states).sum(0)


def feed_forward(
    x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, alpha: Tensor, depth: int
) -> Tensor:
    """X + alpha / L ELU(ELU(X W_1 + b_1) W_2 + b_2), W_1 and W_2 orthogonal (sec. 3.4): (T, C)."""
    return residual(x, F.elu(F.elu(x @ w1 + b1) @ w2 + b2), alpha, depth)


def layer(
    x: Tensor,
    sigma: Tensor,
    experts: tuple[Tensor, Tensor, Tensor],
    ffn: tuple[Tensor, Tensor, Tensor, Tensor],
    alpha: Tensor,
    depth: int,
) -> Tensor:
    """Layer l of L = depth (Eq. 4): (T, C). *experts* are us, vs and w; *ffn* is w1, b1, w2, b2."""
    x = mixture(x, sigma, *experts, alpha, depth)
    return feed_forward(x, *ffn, alpha, depth)


def embed(tokens: Tensor, embedding: Tensor, positions: Tensor) -> Tensor:
    """X_0 = Concat(Emb(x), PE) (section 3.5): (T, C).

    Args:
        tokens: symbols (T).
        embedding: one row per symbol (V, C/2).
        positions: one row per position (at least T, C/2).
    """
    return torch.cat([embedding[tokens], positions[: len(tokens)]], dim=1)


def causal_eigenvalues(x0: Tensor, u0: Tensor) -> Tensor:
    """sigma for each prefix of X_0, at its last token: (T, C). The paper has no causal form."""
    prefixes = (x0[: t + 1] for t in range(len(x0)))
    return torch.stack([standardize(eigenvalues(prefix, u0)) for prefix in prefixes])
