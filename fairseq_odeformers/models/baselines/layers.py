"""Transformer layers without LayerNorm, and square weights kept orthogonal."""

import torch
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization

from fairseq_odeformers.modules.encoder_layer import EncoderLayer
from fairseq_odeformers.modules.orthogonal import rotated


class WithoutLayerNorm:
    """Mixin of a layer of fairseq's Transformer: x + F(x), not normalised."""

    def __init__(self, cfg, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        for name, _ in list(self.named_children()):
            if name.endswith("layer_norm"):
                setattr(self, name, nn.Identity())


class ReZero(WithoutLayerNorm):
    r"""Mixin of a layer of fairseq's Transformer: :math:`x + \alpha F(x)`, not normalised.

    One learnable scalar :math:`\alpha` serves all sub-layers of a layer, and starts at 0
    (Bachlechner et al. 2020, "ReZero is All You Need", section 5).
    """

    def __init__(self, cfg, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        self.residual_weight = nn.Parameter(torch.zeros(1))

    def residual_connection(self, x: Tensor, residual: Tensor):
        return residual + self.residual_weight * x


class PlainEncoderLayer(WithoutLayerNorm, EncoderLayer):
    """Encoder layer without LayerNorm."""


class ReZeroEncoderLayer(ReZero, EncoderLayer):
    """Encoder layer with zero-initialised residual weights."""


class ReZeroDecoderLayer(ReZero, TransformerDecoderLayerBase):
    """Decoder layer with zero-initialised residual weights."""


class Orthogonal:
    """Mixin of a layer of fairseq's Transformer: its square matrices are orthogonal."""

    def __init__(self, cfg, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        orthogonalize(self)


class OrthogonalEncoderLayer(Orthogonal, EncoderLayer):
    """Encoder layer with orthogonal square matrices."""


class OrthogonalDecoderLayer(Orthogonal, TransformerDecoderLayerBase):
    """Decoder layer with orthogonal square matrices."""


def orthogonalize(module: nn.Module) -> nn.Module:
    """Make the square matrix of every linear map in *module* orthogonal, and keep it so."""
    for child in module.modules():
        if isinstance(child, nn.Linear) and child.in_features == child.out_features:
            register_parametrization(child, "weight", Rotation(child.in_features))
    return module


class Rotation(nn.Module):
    """A parametrisation of a square weight: a random orthogonal matrix, rotated by the parameter.

    Args:
        dim: size C of the matrix.
    """

    def __init__(self, dim):
        super().__init__()
        self.register_buffer("base", nn.init.orthogonal_(torch.empty(dim, dim)).unsqueeze(0))

    def forward(self, weight: Tensor) -> Tensor:
        return rotated(self.base, weight.unsqueeze(0)).squeeze(0)

    def right_inverse(self, matrix: Tensor) -> Tensor:
        """The start, whatever the matrix was: no rotation."""
        return torch.zeros_like(matrix)
