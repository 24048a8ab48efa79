"""Transformer layers without LayerNorm, and layers with weights that stay orthogonal."""

import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization

from fairseq_odeformers.modules.orthogonal import rotate, rotate_columns
from fairseq_odeformers.modules.transformer_layer import EncoderLayer, WithoutLayerNorm


class ReZero(WithoutLayerNorm):
    r"""Mixin for layers of fairseq's Transformer: :math:`x + \alpha F(x)` without LayerNorm.

    All sub-layers of a layer share one learned scalar :math:`\alpha`, initially 0 (Bachlechner et
    al. 2020, "ReZero is All You Need", section 5).
    """

    def __init__(self, cfg: TransformerConfig, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        self.residual_weight = nn.Parameter(torch.zeros(1))

    def residual_weights(self) -> dict[str, Tensor]:
        """Return the weight alpha by name, for analysis."""
        return {"alpha": self.residual_weight}

    def residual_connection(self, x: Tensor, residual: Tensor) -> Tensor:
        return residual + self.residual_weight * x


class PlainEncoderLayer(WithoutLayerNorm, EncoderLayer):
    """Encoder layer without LayerNorm: x + F(x), from and to (T, B, C)."""


class ReZeroEncoderLayer(ReZero, EncoderLayer):
    """Encoder layer with zero-initialised residual weights."""


class ReZeroDecoderLayer(ReZero, TransformerDecoderLayerBase):
    """Decoder layer with zero-initialised residual weights."""


class Orthogonal(nn.Module):
    """Mixin for layers of fairseq's Transformer with orthogonal matrices.

    The matrices of the FFN are not square; their columns or rows are orthonormal instead.
    """

    def __init__(self, cfg: TransformerConfig, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        orthogonalize(self)


class OrthogonalEncoderLayer(Orthogonal, EncoderLayer):
    """Encoder layer with orthogonal matrices."""


class OrthogonalDecoderLayer(Orthogonal, TransformerDecoderLayerBase):
    """Decoder layer with orthogonal matrices."""


def orthogonalize(module: nn.Module) -> nn.Module:
    """Make the matrix W of every linear map in *module* orthogonal, now and in training.

    If W is wide, then W W^T = I; otherwise, W^T W = I.
    """
    for child in list(module.modules()):
        if isinstance(child, nn.Linear):
            register_parametrization(child, "weight", Rotation(*child.weight.shape))
    return module


class Rotation(nn.Module):
    """Parametrisation of a weight: a random orthogonal matrix, rotated by the parameter.

    Args:
        rows, columns: size of the matrix.
    """

    base: Tensor  # (1, rows, columns)

    def __init__(self, rows: int, columns: int):
        super().__init__()
        self.register_buffer("base", nn.init.orthogonal_(torch.empty(rows, columns)).unsqueeze(0))

    def forward(self, weight: Tensor) -> Tensor:
        """Return the matrix (rows, columns) for a parameter of the same shape."""
        base, weight = self.base, weight.unsqueeze(0)
        with torch.autocast(weight.device.type, enabled=False):
            if base.size(1) == base.size(2):
                matrix = rotate(base, weight)
            elif base.size(1) > base.size(2):
                matrix = rotate_columns(base, weight)
            else:
                matrix = rotate_columns(base.mT, weight.mT).mT
        return matrix.squeeze(0)

    def right_inverse(self, matrix: Tensor) -> Tensor:
        """Return zeros (rows, columns) as the initial parameter: no rotation, for any matrix."""
        return torch.zeros_like(matrix)
