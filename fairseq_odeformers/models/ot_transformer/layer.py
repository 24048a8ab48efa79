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
    """Mixin for fairseq's layer, without its LayerNorms if ``--no-layer-norm`` is set."""

    def __init__(self, cfg: TransformerConfig, spec: FlowSpec, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        if not spec.layer_norm:
            drop_layer_norms(self)


class FieldEncoderLayer(FieldLayer, EncoderLayer):
    """Encoder layer of the field: self-attention and FFN; each evaluation is independent."""


class FieldDecoderLayer(FieldLayer, RepeatedDecoderLayer):
    """Layer of a decoder's field, with a key/value cache for each evaluation."""

    def forward(self, x: Tensor, *args, evaluation: int, **kwargs) -> Output:
        """Map (T, B, C) to (T, B, C) as fairseq's layer does.

        Args:
            evaluation: number of the evaluation in a pass, from 0.
        """
        return self.evaluate(evaluation, x, *args, **kwargs)
