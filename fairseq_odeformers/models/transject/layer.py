"""The layers of TransJect (Sengupta et al. 2023, section 3)."""

import math
from typing import Optional

import torch
import torch.nn.functional as F
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor, nn

from fairseq_odeformers.modules.linear import LinearWithoutBias
from fairseq_odeformers.modules.orthogonal import OrthogonalMatrices
from fairseq_odeformers.modules.precision import at_least_float32

from .token_statistics import FullStatistics, IncrementalState

GATES = {"tanh": torch.tanh, "sigmoid": torch.sigmoid}

# The paper's loss has the reconstruction of Eigenvalues, with a weight that it does not give.
REGULARIZER_WEIGHTS = {"reconstruction": 1e-4}


class ConcatenatedPositions(nn.Module):
    """X_0: the embedding of a token beside the sinusoids of its position (paper, section 3.5).

    Unit columns of an embedding of many symbols have small entries, which would vanish beside the
    sinusoids; the scale gives both the same size.

    Args:
        embed_tokens: embedding of width C / 2, with a ``padding_idx``.
        embed_scale: factor of the embedding.
        init_size: positions whose sinusoids are made at the start.
    """

    def __init__(self, embed_tokens, embed_scale, init_size):
        super().__init__()
        self.embed_tokens = embed_tokens
        self.embed_scale = embed_scale
        self.embed_positions = SinusoidalPositionalEmbedding(
            embed_tokens.embedding_dim, embed_tokens.padding_idx, init_size
        )

    def forward(self, tokens: Tensor, incremental_state=None) -> Tensor:
        """From tokens (B, T) to (B, T, C), or (B, 1, C) of the last with an incremental state."""
        positions = self.embed_positions(tokens, incremental_state=incremental_state)
        if incremental_state is not None:
            tokens = tokens[:, -1:]
        x = torch.cat([self.embed_scale * self.embed_tokens(tokens), positions], dim=-1)
        return x * tokens.ne(self.embed_tokens.padding_idx).unsqueeze(-1)


