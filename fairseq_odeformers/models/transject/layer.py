"""The layers of TransJect (Sengupta et al. 2023, section 3)."""

from typing import Optional

import torch
import torch.nn.functional as F
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor, nn

from fairseq_odeformers.modules.orthogonal import OrthogonalMatrices
from fairseq_odeformers.modules.precision import single

GATES = {"tanh": torch.tanh, "sigmoid": torch.sigmoid}


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
            sigma (B, 1, C), and in training the regulariser ``reconstruction`` (B).
        """
        eigenvalues = self.squares(x).sum(1)
        sigma = over_largest(eigenvalues).unsqueeze(1).to(x)
        return sigma, {"reconstruction": reconstruction(x, eigenvalues)} if self.training else {}

    def squares(self, x: Tensor) -> Tensor:
        """(x U_0)^2, entry by entry, of states (B, T, C)."""
        return single(x @ self.rotation()[0]).square()


def reconstruction(x: Tensor, eigenvalues: Tensor) -> Tensor:
    """The reconstruction (B) of X_0^T X_0, from X_0 (B, T, C) and g (B, C).

    U_0 keeps the norm, and g is the diagonal of U_0^T X_0^T X_0 U_0, so the squared norm of the
    difference is the difference of the squared norms.
    """
    x = single(x)
    gram = x.mT @ x if x.size(1) > x.size(2) else x @ x.mT
    difference = single(gram).square().sum((1, 2)) - eigenvalues.square().sum(1)
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
        return over_largest(self.weight).view(1, 1, -1), {}


class MixtureOfExperts(nn.Module):
    r"""Orthogonal attention of E experts with injective residuals (paper, Eqs. 2 and 3).

    .. math::
        F_e(X) = \mathrm{ELU}(X U_e \mathrm{diag}(\sigma) V_e), \quad X_e = X + s F_e(X), \quad
        \lambda = \mathrm{softmax}_e(w \cdot \max_t X_e), \quad X' = \sum_e \lambda_e X_e

    X is given in parts along the tokens; see :func:`in_parts`.

    Args:
        embed_dim: width C.
        experts: number E.
    """

    def __init__(self, embed_dim, experts):
        super().__init__()
        self.orthogonal = OrthogonalMatrices(2 * experts, embed_dim)
        self.gate = nn.Linear(embed_dim, 1, bias=False) if experts > 1 else None

    def forward(
        self,
        parts: list[Tensor],
        sigma: Tensor,
        step: Tensor,
        padding_mask: Optional[Tensor] = None,
    ) -> list[Tensor]:
        """
        Args:
            parts: X (B, T, C) in parts of some tokens.
            sigma: eigenvalues, (B, 1, C) or (1, 1, C).
            step: s, one number.
            padding_mask: true where a token is padding (B, T).

        Returns:
            the parts of X'.
        """
        changes = self.changes(parts, sigma)
        if self.gate is None:
            return [torch.addcmul(x, change[0], step) for x, change in zip(parts, changes)]
        # The weights of the experts sum to 1.
        steps = step * self.weights(parts, changes, step, padding_mask)[..., 0, 0]
        return [x + torch.einsum("eb,ebtc->btc", steps, f) for x, f in zip(parts, changes)]

    def changes(self, parts: list[Tensor], sigma: Tensor) -> list[Tensor]:
        """The parts (E, B, t, C) of F_e(X).

        Where no gradient is recorded and a sequence is longer than its width, U_e diag(sigma) V_e
        is multiplied out, so that a token costs one product an expert.
        """
        u, v = self.orthogonal().chunk(2)  # E, C, C
        one_sigma = sigma.size(1) == 1
        long = sum(x.size(1) for x in parts) > sigma.size(2)
        if one_sigma and long and not torch.is_grad_enabled():
            products = (u.unsqueeze(1) * sigma) @ v.unsqueeze(1)  # E, B, C, C
            return [F.elu_(x @ products) for x in parts]

        def change(x):
            rotated = x.flatten(0, 1).expand(len(u), -1, -1).bmm(u).view(len(u), *x.shape) * sigma
            return F.elu_(rotated.flatten(1, 2).bmm(v).view_as(rotated))

        return [change(x) for x in parts]

    def weights(self, parts, changes, step, padding_mask=None) -> Tensor:
        """lambda (E, B, 1, 1), from the parts of X and of F_e(X)."""
        peaks = []
        masks = [None] * len(parts)
        if padding_mask is not None:
            masks = padding_mask.unsqueeze(-1).split(parts[0].size(1), dim=1)
        for x, change, mask in zip(parts, changes, masks):
            if mask is not None:
                x = x.masked_fill(mask, torch.finfo(x.dtype).min)
            peaks.append(torch.addcmul(x, change, step).amax(2))
        peak = torch.stack(peaks).amax(0)  # E, B, C
        if padding_mask is not None:
            peak = peak.masked_fill(padding_mask.all(1, keepdim=True), 0.0)
        return self.gate(peak).softmax(0).unsqueeze(-1)


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
            hidden = F.elu_((hidden @ weight).add_(bias))
        return torch.addcmul(x, hidden, step)


class TransJectLayer(nn.Module):
    r"""The experts, then the FFN (paper, Eq. 4), both with the step s = alpha / L.

    Args:
        embed_dim: width C.
        experts: number E of experts.
        depth: number L of layers of the model.
        gate: ``tanh`` or ``sigmoid``, which keeps alpha below 1.
    """

    experts_class = MixtureOfExperts

    def __init__(self, embed_dim, experts, depth, gate="tanh"):
        super().__init__()
        self.depth = depth
        self.gate = gate
        self.residual_weight = nn.Parameter(torch.zeros(1))
        self.experts = self.experts_class(embed_dim, experts)
        self.ffn = OrthogonalFFN(embed_dim)

    def step(self) -> Tensor:
        """alpha / L."""
        return GATES[self.gate](self.residual_weight) / self.depth

    def forward(
        self, parts: list[Tensor], sigma: Tensor, padding_mask: Optional[Tensor] = None
    ) -> list[Tensor]:
        """
        Args:
            parts: input (B, T, C) in parts of some tokens.
            sigma: eigenvalues, (B, 1, C) or (1, 1, C).
            padding_mask: true where a token is padding (B, T).

        Returns:
            the parts of the output.
        """
        step = self.step()
        return [self.ffn(x, step) for x in self.experts(parts, sigma, step, padding_mask)]


def in_parts(x: Tensor, tokens: int = 512) -> list[Tensor]:
    """Split states (B, T, C) along the tokens.

    In inference on a CPU there are about so many *tokens* in a part, and the layers go faster, for
    what they make of a part stays in the cache. Otherwise there is one part.
    """
    if torch.is_grad_enabled() or x.device.type != "cpu":
        return [x]
    return list(x.split(max(tokens // len(x), 64), dim=1))


def over_largest(x: Tensor) -> Tensor:
    """Divided by the largest absolute value along the last dimension."""
    return x / positive(x.abs().amax(-1, keepdim=True))


def positive(x: Tensor) -> Tensor:
    """Kept from zero, for sequences of padding alone."""
    return x.clamp(min=torch.finfo(x.dtype).tiny)
