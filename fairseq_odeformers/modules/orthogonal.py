"""Matrices that stay orthogonal in training, and embeddings with orthonormal columns."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations


class OnManifold(nn.Module):
    """A module whose parameter ``weight`` is mapped to a matrix on a manifold.

    The matrix is made anew in each pass that records gradients. Otherwise it is made once, and
    again only after such a pass or a change of the weight.
    """

    _kept = None

    def make(self) -> Tensor:
        """The matrix, from the weight."""
        raise NotImplementedError

    def matrix(self) -> Tensor:
        """The matrix, made now or kept."""
        if torch.is_grad_enabled():
            self._kept = None
            return self.full_precision()
        versions = [parameter._version for parameter in self.parameters()]
        if self._kept is None or self._kept[0] != versions:
            self._kept = versions, self.full_precision()
        return self._kept[1]

    def full_precision(self) -> Tensor:
        """The matrix, not rounded by automatic mixed precision."""
        with torch.autocast(next(self.parameters()).device.type, enabled=False):
            return self.make()

    def manifold_error(self) -> Tensor:
        """The largest entry of W^T W - 1 (of W W^T - 1 if W is wide), over a stack of matrices."""
        weight = self.matrix()
        gram = weight.mT @ weight if weight.size(-2) >= weight.size(-1) else weight @ weight.mT
        return (gram - torch.eye(gram.size(-1), dtype=gram.dtype, device=gram.device)).abs().max()

    def _apply(self, *args, **kwargs):
        self._kept = None
        return super()._apply(*args, **kwargs)


class OrthogonalMatrices(OnManifold):
    """Square orthogonal matrices of one size, made by one batched solve.

    Args:
        count: number N of matrices.
        dim: size C of each.

    Raises:
        ValueError: the weights are in half precision, in which torch solves no linear system.
    """

    def __init__(self, count, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, dim, dim))
        keep_orthogonal(self)

    def make(self) -> Tensor:
        dtype = next(self.parameters()).dtype
        if dtype in (torch.float16, torch.bfloat16):
            raise ValueError(
                f"--fp16 or --bf16: orthogonal matrices cannot be made in {dtype}; use --amp"
            )
        return self.weight

    def forward(self) -> Tensor:
        """The matrices (N, C, C)."""
        return self.matrix()


def keep_orthogonal(module: nn.Module) -> None:
    """Make ``module.weight``, one square matrix or a stack of them, orthogonal, and keep it so.

    Each is the Cayley transform of a skew-symmetric matrix times the random orthogonal matrix that
    it is initialised to (dynamic trivialisation; Lezcano-Casado 2019, section 4).
    """
    with torch.no_grad():
        for matrix in module.weight.view(-1, *module.weight.shape[-2:]):
            nn.init.orthogonal_(matrix)
    parametrizations.orthogonal(module, "weight", orthogonal_map="cayley")


class OrthonormalEmbedding(OnManifold):
    """An embedding whose matrix has orthonormal columns: the polar factor W (W^T W)^-1/2.

    With fewer symbols than columns its rows are orthonormal instead: (W W^T)^-1/2 W. In a pass that
    records gradients only the rows looked up are multiplied.

    Args:
        num_embeddings: number V of symbols.
        embedding_dim: width C.
        padding_idx: index of padding, which is embedded as any other symbol.
    """

    def __init__(self, num_embeddings, embedding_dim, padding_idx):
        super().__init__()
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim))
        nn.init.orthogonal_(self.weight)

    def make(self) -> Tensor:
        if len(self.weight) < self.embedding_dim:
            return InverseRoot.apply(self.weight @ self.weight.T) @ self.weight
        return self.weight @ self.column_root()

    def column_root(self) -> Tensor:
        """(W^T W)^-1/2."""
        with torch.autocast(self.weight.device.type, enabled=False):
            return InverseRoot.apply(self.weight.T @ self.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        """From tokens (B, T) to (B, T, C)."""
        if torch.is_grad_enabled() and len(self.weight) >= self.embedding_dim:
            self._kept = None
            return F.embedding(tokens, self.weight) @ self.column_root()
        return F.embedding(tokens, self.matrix())


class InverseRoot(torch.autograd.Function):
    r"""A^-1/2 of a positive definite matrix, with a gradient where eigenvalues are equal, too.

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
        column = roots.unsqueeze(-1)
        inner = vectors.mT @ gradient @ vectors / (column * roots * (column + roots))
        return -(vectors @ inner @ vectors.mT)
