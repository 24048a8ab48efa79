"""The layers of the vector field: fairseq's, with or without their LayerNorms."""

from fairseq.models.transformer import TransformerConfig
from torch import Tensor, nn

from fairseq_odeformers.modules.transformer_layer import (
    EncoderLayer,
    Output,
    RepeatedDecoderLayer,
    drop_layer_norms,
)

from .spec import FlowSpec


class FieldLayer(nn.Module):
    """Mixin for fairseq's layer: drops the LayerNorms with ``--no-layer-norm``."""

    def __init__(self, cfg: TransformerConfig, spec: FlowSpec, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        if not spec.layer_norm:
            drop_layer_norms(self)


class FieldEncoderLayer(FieldLayer, EncoderLayer):
    """Layer of an encoder's field."""


class FieldDecoderLayer(FieldLayer, RepeatedDecoderLayer):
    """Layer of a decoder's field, with a key/value cache for each evaluation."""

    def forward(self, x: Tensor, *args, evaluation: int, **kwargs) -> Output:
        """As fairseq's layer, from and to (T, B, C).

        Args:
            evaluation: number of the evaluation in a pass, from 0.
        """
        return self.evaluate(evaluation, x, *args, **kwargs)