class Eigenvalues(nn.Module):
    r"""Approximate eigenvalues of X_0^T X_0, which all layers share (paper, section 3.2).

    .. math::
        g = \mathrm{diag}(U_0^T X_0^T X_0 U_0), \quad \sigma = g / \max g, \quad
        \mathrm{reconstruction} = \lVert X_0^T X_0 - U_0 \mathrm{diag}(g) U_0^T \rVert_F^2
        / (\max g)^2

    over the real tokens of a sequence, or over those up to the present one.

    Args:
        embed_dim: width C.
        statistics_class: class of the sum, :class:`.token_statistics.FullStatistics` or
            :class:`.token_statistics.CausalStatistics`.
    """

    def __init__(self, embed_dim, statistics_class=FullStatistics):
        super().__init__()
        self.rotation = OrthogonalMatrices(1, embed_dim)
        self.statistics = statistics_class()

    def forward(
        self, x: Tensor, incremental_state: IncrementalState = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """
        Args:
            x: X_0 (B, T, C), zero where padding is.
            incremental_state: the state of the tokens before these, in generation.

        Returns:
            sigma (B, 1, C), or (B, T, C) if causal; and in training the regulariser
            ``reconstruction`` (B) of all tokens.
        """
        squares = at_least_float32(x @ self.rotation()[0]).square()
        eigenvalues = self.statistics.sum(squares, incremental_state)
        sigma = over_largest(eigenvalues).to(x)
        if not self.training:
            return sigma, {}
        return sigma, {"reconstruction": reconstruction(x, eigenvalues[:, -1])}


def reconstruction(x: Tensor, eigenvalues: Tensor) -> Tensor:
    """The reconstruction (B) of X_0^T X_0, from X_0 (B, T, C) and g (B, C).

    U_0 keeps the norm, and g is the diagonal of U_0^T X_0^T X_0 U_0, so the squared norm of the
    difference is the difference of the squared norms.
    """
    # Of X_0 / sqrt(max g), so that no square of a square leaves the range of the numbers.
    largest = positive(eigenvalues.amax(1, keepdim=True))
    x = at_least_float32(x) / largest.sqrt().unsqueeze(2)
    gram = x.mT @ x if x.size(1) > x.size(2) else x @ x.mT
    difference = at_least_float32(gram).square().sum((1, 2)) - (eigenvalues / largest).square().sum(
        1
    )
    return difference.clamp(min=0)


class RandomEigenvalues(nn.Module):
    """Random-TransJect: a learnt vector, drawn at random, takes the place of the eigenvalues.

    It is divided by its largest entry, so that the bounds of the paper hold. It depends on no
    token, and so takes no statistics.
    """

    def __init__(self, embed_dim, statistics_class=FullStatistics):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(embed_dim))

    def forward(
        self, x: Tensor, incremental_state: IncrementalState = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """sigma (1, 1, C), and no regulariser."""
        return over_largest(self.weight).view(1, 1, -1), {}


class MixtureOfExperts(nn.Module):
    r"""Orthogonal attention of E experts with injective residuals (paper, Eqs. 2 and 3).

    .. math::
        F_e(X) = \mathrm{ELU}(X U_e \mathrm{diag}(\sigma) V_e), \quad X_e = X + s F_e(X), \quad
        \lambda = \mathrm{softmax}_e(w \cdot \max_t X_e), \quad X' = \sum_e \lambda_e X_e

    Args:
        embed_dim: width C.
        experts: number E of experts; one alone needs no gate w.
        statistics_class: class of the maximum; see :class:`Eigenvalues`.
    """

    def __init__(self, embed_dim, experts, statistics_class=FullStatistics):
        super().__init__()
        self.orthogonal = OrthogonalMatrices(2 * experts, embed_dim)
        self.gate = LinearWithoutBias(embed_dim, 1) if experts > 1 else None
        self.statistics = statistics_class()

    def forward(
        self,
        x: Tensor,
        sigma: Tensor,
        step: Tensor,
        padding_mask: Optional[Tensor] = None,
        incremental_state: IncrementalState = None,
    ) -> Tensor:
        """
        Args:
            x: X (B, T, C).
            sigma: eigenvalues, which broadcast to (B, T, C).
            step: s (1).
            padding_mask: true where a token is padding (B, T).
            incremental_state: the state of the tokens before these, in generation.

        Returns:
            X' (B, T, C).
        """
        changes = self.changes(x, sigma)
        if self.gate is None:
            return torch.addcmul(x, changes[0], step)
        weights = self.weights(x, changes, step, padding_mask, incremental_state)
        for weight, change in zip(weights.unbind(1), changes):  # the weights sum to 1
            x = torch.addcmul(x, change, step * weight)
        return x

    def changes(self, x: Tensor, sigma: Tensor) -> list[Tensor]:
        """F_e(X) (B, T, C) of each expert."""
        u, v = self.orthogonal().chunk(2)  # E, C, C
        if self.matrices_first(x, sigma):
            return [F.elu_(x @ (u_e * sigma @ v_e)) for u_e, v_e in zip(u, v)]
        return [F.elu_((x @ u_e * sigma) @ v_e) for u_e, v_e in zip(u, v)]

    @staticmethod
    def matrices_first(x: Tensor, sigma: Tensor) -> bool:
        """Whether there are more tokens than rows of all U_e diag(sigma) V_e."""
        return sigma.numel() < x.size(0) * x.size(1)

    def weights(
        self,
        x: Tensor,
        changes: list[Tensor],
        step: Tensor,
        padding_mask: Optional[Tensor] = None,
        incremental_state: IncrementalState = None,
    ) -> Tensor:
        """lambda (B, E, 1, 1), or (B, E, T, 1) if causal, from X and F_e(X)."""
        if padding_mask is not None:
            x = x.masked_fill(padding_mask.unsqueeze(-1), -math.inf)
        states = (torch.addcmul(x, change, step) for change in changes)
        maxima = self.statistics.max(states, incremental_state)
        if padding_mask is not None:  # there may be no real token
            maxima = maxima.masked_fill(maxima.isneginf(), 0.0)
        return self.gate(maxima).softmax(1)


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
            step: s (1).

        Returns:
            output (B, T, C).
        """
        hidden = x
        for weight, bias in zip(self.orthogonal(), self.bias):
            hidden = F.elu_((hidden @ weight).add_(bias))
        return torch.addcmul(x, hidden, step)


class TransJectLayer(nn.Module):
    r"""The experts, then the FFN (paper, Eq. 4), both with the step s = alpha / L.

    Args:
        embed_dim: width C.
        experts: number E of experts.
        depth: number L of layers of the model.
        gate: ``tanh`` or ``sigmoid``, which keeps alpha below 1.
        statistics_class: class of the experts' maximum; see :class:`Eigenvalues`.
    """

    def __init__(self, embed_dim, experts, depth, gate="tanh", statistics_class=FullStatistics):
        super().__init__()
        self.depth = depth
        self.gate = gate
        self.residual_weight = nn.Parameter(torch.zeros(1))
        self.experts = MixtureOfExperts(embed_dim, experts, statistics_class)
        self.ffn = OrthogonalFFN(embed_dim)

    def alpha(self) -> Tensor:
        """The residual weight alpha (1), below 1."""
        return GATES[self.gate](self.residual_weight)

    def step(self) -> Tensor:
        """alpha / L (1)."""
        return self.alpha() / self.depth

    def forward(
        self,
        x: Tensor,
        sigma: Tensor,
        padding_mask: Optional[Tensor] = None,
        incremental_state: IncrementalState = None,
    ) -> Tensor:
        """From (B, T, C) to (B, T, C); the arguments are those of :class:`MixtureOfExperts`."""
        step = self.step()
        return self.ffn(self.experts(x, sigma, step, padding_mask, incremental_state), step)


def over_largest(x: Tensor) -> Tensor:
    """Divided by the largest absolute value along the last dimension."""
    return x / positive(x.abs().amax(-1, keepdim=True))


def positive(x: Tensor) -> Tensor:
    """At least the smallest normal number, so that sequences of padding alone divide by it."""
    return x.clamp(min=torch.finfo(x.dtype).tiny)
