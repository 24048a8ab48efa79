"""Layers of TransJect (Sengupta et al. 2023, section 3)."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

GATES = {"tanh": torch.tanh, "sigmoid": torch.sigmoid}


class Eigenvalues(nn.Module):
    r"""Approximate eigenvalues of X_0^T X_0, which all layers share (paper, section 3.2).

    .. math::
        g = \mathrm{diag}(U_0^T X_0^T X_0 U_0), \quad \sigma = g / \max g, \quad
        \mathrm{reconstruction} = \lVert X_0^T X_0 - U_0 \mathrm{diag}(g) U_0^T \rVert_F^2
        / (\max g)^2

    of the real tokens of a sequence.
    """

    def forward(self, x: Tensor, rotation: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """
        Args:
            x: states X_0 (B, T, C), zero where padding is.
            rotation: U_0 (C, C).

        Returns:
            sigma (B, 1, C), and the regulariser ``reconstruction`` (B).
        """
        eigenvalues = (x @ rotation).square().sum(1)
        largest = positive(eigenvalues.amax(1))
        # U_0 keeps the norm of X_0^T X_0, and g is the diagonal of the rotated matrix.
        gram = x.mT @ x if x.size(1) > x.size(2) else x @ x.mT
        error = gram.square().sum((1, 2)) - eigenvalues.square().sum(1)
        reconstruction = error.clamp(min=0) / largest.square()
        sigma = (eigenvalues / largest.unsqueeze(1)).unsqueeze(1)
        return sigma, {"reconstruction": reconstruction}


class RandomEigenvalues(nn.Module):
    """Random-TransJect: learnt numbers, drawn at random, take the place of the eigenvalues.

    Divided by the largest of them, so that the bounds of the paper hold.
    """

    def __init__(self, embed_dim):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(embed_dim))

    def forward(self, x: Tensor, rotation: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        return (self.weight / positive(self.weight.abs().amax())).view(1, 1, -1), {}


class TransJectLayer(nn.Module):
    r"""Experts with injective residuals, then the orthogonal residual FFN (Eqs. 2 to 4).

    .. math::
        X_e = X + \tfrac{\alpha}{L} F_e(X), \quad F_e(X) = \mathrm{ELU}(X U_e \Sigma V_e), \quad
        \lambda = \mathrm{softmax}_e(w \cdot \max_t X_e), \quad X' = \sum_e \lambda_e X_e

        X'' = X' + \tfrac{\alpha}{L} \mathrm{ELU}(\mathrm{ELU}(X' W_1 + b_1) W_2 + b_2)

    The orthogonal matrices are arguments, for those of all layers are made together.

    Args:
        embed_dim: width C.
        depth: number L of layers.
        gate: ``tanh`` or ``sigmoid``, which keeps the residual weight alpha below 1.
    """

    def __init__(self, embed_dim, depth, gate="tanh"):
        super().__init__()
        self.depth = depth
        self.gate = gate
        self.residual_weight = nn.Parameter(torch.zeros(1))
        self.expert_weight = nn.Linear(embed_dim, 1)
        self.bias1 = nn.Parameter(torch.zeros(embed_dim))
        self.bias2 = nn.Parameter(torch.zeros(embed_dim))

    def step(self) -> Tensor:
        """alpha / L."""
        return GATES[self.gate](self.residual_weight) / self.depth

    def forward(
        self, x: Tensor, sigma: Tensor, matrices: Tensor, padding_mask: Optional[Tensor] = None
    ) -> Tensor:
        """
        Args:
            x: input X (B, T, C).
            sigma: eigenvalues of each sequence (B, 1, C).
            matrices: U_1..U_E, V_1..V_E, W_1 and W_2 (2E + 2, C, C).
            padding_mask: true where a token is padding (B, T).

        Returns:
            output (B, T, C).
        """
        experts = len(matrices) // 2 - 1
        u, v, (w1, w2) = matrices.split([experts, experts, 2])
        changes = expert_changes(x, sigma, u, v)
        weights = self.expert_weights(x + self.step() * changes, padding_mask)
        # The weights of the experts sum to 1.
        x = x + self.step() * (weights * changes).sum(0)
        hidden = F.elu(F.elu(x @ w1 + self.bias1) @ w2 + self.bias2)
        return x + self.step() * hidden

    def expert_weights(self, states: Tensor, padding_mask: Optional[Tensor]) -> Tensor:
        """lambda (E, B, 1, 1) of states (E, B, T, C): one weight an expert and sequence."""
        if padding_mask is not None:
            lowest = torch.finfo(states.dtype).min
            states = states.masked_fill(padding_mask.unsqueeze(-1), lowest)
        return self.expert_weight(states.amax(2, keepdim=True)).softmax(0)


class CausalEigenvalues(nn.Module):
    """The eigenvalues of what was read so far: at position t, of X_0^T X_0 over the first t tokens.

    There is no reconstruction, which would be one of every prefix.
    """

    def forward(self, x: Tensor, rotation: Tensor, before: Optional[Tensor] = None):
        """
        Args:
            x: states X_0 (B, T, C), zero where padding is.
            rotation: U_0 (C, C).
            before: the sum g of the tokens before these (B, 1, C).

        Returns:
            sigma (B, T, C), and the sum g with these tokens (B, 1, C).
        """
        eigenvalues = (x @ rotation).square().cumsum(1)
        if before is not None:
            eigenvalues = eigenvalues + before
        sigma = eigenvalues / positive(eigenvalues.amax(-1, keepdim=True))
        return sigma, eigenvalues[:, -1:]


class CausalTransJectLayer(TransJectLayer):
    """The weights of the experts at a position depend on the tokens up to it."""

    def forward(self, x, sigma, matrices, padding_mask=None, before: Optional[Tensor] = None):
        """
        Args:
            x, sigma, matrices: see :class:`TransJectLayer`; sigma is (B, T, C).
            padding_mask: true where a token is padding (B, T).
            before: maximum over the tokens before these (B, E, C).

        Returns:
            output (B, T, C), and the maximum with these tokens (B, E, C).
        """


def expert_changes(x: Tensor, sigma: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """F_e(X) of all experts (E, B, T, C).

    Where no gradient is recorded and a sequence is longer than its width, U_e Sigma V_e is
    multiplied out, so that a token costs one product an expert.
    """
    experts, dim, _ = u.shape
    batch, length, _ = x.shape
    if not torch.is_grad_enabled() and length > dim:
        products = (u.unsqueeze(1) * sigma) @ v.unsqueeze(1)  # E, B, C, C
        return F.elu(x @ products, inplace=True)
    rotated = (x.reshape(-1, dim) @ u).view(experts, batch, length, dim) * sigma
    return F.elu((rotated.view(experts, -1, dim) @ v).view(experts, batch, length, dim))


def positive(x: Tensor) -> Tensor:
    """Kept from zero, for sequences of padding alone."""
    return x.clamp(min=torch.finfo(x.dtype).tiny)
