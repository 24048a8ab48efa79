"""Attention that is computed once and evolves over depth (Dutta et al. 2021, section 4)."""

import math
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_odeformers.modules.attention import split_heads
from fairseq_odeformers.modules.basics import Dropout, LinearWithoutBias, dropout

from .factored import FactoredAttention, can_factor, mean_and_deviation
from .spec import MASKED_BIAS, BlockSpec

# The backend "auto" chooses the direct form up to this number of queries or keys, and the factored
# form up to this number of bytes of its matrix: with eight heads, eight texts of 4,096 tokens, or
# two texts of 8,192 tokens.
DIRECT_TOKENS, FACTORED_BYTES = 32, 2**32


class TimeEvolvingAttention(nn.Module):
    r"""Multi-head attention for a block of depth L, computed only from the block's input.

    From the inputs X of queries and Y of keys (equal in self-attention), it computes once per block
    (paper, Eq. 6):

    .. math::
        Q = X W_q, \quad K = Y W_k, \quad
        A_0 = Q K^T / \sqrt{(d + d')/H}, \quad A_2 = K \tilde W_q^T

    and at depth l = 1..L, with the time map :math:`T^l` of Eq. 7,

    .. math::
        A^l = \mathrm{softmax}(A_0 + b^l), \quad b^l_j = T^l \cdot A_{2,j}

    for each head: each head gets a part of the d + d' features of Q and K, and of the d' features
    of A_2 and T. The paper's terms :math:`A_1 T^l` (which depends only on the query) and
    :math:`A_3 (T^l \odot T^l)` (a constant) shift entire rows of the scores. Since softmax is
    shift-invariant, neither they nor their projection :math:`\tilde W_k` are built. A_0 has the
    scale of the authors' code; the paper divides by the root of d or d' over the number of heads.

    A block calls :meth:`project`, or :meth:`queries` and :meth:`keys` separately if it caches keys.
    It passes the results to :meth:`evolve` and gets the attention at all depths.

    ``attention_dropout`` acts on Q and K, as in the authors' code; ``attention_weights_dropout``
    acts on A^l.
    """

    time_basis: Tensor  # (L, d')

    def __init__(self, spec: BlockSpec):
        super().__init__()
        d, time_dim = spec.embed_dim, spec.time_dim
        self.num_heads = spec.attention_heads
        self.value_dim = d // self.num_heads
        self.scaling = ((d + time_dim) / self.num_heads) ** -0.5
        self.dropout_module = Dropout(spec.attention_dropout, type(self).__name__)
        self.weights_dropout_module = Dropout(spec.attention_weights_dropout, type(self).__name__)
        self.backend = spec.attention_backend
        self.q_proj = LinearWithoutBias(d, d + time_dim)
        self.k_proj = LinearWithoutBias(d, d + time_dim)
        self.time_query = nn.Parameter(torch.empty(time_dim, d + time_dim))  # W~q
        self.time_weight = nn.Parameter(torch.empty(spec.depth, time_dim))  # w^l
        self.register_buffer("time_basis", fourier_basis(spec.depth, time_dim), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise as in the authors' code: w^l uniform in +-sqrt(6/d'), projections by Glorot.

        The authors' code draws W_q together with W~q, and W_k with W~k, as one Glorot-uniform
        matrix of d + d' rows and columns, with variance 1/(d + d'). fairseq's queries and keys have
        the same variance.
        """
        bound = math.sqrt(3 / self.time_query.size(1))
        for weight in (self.q_proj.weight, self.k_proj.weight, self.time_query):
            nn.init.uniform_(weight, -bound, bound)
        bound = math.sqrt(6 / self.time_weight.size(1))
        nn.init.uniform_(self.time_weight, -bound, bound)

    def time_map(self) -> Tensor:
        """Return T^l at every depth (Eq. 7): (L, d')."""
        return self.time_weight * self.time_basis

    def project(
        self, x: Tensor, y: Tensor, padding_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute Q from X (B, T, C), and K and b from Y (B, S, C), as arguments of :meth:`evolve`.

        Args:
            padding_mask: true where a key is padding (B, S).
        """
        return self.queries(x), *self.keys(y, padding_mask)

    def queries(self, x: Tensor) -> Tensor:
        """Return the scaled Q (B, H, T, (d + d')/H) for an input (B, T, C)."""
        q = F.linear(x, self.q_proj.weight * self.scaling)
        return split_heads(self.dropout_module(q), self.num_heads)

    def keys(self, x: Tensor, padding_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return K and the bias b^l of every key at every depth.

        Args:
            x: input of the keys (B, S, C).
            padding_mask: true where a key is padding (B, S); such keys get no weight.

        Returns:
            K (B, H, S, (d + d')/H) and b (B, H, S, L).
        """
        k = self.dropout_module(self.k_proj(x))
        # b^l = T^l . (K W~q^T) = K . (T^l W~q) for each head: A2 itself is never needed.
        time_map = self.time_map().unflatten(1, (self.num_heads, -1))  # (L, H, d'/H)
        time_query = self.time_query.unflatten(0, (self.num_heads, -1))  # (H, d'/H, d+d')
        k_to_bias = torch.einsum("lht,htc->chl", time_map, time_query)  # (d+d', H, L)
        bias = (k @ k_to_bias.flatten(1)).unflatten(2, k_to_bias.shape[1:]).transpose(1, 2)
        if padding_mask is not None:
            lowest = max(MASKED_BIAS, torch.finfo(bias.dtype).min / 2)
            bias = bias.clamp(min=lowest / 2)
            bias = bias.masked_fill(padding_mask[:, None, :, None], lowest)
        return split_heads(k, self.num_heads), bias

    def evolve(self, q: Tensor, k: Tensor, bias: Tensor, causal: bool = False) -> "Evolved":
        """Return the attention at every depth.

        The first three arguments are the result of :meth:`project`.

        The backend chooses the form. All forms compute the same numbers:

        - ``direct`` takes the softmax for all depths at once.
        - ``factored`` exponentiates the scores once per block and keeps one (T, S) tensor.
        - ``fused`` passes each depth to ``scaled_dot_product_attention`` and keeps no such tensor.
        - ``auto`` chooses ``direct`` for short texts and in generation, ``factored`` for longer
          ones up to 4 GiB if :func:`.can_factor`, as on a CPU, and ``fused`` otherwise.

        ``fused`` replaces ``factored`` where this is not possible: on other devices, if
        :func:`.mean_and_deviation` returns None, or if attention weights are to be dropped, since
        ``factored`` computes none.
        """
        dropout_p = self.weights_dropout_module.active_p
        backend = self.fastest_backend(q, k) if self.backend == "auto" else self.backend
        if backend == "direct":
            return DirectAttention(q, k, bias, causal, dropout_p)
        if backend == "factored" and can_factor(bias) and not dropout_p:
            if parts := mean_and_deviation(bias):
                return FactoredAttention(q, k, *parts, self.value_dim, causal)
        return FusedAttention(q, k, bias, causal, dropout_p)

    def for_export(self) -> "TimeEvolvingAttention":
        """Return the attention in its fused form, because ``auto`` chooses by the length."""
        self.backend = "fused"
        return self

    @staticmethod
    def fastest_backend(q: Tensor, k: Tensor) -> str:
        """Return the backend that ``auto`` chooses for the device and sizes of queries and keys."""
        if min(q.size(2), k.size(2)) <= DIRECT_TOKENS:
            return "direct"
        scores = q.size(0) * q.size(1) * q.size(2) * k.size(2)
        few = scores * q.element_size() <= FACTORED_BYTES
        return "factored" if few and can_factor(q) else "fused"


class Evolved(Protocol):
    """The attention of a block at every depth, ready for values of width D per head."""

    def __call__(self, index: int, value: Tensor) -> Tensor:
        """Map V (B, H, S, D) to A^l V (B, H, T, D), where *index* is l - 1."""
        ...

    def all_depths(self, value: Tensor) -> Tensor:
        """Map the same V (B, H, S, D) to A^l V for l = 1..L: (L, B, H, T, D)."""
        ...


class DirectAttention:
    """softmax(A0 + b^l) V as in the equation, with one softmax for all depths.

    Args:
        q, k: scaled queries (B, H, T, D) and keys (B, H, S, D).
        bias: b at every depth (B, H, S, L).
        causal: whether a query sees only keys up to its own position.
        dropout_p: dropout probability of the attention weights.
    """

    def __init__(self, q: Tensor, k: Tensor, bias: Tensor, causal: bool, dropout_p: float = 0.0):
        scores = masked_scores(q, k, causal).unsqueeze(2) + bias.transpose(-2, -1).unsqueeze(3)
        self.weights = dropout(scores.softmax(-1), dropout_p)  # (B, H, L, T, S)
        # Indexing would fill one tensor with zeros per depth in the backward pass.
        self.weights_by_depth = self.weights.unbind(2)

    def __call__(self, index: int, value: Tensor) -> Tensor:
        return self.weights_by_depth[index] @ value

    def all_depths(self, value: Tensor) -> Tensor:
        out = self.weights.flatten(2, 3) @ value
        return out.unflatten(2, self.weights.shape[2:4]).permute(2, 0, 1, 3, 4)


class FusedAttention:
    """softmax(A0 + b^l) V with b^l as one more key feature, (q, 1) . (k, b): memory O(T + S).

    The arguments are as in :class:`DirectAttention`. Features are padded with zeros to a common
    multiple of 8, as the fused kernels require.
    """

    def __init__(self, q: Tensor, k: Tensor, bias: Tensor, causal: bool, dropout_p: float = 0.0):
        self.width = (q.size(-1) // 8 + 1) * 8
        self.q = self._pad(torch.cat([q, torch.ones_like(q[..., :1])], -1))
        self.k = k
        self.bias = bias
        self.causal = causal
        self.dropout_p = dropout_p

    def _pad(self, x: Tensor) -> Tensor:
        return F.pad(x, (0, self.width - x.size(-1)))

    def __call__(self, index: int, value: Tensor) -> Tensor:
        k = self._pad(torch.cat([self.k, self.bias[..., index : index + 1]], -1))
        out = F.scaled_dot_product_attention(
            self.q, k, self._pad(value), None, self.dropout_p, self.causal, scale=1.0
        )
        return out[..., : value.size(-1)]

    def all_depths(self, value: Tensor) -> Tensor:
        return torch.stack([self(index, value) for index in range(self.bias.size(-1))])


def fourier_basis(depth: int, time_dim: int) -> Tensor:
    """Return [sin(j l / P) | cos(j l / P)] (Eq. 7), j = 1..d'/2, P = d' L / 2 pi: (L, d')."""
    phase = torch.outer(torch.arange(1.0, depth + 1), torch.arange(1.0, time_dim // 2 + 1))
    phase = phase * (2 * math.pi / (time_dim * depth))
    return torch.cat([phase.sin(), phase.cos()], dim=1)


def masked_scores(q: Tensor, k: Tensor, causal: bool) -> Tensor:
    """Return A0 (B, H, T, S), minus infinity where *causal* hides a key after its query."""
    scores = q @ k.transpose(-2, -1)
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(future, -math.inf)
    return scores


def merge_heads(x: Tensor) -> Tensor:
    """Map (..., H, T, C/H) to (..., T, C)."""
    return x.transpose(-3, -2).flatten(-2)
