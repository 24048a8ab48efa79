"""The registered baselines: fairseq's Transformer as it is, plain, ReZero, orthogonal, linear."""

from dataclasses import dataclass

from fairseq.models import register_model

from fairseq_odeformers.models.common.language_model import LanguageModel, LanguageModelConfig
from fairseq_odeformers.models.common.parity_model import ParityModel, ParityModelConfig
from fairseq_odeformers.models.common.prenorm_transformer import (
    PreNormTransformer,
    PreNormTransformerConfig,
)
from fairseq_odeformers.models.common.transformer import Decoder, Encoder
from fairseq_odeformers.models.common.transformer_classifier import (
    TransformerClassifier,
    TransformerClassifierConfig,
)
from fairseq_odeformers.options import option
from fairseq_odeformers.registry import Family, register_preset

from . import layers
from .linear_attention import LinearEncoderLayer

NO_LAYER_NORM = "the layers of this model have no LayerNorm"
NO_QUANT_NOISE = "noise would not reach orthogonal matrices, since each pass computes them again"

# --- translation -----------------------------------------------------------


@register_model("transformer_prenorm", dataclass=PreNormTransformerConfig)
class PreNormTransformerModel(PreNormTransformer):
    """fairseq's own Transformer, pre-norm.

    It only differs from ``--arch transformer --encoder-normalize-before
    --decoder-normalize-before`` in the option ``--embedding-dropout``; fairseq uses ``--dropout``.
    """

    family = Family("Transformer", color="black")


# The Transformers in Macaron Net's code. They are pre-norm, have Macaron Net's dropout, and
# differ from it only in the splitting. The counterpart of the big Macaron Net is fairseq's
# transformer_wmt_en_de_big_t2t.
MACARON_TWIN = {"attention_dropout": 0.1, "activation_dropout": 0.1}
register_preset(
    "transformer_prenorm",
    "transformer_iwslt_de_en_v2",
    **MACARON_TWIN,
    encoder_ffn_embed_dim=1024,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
)
register_preset("transformer_prenorm", "transformer_wmt_en_de_v2", **MACARON_TWIN)


# --- classifiers -----------------------------------------------------------


@register_model("transformer_classifier", dataclass=TransformerClassifierConfig)
class TransformerClassifierModel(TransformerClassifier):
    """fairseq's own encoder as a classifier."""

    family = Family("Transformer", color="black")


register_preset(
    "transformer_classifier", "transformer_classifier_prenorm", encoder_normalize_before=True
)


# The Transformer for the Long Range Arena in Skyformer's code (Chen et al. 2021), also used in
# TransJect's Table 2.
register_preset(
    "transformer_classifier",
    "transformer_classifier_lra",
    encoder_layers=2,
    encoder_embed_dim=64,
    encoder_ffn_embed_dim=128,
    encoder_attention_heads=2,
    encoder_normalize_before=True,
    encoder_learned_pos=True,
    activation_fn="gelu",
    dropout=0.1,
    attention_dropout=0.1,
    activation_dropout=0.1,
    pooled_layer_norm=False,
    classifier_hidden_layers=1,
    classifier_hidden_dim=128,
)


class ClassifierWithoutLayerNorm(TransformerClassifier):
    """Base class of classifiers over layers without LayerNorm."""

    unsupported = dict.fromkeys(("encoder_normalize_before", "layernorm_embedding"), NO_LAYER_NORM)


class ReZeroEncoder(Encoder):
    """fairseq's encoder over layers with residual weights instead of LayerNorm."""

    layer_class = layers.ReZeroEncoderLayer


@register_model("transformer_classifier_rezero", dataclass=TransformerClassifierConfig)
class ReZeroClassifier(ClassifierWithoutLayerNorm):
    """The Transformer with zero-initialised residual weights instead of LayerNorm."""

    family = Family("ReZero", color="black")
    encoder_class = ReZeroEncoder


class OrthogonalEncoder(Encoder):
    """fairseq's encoder over layers with orthogonal matrices."""

    layer_class = layers.OrthogonalEncoderLayer


@register_model("transformer_classifier_orthogonal", dataclass=TransformerClassifierConfig)
class OrthogonalClassifier(TransformerClassifier):
    """The Orthogonal Transformer of TransJect's Tables 1 and 2 (Sengupta et al. 2023)."""

    family = Family("Orthogonal Transformer", color="black")
    encoder_class = OrthogonalEncoder
    unsupported = {"quant_noise_pq": NO_QUANT_NOISE}


class LinearEncoder(Encoder):
    """fairseq's encoder over layers with linear attention, in time O(T)."""

    layer_class = LinearEncoderLayer


@register_model("transformer_classifier_linear", dataclass=TransformerClassifierConfig)
class LinearClassifier(TransformerClassifier):
    """The Transformer with linear attention of TransEvolve's Table 4 (Dutta et al. 2021)."""

    family = Family("linear attention", color="grey")
    encoder_class = LinearEncoder
    unsupported = {
        "attention_dropout": "linear attention computes no weights that could be dropped"
    }


class PlainEncoder(Encoder):
    """fairseq's encoder over layers without LayerNorm: x + F(x)."""

    layer_class = layers.PlainEncoderLayer


@dataclass
class VanillaTransformerConfig(ParityModelConfig, TransformerClassifierConfig):
    """Options of fairseq's encoder; the defaults match the parity model, without an ODE."""


@register_model("vanilla_transformer", dataclass=VanillaTransformerConfig)
class VanillaTransformer(ParityModel, ClassifierWithoutLayerNorm):
    """The baseline of the N-ODE Transformer (Baier-Reinio and De Sterck 2020, section 5)."""

    family = Family("vanilla Transformer", color="black")
    encoder_class = PlainEncoder


# --- language models -------------------------------------------------------


@dataclass
class PreNormLanguageModelConfig(LanguageModelConfig):
    """Options of fairseq's Transformer LM, with LayerNorm before each sub-layer."""

    decoder_normalize_before: bool = option(True, "apply LayerNorm before each decoder sub-layer")


@register_model("transformer_lm_prenorm", dataclass=PreNormLanguageModelConfig)
class PreNormLanguageModel(LanguageModel):
    """fairseq's own Transformer LM, pre-norm."""

    family = Family("Transformer", color="black")


# The next two models are baselines in TransJect's Table 3.


class ReZeroDecoder(Decoder):
    """fairseq's decoder over layers with residual weights instead of LayerNorm."""

    layer_class = layers.ReZeroDecoderLayer


@register_model("transformer_lm_rezero", dataclass=LanguageModelConfig)
class ReZeroLanguageModel(LanguageModel):
    """The Transformer LM with zero-initialised residual weights instead of LayerNorm."""

    family = Family("ReZero", color="black")
    decoder_class = ReZeroDecoder
    unsupported = dict.fromkeys(
        ("decoder_normalize_before", "layernorm_embedding", "scale_attn", "scale_fc"),
        NO_LAYER_NORM,
    )


class OrthogonalDecoder(Decoder):
    """fairseq's decoder over layers with orthogonal matrices."""

    layer_class = layers.OrthogonalDecoderLayer


@register_model("transformer_lm_orthogonal", dataclass=LanguageModelConfig)
class OrthogonalLanguageModel(LanguageModel):
    """The Transformer LM with all matrices of its layers orthogonal."""

    family = Family("Orthogonal Transformer", color="black")
    decoder_class = OrthogonalDecoder
    unsupported = dict.fromkeys(("quant_noise_pq", "quant_noise_scalar"), NO_QUANT_NOISE)
