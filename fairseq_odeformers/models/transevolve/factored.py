"""The factored form of TransEvolve's attention: one exponential matrix for all depths of a block.

If the scores include the mean of b over the depths, and c^l is the deviation of a depth from it,

    softmax(A_0 + b^l) V = E (e^{c^l} V) / (E e^{c^l}),    E = exp(A_0 + mean of b).

Only E has a row for each query and a column for each key. It is written once, in tiles. Its
gradient would be a second matrix of this size. But each depth only adds the product of two narrow
matrices to the gradient, so the backward pass of E computes it for all depths at once, again in
tiles:

    dE = N^1 W^1^T + ... + N^L W^L^T = [N^1 ... N^L] [W^1 ... W^L]^T

Autograd collects N^l and W^l. To this end, ``Matrix`` returns two more tensors, the slots. They are
zeros that nothing reads; their gradients are N^l and W^l:

    forward     E, left_slot, right_slot = Matrix(q, k)
                out_l = Attend(E, V, left_slot[l], right_slot[l])       for each depth l
    backward    Attend returns N^l and W^l as the gradients of left_slot[l] and right_slot[l]
                Matrix receives N and W of all depths, and computes dE

A list to which the depths append would be simpler, but a backward pass that stops early would leave
entries in it for the next backward pass.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from .spec import MASKED_BIAS
from .workspace import Workspace

# Both exponentials have the maximum e^20, in each row of E and over the keys at each depth. float32
# holds the products that matter as long as c^l spans no more than this over the keys.
LOG_MAXIMUM, LARGEST_SPAN = 20, 80

# The number of elements of a tile of E.
TILE_ELEMENTS = 2**20

# On a CPU, matrix products with fewer columns than this take several times as long.
COLUMNS = 16

MATRICES = Workspace()


def can_factor(x: Tensor) -> bool:
    """Return whether attention over tensors like *x* can be factored: on a CPU, and not in half.

    :func:`mean_and_deviation` reads numbers, which would stall a GPU or TPU, and their exponentials
    would lose digits in half precision.
    """
    return x.device.type == "cpu" and x.dtype not in (torch.float16, torch.bfloat16)


def mean_and_deviation(bias: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the mean of b over depths, and c^l, the deviation minus its maximum over the keys.

    Args:
        bias: b at every depth (B, H, S, L).

    Returns:
        Mean (B, H, S) and c (B, H, S, L). None if the exponential of c would lose digits, because
        the range of c is too large.
    """
    mean = bias.mean(-1)
    padding = (mean < 0.75 * MASKED_BIAS).unsqueeze(-1)
    c = bias - mean.unsqueeze(-1)
    c = c - c.detach().masked_fill(padding, -torch.inf).amax(2, keepdim=True)
    c = c.masked_fill(padding, 0.0)
    return None if c.detach().min() < -LARGEST_SPAN else (mean, c)


class FactoredAttention:
    """softmax(A_0 + b^l) V with one exponential matrix: an :class:`.Evolved` attention.

    If all depths have the same values, one product suffices for them. Each depth may attend only
    once, because its part of the matrix's gradient waits for the other depths.

    Args:
        q, k: scaled queries (B, H, T, D) and keys (B, H, S, D).
        mean, deviation: result of :func:`mean_and_deviation`.
        value_dim: width of the values.
        causal: whether a query sees only keys up to its own position.
    """

    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        mean: Tensor,
        deviation: Tensor,
        value_dim: int,
        causal: bool,
    ):
        key_factors = (deviation + LOG_MAXIMUM).exp()
        self.matrix, rowsum, *slots = _Matrix.apply(q, k, mean, key_factors, value_dim, causal)
        self.operands = key_factors, rowsum, *slots  # all depths, in dimension 3
        self.operands_by_depth: list[tuple[Tensor, ...] | None] = list(
            zip(*(tensor.split(1, 3) for tensor in self.operands))
        )

    def __call__(self, index: int, value: Tensor) -> Tensor:
        operands, self.operands_by_depth[index] = self.operands_by_depth[index], None
        if operands is None:
            raise RuntimeError(
                f"depth {index + 1} has already attended; the factored form does so once"
            )
        return _Attend.apply(self.matrix, value, *operands).squeeze(3)

    def all_depths(self, value: Tensor) -> Tensor:
        return _Attend.apply(self.matrix, value, *self.operands).permute(3, 0, 1, 2, 4)


