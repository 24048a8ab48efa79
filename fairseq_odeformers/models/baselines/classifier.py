"""Classifiers over fairseq's Transformer encoder and its variants: the baselines."""

from argparse import Namespace
from dataclasses import dataclass
from typing import Optional

from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerConfig

from fairseq_odeformers.models.common.options import (
    NO_LAYER_NORM,
    EncoderConfig,
    check_layers,
    drop_embeddings,
    embedding_dropout,
    option,
    refuse,
)
from fairseq_odeformers.models.common.parity_model import ParityModel, ParityModelConfig
from fairseq_odeformers.models.common.sequence_classifier import (
    SequenceClassifier,
    SequenceClassifierConfig,
)
from fairseq_odeformers.models.common.stacks import Encoder

from .layers import OrthogonalEncoderLayer, PlainEncoderLayer, ReZeroEncoderLayer


@dataclass
class TransformerClassifierConfig(SequenceClassifierConfig, EncoderConfig):
    """Options of fairseq's encoder; the defaults have the size of the small TransEvolve."""

    encoder_embed_dim: int = option(256, "width d")
    encoder_ffn_embed_dim: int = option(1024, "inner width")
    encoder_layers_to_keep: Optional[str] = option(
        None, "which layers to keep when pruning, such as 0,2,4"
    )
    embedding_dropout: float = embedding_dropout()


@register_model("transformer_classifier", dataclass=TransformerClassifierConfig)
class TransformerClassifier(SequenceClassifier):
    """fairseq's Transformer encoder as a classifier."""

    encoder_class = Encoder

    @classmethod
    def build_model(cls, cfg, task):
        model = super().build_model(cfg, task)
        drop_embeddings(cfg, model.encoder)
        return model

    @classmethod
    def check_config(cls, cfg):
        super().check_config(cfg)
        check_layers(cfg, "encoder")
        refuse(cfg, "fairseq's tasks of classification do not quantize", "quant_noise_scalar")

    @classmethod
    def encoder_config(cls, cfg):
        args = Namespace(**cfg)
        if args.encoder_layers_to_keep:
            args.encoder_layers = len(args.encoder_layers_to_keep.split(","))
        return TransformerConfig.from_namespace(args)


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
    """fairseq's Transformer encoder with all square matrices of its layers orthogonal."""

    layer_class = OrthogonalEncoderLayer


@register_model("transformer_classifier_orthogonal", dataclass=TransformerClassifierConfig)
class OrthogonalClassifier(TransformerClassifier):
    """The Orthogonal Transformer of TransJect's Tables 1 and 2 (Sengupta et al. 2023)."""

    encoder_class = OrthogonalEncoder


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
