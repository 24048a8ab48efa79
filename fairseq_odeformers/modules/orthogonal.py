"""Matrices that stay orthogonal in training, and embeddings with orthonormal columns."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .basics import at_least_float32
from .cached_tensors import CachedTensors


class OnManifold(CachedTensors):
    """Base class of modules that map their parameter ``weight`` to matrices on a manifold."""

    def matrix(self) -> Tensor:
        """Return the matrix, either cached or computed now."""
        return self.tensors()

    def manifold_error(self) -> Tensor:
        """Return the largest absolute entry of W^T W - I, or of W W^T - I if W is wide."""
        weight = self.matrix()
        gram = weight.mT @ weight if weight.size(-2) >= weight.size(-1) else weight @ weight.mT
        return (gram - torch.eye(gram.size(-1), dtype=gram.dtype, device=gram.device)).abs().max()


class OrthogonalMatrices(OnManifold):
    """N orthogonal matrices (N, C, C) that are learned and stay orthogonal in training.

    They are initialised at random. The parameter ``weight`` rotates them; see :func:`rotate`.

    Args:
        count: number N of matrices.
        dim: size C of each matrix.
    """

    base: Tensor  # (N, C, C)

    def __init__(self, count: int, dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(count, dim, dim))
        self.register_buffer("base", torch.empty(count, dim, dim))
        for matrix in self.base:
            nn.init.orthogonal_(matrix)

    def compute(self) -> Tensor:
        return rotate(self.base, self.weight)

    def forward(self) -> Tensor:
        """Return the matrices (N, C, C)."""
        return self.matrix()


def rotate(base: Tensor, weight: Tensor) -> Tensor:
    r"""Multiply orthogonal matrices B (N, C, C) by Cayley transforms of skew-symmetric matrices.

    .. math:: B (I - A/2)^{-1} (I + A/2), \quad A = W - W^T

    Only the entries of the weight W (N, C, C) below its diagonal are used. This is the Cayley map
    of torch's ``parametrizations.orthogonal`` (dynamic trivialisation; Lezcano-Casado 2019, section
    4).
    """
    base, lower = at_least_float32(base), at_least_float32(weight).tril(-1)
    return (ShiftedQuotient.apply(base, lower.mT - lower) - base).to(weight)


def rotate_columns(base: Tensor, weight: Tensor) -> Tensor:
    r"""Rotate orthonormal columns B (N, R, C), R > C, by Cayley transforms of R x R matrices.

    .. math:: (I - A/2)^{-1} (I + A/2) B, \quad A = W B^T - B W^T

    with the weight W (N, R, C). Each tangent of the manifold at B has the form A B (Wen and Yin
    2013, "A feasible method for optimization with orthogonality constraints"). If V is the part of
    W that is orthogonal to B, the result equals

    .. math:: 2 (B + V/2) (I - (B^T W - W^T B)/2 + V^T V/4)^{-1} - B

    so that only C x C matrices are inverted.
    """
    base, exact = at_least_float32(base), at_least_float32(weight)
    along = base.mT @ exact
    across = exact - base @ along
    divisor = along.mT - along + across.mT @ across / 2
    return (ShiftedQuotient.apply(base + across / 2, divisor) - base).to(weight)


class ShiftedQuotient(torch.autograd.Function):
    """Q = 4 F (2I + X)^-1 for matrices X (N, C, C) with a positive semidefinite symmetric part.

    Q - F is F times the Cayley transform (I + X/2)^-1 (I - X/2). With M = (2I + X)^-1, the
    gradients are dF = 4 dQ M^T and dX = -Q^T dQ M^T.
    """

    @staticmethod
    def forward(ctx, factor: Tensor, matrix: Tensor) -> Tensor:
        inverse = block_inverse(matrix, shift=2.0)
        quotient = 4 * (factor @ inverse)
        ctx.save_for_backward(inverse, quotient)
        return quotient

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, Tensor]:
        inverse, quotient = ctx.saved_tensors
        gradient = gradient @ inverse.mT
        of_factor = 4 * gradient if ctx.needs_input_grad[0] else None
        return of_factor, -(quotient.mT @ gradient)


def block_inverse(matrices: Tensor, shift: float, smallest: int = 64) -> Tensor:
    """Invert s I + X for matrices X (N, C, C) if its symmetric part is positive definite.

    The function inverts two blocks of half the size. The second block is the Schur complement, and
    its symmetric part is positive definite as well. So no pivots are needed, and nearly all of the
    work consists of matrix products.

    Args:
        shift: the factor s of the identity.
        smallest: size up to which ``torch.linalg.inv`` inverts.
    """
    size = matrices.size(-1)
    if size <= smallest:
        identity = torch.eye(size, dtype=matrices.dtype, device=matrices.device)
        return torch.linalg.inv_ex(matrices + shift * identity).inverse
    half = size // 2
    (a, b), (c, d) = (rows.tensor_split([half], -1) for rows in matrices.tensor_split([half], -2))
    a = block_inverse(a, shift, smallest)
    ab, ca = a @ b, c @ a
    d = block_inverse(torch.baddbmm(d, c, ab, alpha=-1), shift, smallest)
    out = torch.empty_like(matrices)
    upper, lower = out.tensor_split([half], -2)
    upper[..., half:] = torch.bmm(ab, d).neg_()
    upper[..., :half] = torch.baddbmm(a, upper[..., half:], ca, alpha=-1)
    lower[..., :half] = torch.bmm(d, ca).neg_()
    lower[..., half:] = d
    return out


class OrthonormalEmbedding(OnManifold):
    """Embedding with orthonormal columns: the polar factor W (W^T W)^-1/2 of its weight W (V, C).

    With fewer symbols than columns, its rows are orthonormal instead: (W W^T)^-1/2 W. A pass that
    records gradients computes only the rows that are looked up.

    Args:
        num_embeddings: number V of symbols.
        embedding_dim: width C.
        padding_idx: index of padding, for fairseq; padding is embedded like any other symbol.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int):
        super().__init__()
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim))
        nn.init.orthogonal_(self.weight)

    def compute(self) -> Tensor:
        weight = at_least_float32(self.weight)
        if len(weight) < self.embedding_dim:
            weight = InverseRoot.apply(weight @ weight.T) @ weight
        else:
            weight = weight @ self.column_root()
        return weight.to(self.weight)

    def column_root(self) -> Tensor:
        """Return (W^T W)^-1/2 (C, C)."""
        with torch.autocast(self.weight.device.type, enabled=False):
            weight = at_least_float32(self.weight)
            return InverseRoot.apply(weight.T @ weight)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (B, T) to (B, T, C)."""
        if torch.is_grad_enabled() and len(self.weight) >= self.embedding_dim:
            self._cache = None
            return F.embedding(tokens, self.weight) @ self.column_root().to(self.weight)
        return F.embedding(tokens, self.matrix())


class InverseRoot(torch.autograd.Function):
    r"""A^-1/2 of a positive definite matrix A, with a gradient even where eigenvalues are equal.

    With A = Q diag(l) Q^T and r = l^1/2, a change dA changes the result by
    :math:`-Q ((Q^T dA Q)_{ij} / (r_i r_j (r_i + r_j))) Q^T`.
    """

    @staticmethod
    def forward(ctx, matrix: Tensor) -> Tensor:
        eigenvalues, vectors = torch.linalg.eigh(matrix)
        roots = eigenvalues.clamp(min=torch.finfo(matrix.dtype).tiny).sqrt()
        ctx.save_for_backward(roots, vectors)
        return (vectors / roots) @ vectors.mT

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> Tensor:
        roots, vectors = ctx.saved_tensors
        column = roots.unsqueeze(-1)
        inner = vectors.mT @ gradient @ vectors / (column * roots * (column + roots))
        return -(vectors @ inner @ vectors.mT)
