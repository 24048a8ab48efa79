"""The registered models: YuriiFormer and TMMFormer on fairseq's Transformer."""

from dataclasses import dataclass

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model

from fairseq_odeformers.models.common.depths import check_joined
from fairseq_odeformers.models.common.language_model import LanguageModel, LanguageModelConfig
from fairseq_odeformers.models.common.model import BaseModel
from fairseq_odeformers.models.common.prenorm_transformer import (
    PreNormTransformer,
    PreNormTransformerConfig,
)
from fairseq_odeformers.models.common.transformer_classifier import (
    TransformerClassifier,
    TransformerClassifierConfig,
)
from fairseq_odeformers.options import option
from fairseq_odeformers.registry import Family, register_preset

from .stacks import MomentumDecoder, MomentumEncoder

TMMFORMER = Family("TMMFormer", "Gai et al.", 2026, color="deeppink", arxiv="2605.24425")
ONE_STEP = "a step has one LayerNorm before and one after its sub-layer, and no other"


def nu_option(default: str):
    """Declare the option ``--nu``; YuriiFormer and TMMFormer differ only in its default."""
    return option(
        default,
        "factor of the velocity in a step: fixed at 1 (YuriiFormer) or learned (TMMFormer)",
        choices=("fixed", "learned"),
    )


@dataclass
class MomentumConfig(FairseqDataclass):
    """Options of the velocity of all YuriiFormer models."""

    velocity: str = option(
        "zero",
        "initial velocity: zero, or embedding for a separate embedding of tokens and positions",
        choices=("zero", "embedding"),
    )
    nu: str = nu_option("fixed")


@dataclass
class LearnedConfig(MomentumConfig):
    """Options of the velocity of all TMMFormer models."""

    nu: str = nu_option("learned")


class MomentumModel(BaseModel):
    """Mixin for the models, with checks for a velocity that passes through the layers."""

    @classmethod
    def check_config(cls, cfg):
        """Check the options, including those that layers with a velocity do not support."""
        super().check_config(cfg)
        check_joined(
            cfg,
            each_layer="each layer needs the velocity from the previous layer",
            pre_norm="a step normalises the input of its sub-layer",
        )


# --- translation -----------------------------------------------------------


@dataclass
class YuriiFormerConfig(MomentumConfig, PreNormTransformerConfig):
    """Options of the translator: a pre-norm Transformer's, and the velocity's."""


@register_model("yuriiformer", dataclass=YuriiFormerConfig)
class YuriiFormer(MomentumModel, PreNormTransformer):
    """Encoder and decoder, each with a velocity; the papers only have language models."""

    encoder_class = MomentumEncoder
    decoder_class = MomentumDecoder
    unsupported = {"cross_self_attention": "the source has a step of its own"}


@dataclass
class TMMFormerConfig(LearnedConfig, PreNormTransformerConfig):
    """Options of the translator: a pre-norm Transformer's, and the velocity's."""


@register_model("tmmformer", dataclass=TMMFormerConfig)
class TMMFormer(YuriiFormer):
    """YuriiFormer with a learned nu, as a translator; the papers only have language models."""

    family = TMMFORMER


# --- language models -------------------------------------------------------


@dataclass
class YuriiFormerLanguageModelConfig(MomentumConfig, LanguageModelConfig):
    """Options of the language model: a pre-norm Transformer's, and the velocity's."""

    decoder_normalize_before: bool = option(True, "apply LayerNorm before each decoder sub-layer")


@register_model("yuriiformer_lm", dataclass=YuriiFormerLanguageModelConfig)
class YuriiFormerLanguageModel(MomentumModel, LanguageModel):
    """Causal language model, as in the papers."""

    decoder_class = MomentumDecoder
    unsupported = {
        "base_layers": "BASE layers do not pass on a velocity",
        **dict.fromkeys(("scale_attn", "scale_fc", "scale_heads", "scale_resids"), ONE_STEP),
    }


@dataclass
class TMMFormerLanguageModelConfig(LearnedConfig, LanguageModelConfig):
    """Options of the language model: a pre-norm Transformer's, and the velocity's."""

    decoder_normalize_before: bool = option(True, "apply LayerNorm before each decoder sub-layer")


@register_model("tmmformer_lm", dataclass=TMMFormerLanguageModelConfig)
class TMMFormerLanguageModel(YuriiFormerLanguageModel):
    """YuriiFormer's language model with a learned nu, as in TMMFormer's paper."""

    family = TMMFORMER


# The models of the second paper, except for the biases of linear maps; its texts have 1,024 tokens.
for name in ("yuriiformer_lm", "tmmformer_lm"):
    register_preset(
        name,
        f"{name}_gpt2",
        decoder_layers=12,
        decoder_embed_dim=768,
        decoder_ffn_embed_dim=3072,
        decoder_attention_heads=12,
        activation_fn="gelu",
        dropout=0.0,
        decoder_learned_pos=True,
        no_scale_embedding=True,
        share_decoder_input_output_embed=True,
        velocity="embedding",
    )


# --- classifiers -----------------------------------------------------------


@dataclass
class YuriiFormerClassifierConfig(MomentumConfig, TransformerClassifierConfig):
    """Options of the classifier; the defaults have the size of ``transformer_classifier``."""

    encoder_normalize_before: bool = option(True, "apply LayerNorm before each sub-layer")


@register_model("yuriiformer_classifier", dataclass=YuriiFormerClassifierConfig)
class YuriiFormerClassifier(MomentumModel, TransformerClassifier):
    """YuriiFormer's encoder as a classifier."""

    encoder_class = MomentumEncoder


@dataclass
class TMMFormerClassifierConfig(LearnedConfig, TransformerClassifierConfig):
    """Options of the classifier; the defaults have the size of ``transformer_classifier``."""

    encoder_normalize_before: bool = option(True, "apply LayerNorm before each sub-layer")


@register_model("tmmformer_classifier", dataclass=TMMFormerClassifierConfig)
class TMMFormerClassifier(YuriiFormerClassifier):
    """YuriiFormer's encoder with a learned nu, as a classifier."""

    family = TMMFORMER
