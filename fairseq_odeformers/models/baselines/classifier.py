"""Classifiers over fairseq's Transformer encoder: plain, ReZero and orthogonal."""

from fairseq.models import register_model, register_model_architecture

from fairseq_odeformers.models.common.stacks import Encoder
from fairseq_odeformers.models.common.transformer_classifier import (
    TransformerClassifier,
    TransformerClassifierConfig,
)
from fairseq_odeformers.options import NO_LAYER_NORM, NO_QUANT_NOISE, refuse

from .layers import OrthogonalEncoderLayer, ReZeroEncoderLayer


@register_model("transformer_classifier", dataclass=TransformerClassifierConfig)
class TransformerClassifierModel(TransformerClassifier):
    """fairseq's own encoder as a classifier."""


@register_model_architecture("transformer_classifier", "transformer_classifier_prenorm")
def transformer_classifier_prenorm(args):
    args.encoder_normalize_before = getattr(args, "encoder_normalize_before", True)


class WithoutLayerNorm(TransformerClassifier):
    """A classifier over layers without LayerNorm."""

    @classmethod
    def check_config(cls, cfg):
        super().check_config(cfg)
        refuse(cfg, NO_LAYER_NORM, "encoder_normalize_before", "layernorm_embedding")


class ReZeroEncoder(Encoder):
    """fairseq's Transformer encoder over ReZero layers."""

    layer_class = ReZeroEncoderLayer


@register_model("transformer_classifier_rezero", dataclass=TransformerClassifierConfig)
class ReZeroClassifier(WithoutLayerNorm):
    """The Transformer with zero-initialised residual weights instead of LayerNorm."""

    encoder_class = ReZeroEncoder


class OrthogonalEncoder(Encoder):
    """fairseq's Transformer encoder with all matrices of its layers orthogonal."""

    layer_class = OrthogonalEncoderLayer


@register_model("transformer_classifier_orthogonal", dataclass=TransformerClassifierConfig)
class OrthogonalClassifier(TransformerClassifier):
    """The Orthogonal Transformer of TransJect's Tables 1 and 2 (Sengupta et al. 2023)."""

    encoder_class = OrthogonalEncoder

    @classmethod
    def check_config(cls, cfg):
        super().check_config(cfg)
        refuse(cfg, NO_QUANT_NOISE, "quant_noise_pq")
