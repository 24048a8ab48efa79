"""The layers of TransJect (Sengupta et al. 2023, section 3)."""

from typing import Optional

import torch
import torch.nn.functional as F
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor, nn

from .orthogonal import OrthogonalMatrices

GATES = {"tanh": torch.tanh, "sigmoid": torch.sigmoid}


class ConcatenatedPositions(nn.Module):
    """X_0: the embedding of a token beside the sinusoids of its position (paper, section 3.5).

    Args:
        embed_tokens: embedding of width C / 2, with a ``padding_idx``.
        init_size: positions whose sinusoids are made at the start.
    """

    def __init__(self, embed_tokens, init_size):
        super().__init__()
        self.embed_tokens = embed_tokens
        self.embed_positions = SinusoidalPositionalEmbedding(
            embed_tokens.embedding_dim, embed_tokens.padding_idx, init_size
        )

    def forward(self, tokens: Tensor, incremental_state=None) -> Tensor:
        """From tokens (B, T) to (B, T, C), or (B, 1, C) of the last with an incremental state."""
        positions = self.embed_positions(tokens, incremental_state=incremental_state)
        if incremental_state is not None:
            tokens = tokens[:, -1:]
        x = torch.cat([self.embed_tokens(tokens), positions], dim=-1)
        padding_mask = tokens.eq(self.embed_tokens.padding_idx)
        return x.masked_fill(padding_mask.unsqueeze(-1), 0.0)


