"""The N-ODE Transformer's baseline: layers without LayerNorm, the size of the parity model."""

from dataclasses import dataclass

from fairseq.models import register_model

from fairseq_odeformers.models.common.parity_model import ParityModel, ParityModelConfig
from fairseq_odeformers.models.common.stacks import Encoder
from fairseq_odeformers.models.common.transformer_classifier import TransformerClassifierConfig

from .classifier import WithoutLayerNorm
from .layers import PlainEncoderLayer


@dataclass
class VanillaTransformerConfig(ParityModelConfig, TransformerClassifierConfig):
    """Options of fairseq's encoder; the defaults are those of the parity model, without an ODE."""


class PlainEncoder(Encoder):
    """fairseq's Transformer encoder over layers without LayerNorm."""

    layer_class = PlainEncoderLayer


@register_model("vanilla_transformer", dataclass=VanillaTransformerConfig)
class VanillaTransformer(ParityModel, WithoutLayerNorm):
    """The baseline of the N-ODE Transformer (Baier-Reinio and De Sterck 2020, section 5)."""

    encoder_class = PlainEncoder
