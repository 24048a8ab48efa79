"""Layers that reuse the slope of the layer before: the Adams-Bashforth method of order 2.

The slopes are local variables of a block of several layers. In an attribute, activation
checkpointing or LayerDrop could leave the slope of another layer.
"""

from fairseq.models import register_model
from torch import nn

from fairseq_odeformers.models.common.transformer import Encoder
from fairseq_odeformers.models.common.transformer_classifier import (
    TransformerClassifier,
    TransformerClassifierConfig,
)
from fairseq_odeformers.modules.transformer_layer import Block, EncoderLayer


class AdamsBashforthBlock(Block):
    """x' = x + 3/2 F(x) - 1/2 (the slope before), in three layers; the first is Euler's."""

    def __init__(self, cfg, **kwargs):
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(cfg, **kwargs) for _ in range(3))

    def forward(self, x, *args, **kwargs):  # x: (T, B, C)
        before = None
        for layer in self.layers:
            slope = layer(x, *args, **kwargs) - x
            x = x + (slope if before is None else 1.5 * slope - 0.5 * before)
            before = slope
        return x


class AdamsBashforthEncoder(Encoder):
    layer_class = AdamsBashforthBlock  # --encoder-layers counts blocks


@register_model("adams_bashforth_classifier", dataclass=TransformerClassifierConfig)
class AdamsBashforthClassifier(TransformerClassifier):
    """A classifier whose layers take multistep steps."""

    encoder_class = AdamsBashforthEncoder
