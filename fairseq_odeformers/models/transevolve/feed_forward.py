"""Feed-forward layer made of fixed random rotations (Dutta et al. 2021, section 5)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def random_rotation(size: int, rows: int, columns: int, depth: int, total_depth: int) -> Tensor:
    r"""Upper left part of a random sine-cosine matrix, which approximates a rotation (Eq. 10).

    .. math::
        U_{ij} = \frac{1}{\sqrt{s}} \sin(w_{ij} j l / P), \quad
        U_{i, s/2 + j} = \frac{1}{\sqrt{s}} \cos(w_{ij} j l / P), \quad
        j = 1 \dots s/2, \; P = \frac{s L}{2 \pi}, \; w_{ij} \sim N(0, s^2)

    The released code counts j and l from 0, and divides by the root of the output's width.

    Args:
        size: number s of rows and columns of the whole matrix; an odd one has a sine more.
        rows, columns: how many rows and columns to make.
        depth, total_depth: l and L.

    Returns:
        Tensor of shape (rows, columns).
    """
    j = torch.arange(1.0, min(columns, (size + 1) // 2) + 1)
    phase = torch.randn(rows, len(j)) * j * (2 * math.pi * depth / total_depth)  # s cancels in w/P
    return torch.cat([phase.sin(), phase.cos()], dim=1)[:, :columns] / math.sqrt(size)


class RandomRotationFeedForward(nn.Module):
    r"""randomFF: both matrices are U S V with U and V fixed and random (paper, Eq. 11, appendix B).

    .. math::
        y = \mathrm{relu}(x U_1 S_1 V_1 + B_1) U_2 S_2 V_2 + B_2

    Only the diagonals S and the biases B are learnt. S has k = min(``embed_dim``,
    ``ffn_embed_dim``) entries, so just the first k columns of each U and the first k rows of each V
    matter, and no more are made. They are buffers: drawn at construction and saved with the model.

    Args:
        embed_dim: width d of input and output.
        ffn_embed_dim: inner width d_ff.
        depth, total_depth: depth l = 1..L of this layer in its block, and L.
        activation: the function between both matrices.
    """

    def __init__(self, embed_dim, ffn_embed_dim, depth, total_depth, activation=F.relu):
        super().__init__()
        self.activation = activation
        rank = min(embed_dim, ffn_embed_dim)
        for index, (size, out_size) in enumerate(
            [(embed_dim, ffn_embed_dim), (ffn_embed_dim, embed_dim)], start=1
        ):
            u = random_rotation(size, size, rank, depth, total_depth)
            v = random_rotation(out_size, rank, out_size, depth, total_depth)
            self.register_buffer(f"u{index}", u)
            self.register_buffer(f"v{index}_rows", v)
        bound = math.sqrt(6 / rank)  # of the released code
        self.s1 = nn.Parameter(torch.empty(rank).uniform_(-bound, bound))
        self.b1 = nn.Parameter(torch.zeros(ffn_embed_dim))
        self.s2 = nn.Parameter(torch.empty(rank).uniform_(-bound, bound))
        self.b2 = nn.Parameter(torch.zeros(embed_dim))

    def forward(self, x: Tensor) -> Tensor:
        """From and to (..., C)."""
        h = self.activation(F.linear(x @ self.u1 * self.s1, self.v1_rows.T, self.b1))
        return F.linear(h @ self.u2 * self.s2, self.v2_rows.T, self.b2)
