"""Matrices that stay orthogonal in training, and embeddings with orthonormal columns."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations


class MadeOfParameters(nn.Module):
    """A module whose tensor is made of its parameters.

    Where no gradient is recorded it is made once, and anew when a parameter has changed.
    """

    _made = None

    def make(self) -> Tensor:
        """The tensor."""
        raise NotImplementedError

    def made(self) -> Tensor:
        """The tensor, made now or kept."""
        if torch.is_grad_enabled():
            return self.make()
        sources = (*self.parameters(), *self.buffers())
        state = [(source.data_ptr(), source._version) for source in sources]
        if self._made is None or self._made[0] != state:
            self._made = state, self.make()
        return self._made[1]

    def manifold_error(self) -> Tensor:
        """The largest entry of W^T W - 1 (of W W^T - 1 if W is wide), over a stack of matrices."""
        weight = self.made()
        gram = weight.mT @ weight if weight.size(-2) >= weight.size(-1) else weight @ weight.mT
        return (gram - torch.eye(gram.size(-1), dtype=gram.dtype, device=gram.device)).abs().max()


class OrthogonalMatrices(MadeOfParameters):
    """Square orthogonal matrices of one size, made by one batched solve.

    Each is the Cayley transform of a skew-symmetric matrix times the orthogonal matrix that it is
    initialised to (dynamic trivialisation; Lezcano-Casado 2019, section 4), by torch's
    parametrisation.

    Args:
        count: number of matrices.
        dim: size C of each.
    """

    def __init__(self, count, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, dim, dim))
        for matrix in self.weight:
            nn.init.orthogonal_(matrix)
        parametrizations.orthogonal(self, "weight", orthogonal_map="cayley")

    def make(self) -> Tensor:
        return self.weight

    def forward(self) -> Tensor:
        """The matrices (count, C, C)."""
        return self.made()


class OrthonormalEmbedding(MadeOfParameters):
    """An embedding whose matrix has orthonormal columns: the polar factor W (W^T W)^-1/2.

    With fewer symbols than columns its rows are orthonormal instead: (W W^T)^-1/2 W. Padding is
    embedded as zero. Where a gradient is recorded, only rows that are looked up are multiplied.

    Args:
        num_embeddings: number V of symbols.
        embedding_dim: width C.
        padding_idx: index of padding.
    """

    def __init__(self, num_embeddings, embedding_dim, padding_idx):
        super().__init__()
        self.padding_idx = padding_idx
        self.embedding_dim = embedding_dim
        self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim))
        nn.init.orthogonal_(self.weight)

    def make(self) -> Tensor:
        if len(self.weight) < self.embedding_dim:
            return inverse_root(self.weight @ self.weight.T) @ self.weight
        return self.weight @ inverse_root(self.weight.T @ self.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        """From tokens (B, T) to (B, T, C)."""
        if torch.is_grad_enabled() and len(self.weight) >= self.embedding_dim:
            rows = F.embedding(tokens, self.weight)
            rows = rows @ inverse_root(self.weight.T @ self.weight)
        else:
            rows = F.embedding(tokens, self.made())
        return rows.masked_fill(tokens.eq(self.padding_idx).unsqueeze(-1), 0.0)


class InverseRoot(torch.autograd.Function):
    r"""A^-1/2 of a positive definite matrix, also of one with equal eigenvalues.

    With A = Q diag(l) Q^T and r = l^1/2, a change dA changes it by
    :math:`-Q ((Q^T dA Q)_{ij} / (r_i r_j (r_i + r_j))) Q^T`.
    """

    @staticmethod
    def forward(ctx, matrix):
        eigenvalues, vectors = torch.linalg.eigh(matrix)
        roots = eigenvalues.clamp(min=torch.finfo(matrix.dtype).tiny).sqrt()
        ctx.save_for_backward(roots, vectors)
        return (vectors / roots) @ vectors.mT

    @staticmethod
    def backward(ctx, gradient):
        roots, vectors = ctx.saved_tensors
        outer = roots.unsqueeze(-1) * roots
        inner = vectors.mT @ gradient @ vectors
        inner = inner / (outer * (roots.unsqueeze(-1) + roots))
        return -(vectors @ inner @ vectors.mT)


def inverse_root(matrix: Tensor) -> Tensor:
    """A^-1/2 of a positive definite matrix."""
    return InverseRoot.apply(matrix)
