"""The feed-forward layers of TransEvolve, fullFF and randomFF (Dutta et al. 2021, section 5)."""

import math

import torch
import torch.nn.functional as F
from fairseq.utils import get_activation_fn
from torch import Tensor, nn

from fairseq_odeformers.modules.basics import Dropout

from .spec import BlockSpec


class Activation(nn.Module):
    """The activation function of a feed-forward layer (ReLU in the paper) and its dropout."""

    def __init__(self, spec: BlockSpec):
        super().__init__()
        self.activation_fn = get_activation_fn(spec.activation_fn)
        self.dropout_module = Dropout(spec.activation_dropout, type(self).__name__)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout_module(self.activation_fn(x))


class FullFeedForward(nn.Sequential):
    """fullFF: relu(x W_1 + B_1) W_2 + B_2, as in the Transformer (paper, Eq. 3).

    It maps (..., C) to (..., C).
    """

    def __init__(self, spec: BlockSpec):
        first = nn.Linear(spec.embed_dim, spec.ffn_embed_dim)
        second = nn.Linear(spec.ffn_embed_dim, spec.embed_dim)
        if spec.glorot:
            for layer in (first, second):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)
        super().__init__(first, Activation(spec), second)


class RandomRotationFeedForward(nn.Module):
    r"""randomFF: both matrices are U S V with U and V fixed and random (paper, Eq. 11, appendix B).

    .. math::
        y = \mathrm{relu}(x U_1 S_1 V_1 + B_1) U_2 S_2 V_2 + B_2

    Only the diagonals S and the biases B are learned. S has k = min(d, d_ff) entries, so only the
    first k columns of each U and the first k rows of each V are made. They are buffers, drawn at
    construction and saved with the model.

    Args:
        spec: sizes d and d_ff, depth L of the block, and activation.
        number: number l = 1..L of this layer.
    """

    u1: Tensor  # (d, k)
    v1_rows: Tensor  # (k, d_ff)
    u2: Tensor  # (d_ff, k)
    v2_rows: Tensor  # (k, d)

    def __init__(self, spec: BlockSpec, number: int):
        super().__init__()
        self.activation = Activation(spec)
        d, d_ff = spec.embed_dim, spec.ffn_embed_dim
        rank = min(d, d_ff)
        for index, (size, out_size) in enumerate([(d, d_ff), (d_ff, d)], start=1):
            u = random_rotation(size, size, rank, number, spec.depth)
            v = random_rotation(out_size, rank, out_size, number, spec.depth)
            self.register_buffer(f"u{index}", u)
            self.register_buffer(f"v{index}_rows", v)
        bound = math.sqrt(6 / rank)  # the authors' code's bound
        self.s1 = nn.Parameter(torch.empty(rank).uniform_(-bound, bound))
        self.b1 = nn.Parameter(torch.zeros(d_ff))
        self.s2 = nn.Parameter(torch.empty(rank).uniform_(-bound, bound))
        self.b2 = nn.Parameter(torch.zeros(d))

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., C) to (..., C)."""
        h = self.activation(F.linear(x @ self.u1 * self.s1, self.v1_rows.T, self.b1))
        return F.linear(h @ self.u2 * self.s2, self.v2_rows.T, self.b2)


def random_rotation(size: int, rows: int, columns: int, number: int, depth: int) -> Tensor:
    r"""Return the upper left part of a random sine-cosine matrix, an approximate rotation (Eq. 10).

    .. math::
        U_{ij} = \frac{1}{\sqrt{s}} \sin(w_{ij} j l / P), \quad
        U_{i, s/2 + j} = \frac{1}{\sqrt{s}} \cos(w_{ij} j l / P), \quad
        j = 1 \dots s/2, \; P = \frac{s L}{2 \pi}, \; w_{ij} \sim N(0, s^2)

    The authors' code counts j and l from 0, and divides by the root of the output width.

    Args:
        size: number s of rows and columns of the full matrix; if odd, there is one more sine.
        rows, columns: number of rows and columns to make.
        number, depth: l and L.

    Returns:
        Tensor (rows, columns).
    """
    j = torch.arange(1.0, min(columns, (size + 1) // 2) + 1)
    phase = torch.randn(rows, len(j)) * j * (2 * math.pi * number / depth)  # s cancels in w/P
    return torch.cat([phase.sin(), phase.cos()], dim=1)[:, :columns] / math.sqrt(size)