class Eigenvalues(nn.Module):
    r"""Approximate eigenvalues of X_0^T X_0, which all layers share (paper, section 3.2).

    .. math::
        g = \mathrm{diag}(U_0^T X_0^T X_0 U_0), \quad \sigma = g / \max g, \quad
        \mathrm{reconstruction} = \lVert X_0^T X_0 - U_0 \mathrm{diag}(g) U_0^T \rVert_F^2
        / (\max g)^2

    over the real tokens of a sequence.
    """

    def __init__(self, embed_dim):
        super().__init__()
        self.rotation = OrthogonalMatrices(1, embed_dim)

    def forward(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """
        Args:
            x: X_0 (B, T, C), zero where padding is.

        Returns:
            sigma (B, 1, C), and the regulariser ``reconstruction`` (B).
        """
        x = x.float()
        eigenvalues = self.squares(x).sum(1)
        largest = positive(eigenvalues.amax(1, keepdim=True))
        sigma = (eigenvalues / largest).unsqueeze(1)
        return sigma, {"reconstruction": reconstruction(x, eigenvalues)}

    def squares(self, x: Tensor) -> Tensor:
        """(x U_0)^2, entry by entry, of states (B, T, C)."""
        return (x @ self.rotation()[0]).float().square()


def reconstruction(x: Tensor, eigenvalues: Tensor) -> Tensor:
    """The reconstruction (B) of X_0^T X_0, from X_0 (B, T, C) and g (B, C).

    U_0 keeps the norm, and g is the diagonal of U_0^T X_0^T X_0 U_0, so the squared norm of the
    difference is the difference of the squared norms.
    """
    gram = x.mT @ x if x.size(1) > x.size(2) else x @ x.mT
    difference = gram.float().square().sum((1, 2)) - eigenvalues.square().sum(1)
    return difference.clamp(min=0) / positive(eigenvalues.amax(1).square())


class RandomEigenvalues(nn.Module):
    """Random-TransJect: learnt numbers, drawn at random, take the place of the eigenvalues.

    They are divided by the largest of them, so that the bounds of the paper hold.
    """

    def __init__(self, embed_dim):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(embed_dim))

    def forward(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """sigma (1, 1, C), and no regulariser."""
        return (self.weight / positive(self.weight.abs().amax())).view(1, 1, -1), {}


class MixtureOfExperts(nn.Module):
    r"""Orthogonal attention of E experts with injective residuals (paper, Eqs. 2 and 3).

    .. math::
        F_e(X) = \mathrm{ELU}(X U_e \mathrm{diag}(\sigma) V_e), \quad X_e = X + s F_e(X), \quad
        \lambda = \mathrm{softmax}_e(w \cdot \max_t X_e), \quad X' = \sum_e \lambda_e X_e

    Args:
        embed_dim: width C.
        experts: number E.
    """

    def __init__(self, embed_dim, experts):
        super().__init__()
        self.orthogonal = OrthogonalMatrices(2 * experts, embed_dim)
        self.gate = nn.Linear(embed_dim, 1, bias=False) if experts > 1 else None

    def forward(
        self, x: Tensor, sigma: Tensor, step: Tensor, padding_mask: Optional[Tensor] = None
    ) -> Tensor:
        """
        Args:
            x: X (B, T, C).
            sigma: eigenvalues, (B, 1, C) or (1, 1, C).
            step: s, one number.
            padding_mask: true where a token is padding (B, T).

        Returns:
            X' (B, T, C).
        """
        changes = self.changes(x, sigma)
        if self.gate is None:
            return torch.addcmul(x, changes[0], step)
        weights = self.weights(torch.addcmul(x, changes, step), padding_mask)
        # The weights sum to 1.
        return x + step * (weights * changes).sum(0)

    def changes(self, x: Tensor, sigma: Tensor) -> Tensor:
        """F_e(X) of the experts (E, B, T, C)."""
        u, v = self.orthogonal().unsqueeze(1).chunk(2)  # E, 1, C, C
        if not torch.is_grad_enabled() and x.size(1) > x.size(2) > sigma.size(1):
            return F.elu_(x @ ((u * sigma) @ v))
        return F.elu_(((x @ u) * sigma) @ v)

    def weights(self, states: Tensor, padding_mask: Optional[Tensor] = None) -> Tensor:
        """lambda (E, B, 1, 1), from the experts' states X_e (E, B, T, C)."""
        if padding_mask is not None:
            states = states.masked_fill(padding_mask.unsqueeze(-1), torch.finfo(states.dtype).min)
        return self.gate(states.amax(2, keepdim=True)).softmax(0)


class OrthogonalFFN(nn.Module):
    r"""Orthogonal residual FFN (paper, section 3.4).

    .. math:: X + s\, \mathrm{ELU}(\mathrm{ELU}(X W_1 + b_1) W_2 + b_2)

    with orthogonal W_1 and W_2.
    """

    def __init__(self, embed_dim):
        super().__init__()
        self.orthogonal = OrthogonalMatrices(2, embed_dim)
        self.bias = nn.Parameter(torch.zeros(2, embed_dim))

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        """
        Args:
            x: X (B, T, C).
            step: s, one number.

        Returns:
            output (B, T, C).
        """
        hidden = x
        for weight, bias in zip(self.orthogonal(), self.bias):
            hidden = F.elu_(F.linear(hidden, weight.T, bias))
        return torch.addcmul(x, hidden, step)


class TransJectLayer(nn.Module):
    r"""The experts, then the FFN (paper, Eq. 4), both with the step s = alpha / L.

    Args:
        embed_dim: width C.
        experts: number E of experts.
        depth: number L of layers of the model.
        gate: ``tanh`` or ``sigmoid``, which keeps alpha below 1.
    """

    def __init__(self, embed_dim, experts, depth, gate="tanh"):
        super().__init__()
        self.depth = depth
        self.gate = gate
        self.residual_weight = nn.Parameter(torch.zeros(1))
        self.experts = MixtureOfExperts(embed_dim, experts)
        self.ffn = OrthogonalFFN(embed_dim)

    def step(self) -> Tensor:
        """alpha / L."""
        return GATES[self.gate](self.residual_weight) / self.depth

    def forward(self, x: Tensor, sigma: Tensor, padding_mask: Optional[Tensor] = None) -> Tensor:
        """
        Args:
            x: input (B, T, C).
            sigma: eigenvalues, (B, 1, C) or (1, 1, C).
            padding_mask: true where a token is padding (B, T).

        Returns:
            output (B, T, C).
        """
        step = self.step()
        return self.ffn(self.experts(x, sigma, step, padding_mask), step)


def positive(x: Tensor) -> Tensor:
    """Kept from zero, for sequences of padding alone."""
    return x.clamp(min=torch.finfo(x.dtype).tiny)