class _Matrix(torch.autograd.Function):
    """E (BH, T, S), its row sums r = E e^c (B, H, T, L), and the slots for the gradients N and W.

    The arguments are as in :class:`FactoredAttention`, with the key factors e^c (B, H, S, L).
    The slots are (B, H, T, L, D) and (B, H, S, L, D); as expanded zeros, they take no memory.

    dE comes from N and W, as above, and from the row sums, as dr (e^c)^T. The key factors have
    d(e^c) = E^T dr. The scores S, with E = e^S up to a constant for each row, have dS = dE * E. So
    dq = dS k, dk = dS^T q, and dmean is the sum of the rows of dS.
    """

    @staticmethod
    def forward(ctx, q, k, mean, key_factors, value_dim, causal):
        (b, h, t, _), (s, depth) = q.shape, key_factors.shape[2:]
        q, k, key_factors = q.flatten(0, 1), k.flatten(0, 1), key_factors.flatten(0, 1)
        mean = mean.reshape(b * h, 1, s)
        matrix = MATRICES.empty(q, b * h, t, s)
        columns = full_columns(key_factors)
        rowsum = q.new_empty(b * h, t, columns.size(2))
        for heads, rows in tiles(b * h, t, s):
            tile = matrix[heads, rows]
            torch.baddbmm(mean[heads], q[heads, rows], k[heads].transpose(1, 2), out=tile)
            if causal:
                position = torch.arange(s, device=q.device)
                tile.masked_fill_(position > position[rows, None], -torch.inf)
            tile.sub_(tile.amax(-1, keepdim=True) - LOG_MAXIMUM).exp_()
            torch.bmm(tile, columns[heads], out=rowsum[heads, rows])
        ctx.save_for_backward(q, k, key_factors, matrix)
        ctx.mark_non_differentiable(matrix)
        ctx.set_materialize_grads(False)  # a gradient of zeros would be as large as the matrix
        slots = (q.new_zeros(()).expand(b, h, n, depth, value_dim) for n in (t, s))
        return matrix, rowsum[..., :depth].unflatten(0, (b, h)), *slots

    @staticmethod
    @once_differentiable
    def backward(ctx, _, grad_rowsum, left, right):
        q, k, key_factors, matrix = ctx.saved_tensors
        (b, h), (n, t, s) = grad_rowsum.shape[:2], matrix.shape
        grad_rowsum = grad_rowsum.flatten(0, 1)
        left = torch.cat([left.reshape(n, t, -1), grad_rowsum], -1)
        right = torch.cat([right.reshape(n, s, -1), key_factors], -1).transpose(1, 2)
        grad_q, grad_k, grad_mean = torch.empty_like(q), torch.zeros_like(k), k.new_zeros(n, 1, s)
        grad_rowsum = full_columns(grad_rowsum)
        grad_key_factors = key_factors.new_zeros(n, s, grad_rowsum.size(2))
        for heads, rows in tiles(n, t, s):
            tile = torch.bmm(left[heads, rows], right[heads]).mul_(matrix[heads, rows])
            torch.bmm(tile, k[heads], out=grad_q[heads, rows])
            grad_k[heads].baddbmm_(tile.transpose(1, 2), q[heads, rows])
            grad_mean[heads] += tile.sum(1, keepdim=True)
            grad_key_factors[heads].baddbmm_(
                matrix[heads, rows].transpose(1, 2), grad_rowsum[heads, rows]
            )
        grads = (grad_q, grad_k, grad_mean.squeeze(1), grad_key_factors[..., : key_factors.size(2)])
        return *(grad.unflatten(0, (b, h)) for grad in grads), None, None


class _Attend(torch.autograd.Function):
    r"""O = E W / r at some depths (B, H, T, L, D), with W = e^c V and r = E e^c.

    The arguments are E, V (B, H, S, D) and, for these depths, e^c, r and the slots for N and W.

    With N = dO / r, the gradients are dE = N W^T, dW = E^T N, and dr = -(N \cdot O) for each row.
    """

    @staticmethod
    def forward(ctx, matrix, value, key_factors, rowsum, left_slot, right_slot):
        weighted = key_factors.unsqueeze(-1) * value.unsqueeze(3)  # (B, H, S, L, D)
        out = torch.bmm(matrix, weighted.flatten(3).flatten(0, 1)).view(left_slot.shape)
        out.div_(rowsum.unsqueeze(-1))
        ctx.save_for_backward(matrix, value, key_factors, rowsum, weighted, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        matrix, value, key_factors, rowsum, weighted, out = ctx.saved_tensors
        left = grad / rowsum.unsqueeze(-1)
        # (left^T E)^T reads E along its rows, E^T left across them.
        grad_weighted = torch.bmm(left.flatten(3).flatten(0, 1).transpose(1, 2), matrix)
        grad_weighted = grad_weighted.transpose(1, 2).reshape(weighted.shape)
        grad_value = (grad_weighted * key_factors.unsqueeze(-1)).sum(3)
        grad_key_factors = (grad_weighted * value.unsqueeze(3)).sum(-1)
        grad_rowsum = -(left * out).sum(-1)
        return None, grad_value, grad_key_factors, grad_rowsum, left, weighted


def full_columns(x: Tensor) -> Tensor:
    """Pad with columns of zeros to a multiple of :data:`COLUMNS`."""
    return F.pad(x, (0, -x.size(-1) % COLUMNS))


def tiles(heads: int, rows: int, columns: int) -> Iterator[tuple[slice, slice]]:
    """Yield slices of heads and rows: tiles of E of about :data:`TILE_ELEMENTS` elements each."""
    tall = max(1, min(rows, TILE_ELEMENTS // columns))
    deep = max(1, TILE_ELEMENTS // (tall * columns))
    for head in range(0, heads, deep):
        for row in range(0, rows, tall):
            yield slice(head, head + deep), slice(row, row + tall)
