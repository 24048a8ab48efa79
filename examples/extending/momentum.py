"""A state that all layers of a stack share: one block takes the layers that fairseq has built.

The velocity starts at zero in each pass. Each layer keeps its own key/value cache.
"""

from dataclasses import dataclass

from fairseq.models import register_model
from torch import nn

from fairseq_odeformers.models.common.depths import join_layers
from fairseq_odeformers.models.common.prenorm_transformer import (
    PreNormTransformer,
    PreNormTransformerConfig,
)
from fairseq_odeformers.models.common.transformer import Decoder, Encoder
from fairseq_odeformers.modules.transformer_layer import Block
from fairseq_odeformers.options import option


class MomentumBlock(Block):
    """v' = m v + F(x), x' = x + v' in each layer, with F(x) = layer(x) - x."""

    def __init__(self, layers, momentum):
        super().__init__()
        self.layers, self.momentum = layers, momentum

    def forward(self, x, *args, **kwargs):  # x: (T, B, C)
        velocity, rest = 0.0, ()
        for layer in self.layers:
            out = layer(x, *args, **kwargs)
            y, *rest = out if isinstance(out, tuple) else (out,)  # a decoder layer's attention
            velocity = self.momentum * velocity + (y - x)
            x = x + velocity
        return (x, *rest) if rest else x


class MomentumStack(nn.Module):
    """Mixin of an encoder or a decoder: one block of the layers that fairseq has built."""

    def __init__(self, cfg, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        join_layers(self, MomentumBlock(self.layers, cfg.momentum))


class MomentumEncoder(MomentumStack, Encoder):
    pass


class MomentumDecoder(MomentumStack, Decoder):
    pass


@dataclass
class MomentumConfig(PreNormTransformerConfig):
    momentum: float = option(0.5, "share of the velocity that a layer keeps", at_least=0, below=1)


@register_model("momentum_transformer", dataclass=MomentumConfig)
class MomentumTransformer(PreNormTransformer):
    """A translator whose layers share a velocity."""

    encoder_class = MomentumEncoder
    decoder_class = MomentumDecoder
