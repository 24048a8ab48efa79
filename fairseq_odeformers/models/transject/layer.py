"""A layer of TransJect: the mixture of experts, then the FFN (paper, sections 3.3 and 3.4)."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_odeformers.models.common.answers import LayerParts
from fairseq_odeformers.modules.basics import LinearWithoutBias
from fairseq_odeformers.modules.incremental import IncrementalState
from fairseq_odeformers.modules.orthogonal import OrthogonalMatrices

from .spec import LayerSpec
from .token_statistics import TokenStatistics

RESIDUAL_GATES = {"tanh": torch.tanh, "sigmoid": torch.sigmoid}


class MixtureOfExperts(nn.Module):
    r"""Orthogonal attention with E experts and injective residuals (paper, Eqs. 2 and 3).

    .. math::
        F_e(X) = \mathrm{ELU}(X U_e \mathrm{diag}(\sigma) V_e), \quad X_e = X + s F_e(X), \quad
        \lambda = \mathrm{softmax}_e(w \cdot \max_t X_e), \quad X' = \sum_e \lambda_e X_e

    The paper gives no formula for lambda; the gate w comes from the authors' code. A single expert
    has no gate.

    Args:
        causal: whether a token sees only itself and earlier tokens.
    """

    def __init__(self, spec: LayerSpec, causal: bool = False):
        super().__init__()
        # First all U_e, then all V_e.
        self.orthogonal = OrthogonalMatrices(2 * spec.experts, spec.embed_dim)
        self.gate = LinearWithoutBias(spec.embed_dim, 1) if spec.experts > 1 else None
        self.statistics = TokenStatistics(causal)

    def forward(
        self,
        x: Tensor,
        sigma: Tensor,
        step: Tensor,
        padding_mask: Tensor | None = None,
        incremental_state: IncrementalState = None,
    ) -> Tensor:
        """Map X to X' (Eqs. 2 and 3).

        Args:
            x: X (B, T, C).
            sigma: eigenvalues (B or 1, T or 1, C).
            step: s (1).
            padding_mask: true where a token is padding (B, T).
            incremental_state: state of earlier tokens, in generation.

        Returns:
            X' (B, T, C).
        """
        changes = self.changes(x, sigma)
        if self.gate is None:
            return torch.addcmul(x, changes[0], step)
        weights = self.weights(x, changes, step, padding_mask, incremental_state)
        # sum_e lambda_e (X + s F_e) = X + sum_e s lambda_e F_e, since the lambda_e sum to 1.
        for weight, change in zip(weights.unbind(1), changes):
            x = torch.addcmul(x, change, step * weight)
        return x

    def changes(self, x: Tensor, sigma: Tensor) -> list[Tensor]:
        """Return F_e(X) (B, T, C) of each expert."""
        u, v = self.orthogonal().chunk(2)  # (E, C, C)
        if self.matrices_first(x, sigma):  # products (B or 1, C, C)
            return [F.elu_(x @ (u_e * sigma @ v_e)) for u_e, v_e in zip(u, v)]
        return [F.elu_((x @ u_e * sigma) @ v_e) for u_e, v_e in zip(u, v)]

    def layer_parts(
        self, x: Tensor, sigma: Tensor, step: Tensor, *unused: Any
    ) -> Iterator[LayerParts]:
        """Yield X_e (E, T, C) and lambda (E) for one text; see :meth:`forward` for arguments."""
        changes = self.changes(x, sigma)
        states = torch.stack([x + step * change for change in changes])[:, 0]
        if self.gate is None:
            yield LayerParts(states, states.new_ones(1))
        else:
            yield LayerParts(states, self.weights(x, changes, step)[0, :, 0, 0])

    @staticmethod
    def matrices_first(x: Tensor, sigma: Tensor) -> bool:
        """Return whether multiplying U_e diag(sigma) V_e first is cheaper.

        It is cheaper if X has more rows than U_e. Compiled code never multiplies the matrices
        first, so that it is valid for any size.
        """
        return not torch.compiler.is_compiling() and sigma.numel() < x.size(0) * x.size(1)

    def weights(
        self,
        x: Tensor,
        changes: list[Tensor],
        step: Tensor,
        padding_mask: Tensor | None = None,
        incremental_state: IncrementalState = None,
    ) -> Tensor:
        """Map X and F_e(X) of several experts to lambda (B, E, 1, 1), or (B, E, T, 1) if causal."""
        assert self.gate is not None
        if padding_mask is not None:
            x = x.masked_fill(padding_mask.unsqueeze(-1), -math.inf)
        states = (torch.addcmul(x, change, step) for change in changes)  # X_e
        maxima = self.statistics.max(states, incremental_state)
        if padding_mask is not None:  # a text that consists of padding has no maximum
            maxima = maxima.masked_fill(maxima.isneginf(), 0.0)
        return self.gate(maxima).softmax(1)


class OrthogonalFFN(nn.Module):
    r"""Orthogonal residual FFN (paper, section 3.4).

    .. math:: X + s\, \mathrm{ELU}(\mathrm{ELU}(X W_1 + b_1) W_2 + b_2)

    with orthogonal W_1 and W_2.
    """

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.orthogonal = OrthogonalMatrices(2, spec.embed_dim)
        self.bias = nn.Parameter(torch.zeros(2, spec.embed_dim))

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        """Map X (B, T, C) and s (1) to (B, T, C)."""
        hidden = x
        for weight, bias in zip(self.orthogonal(), self.bias):
            hidden = F.elu_((hidden @ weight).add_(bias))
        return torch.addcmul(x, hidden, step)


class TransJectLayer(nn.Module):
    r"""The experts, then the FFN (paper, Eq. 4), both with the step s = alpha / L.

    Args:
        causal: whether a token sees only itself and earlier tokens.
    """

    def __init__(self, spec: LayerSpec, causal: bool = False):
        super().__init__()
        self.spec = spec
        self.residual_weight = nn.Parameter(torch.zeros(1))
        self.experts = MixtureOfExperts(spec, causal)
        self.ffn = OrthogonalFFN(spec)

    def alpha(self) -> Tensor:
        """Return the residual weight alpha (1); its absolute value is less than 1."""
        return RESIDUAL_GATES[self.spec.residual_gate](self.residual_weight)

    def residual_weights(self) -> dict[str, Tensor]:
        """Return the weight alpha by name, for analysis."""
        return {"alpha": self.alpha()}

    def step(self) -> Tensor:
        """Return alpha / L (1)."""
        return self.alpha() / self.spec.layers

    def forward(
        self,
        x: Tensor,
        sigma: Tensor,
        padding_mask: Tensor | None = None,
        incremental_state: IncrementalState = None,
    ) -> Tensor:
        """Map (B, T, C) to (B, T, C); for the arguments, see :meth:`MixtureOfExperts.forward`."""
        step = self.step()
        return self.ffn(self.experts(x, sigma, step, padding_mask, incremental_state), step)


def alpha_statistics(side: str, layers: Iterable[Any], texts: int) -> dict[str, Tensor]:
    """Return alpha of each layer of the ``encoder`` or ``decoder``, as values (B) for the log."""
    return {
        f"{side}_alpha_{number}": layer.alpha().expand(texts)
        for number, layer in enumerate(layers, start=1)
    }
