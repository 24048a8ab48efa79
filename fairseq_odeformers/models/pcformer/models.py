"""The registered models: PCformer (Li et al. 2024) on fairseq's Transformer."""

from dataclasses import dataclass

from fairseq.models import register_model

from fairseq_odeformers.models.common.language_model import LanguageModel
from fairseq_odeformers.models.common.prenorm_transformer import PreNormTransformer
from fairseq_odeformers.models.common.runge_kutta import (
    FieldConfig,
    HistoryDecoder,
    RungeKuttaClassifierConfig,
    RungeKuttaConfig,
    RungeKuttaLanguageModelConfig,
    RungeKuttaModel,
)
from fairseq_odeformers.models.common.transformer_classifier import TransformerClassifier
from fairseq_odeformers.options import option
from fairseq_odeformers.registry import register_preset

from .stacks import PCformerEncoder, PCformerLanguageModelDecoder


@dataclass
class PredictorConfig(FieldConfig):
    """Options of the predictor."""

    rk_order: int = option(
        2,
        "order of the predictor's Runge-Kutta method, 2 or 4; a layer is evaluated once more",
        at_least=2,
        at_most=4,
        multiple_of=2,
    )
    rk_norm: bool = option(
        False, "apply layernorm to the residual term and to each slope of the predictor"
    )
    alpha_per_layer: bool = option(False, "learn one alpha per layer, instead of one for all")


@dataclass
class PCformerConfig(PredictorConfig, RungeKuttaConfig):
    """Options of the translator."""


@register_model("pcformer", dataclass=PCformerConfig)
class PCformer(RungeKuttaModel, PreNormTransformer):
    """Encoder of predictor-corrector layers, with a pre-norm decoder that has a dense history."""

    encoder_class = PCformerEncoder
    decoder_class = HistoryDecoder


# The models of the released code, but for its relative positions.
register_preset(
    "pcformer",
    "pcformer_iwslt_de_en",
    encoder_embed_dim=512,
    encoder_ffn_embed_dim=1024,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    dropout=0.3,
    rk_field="released",
)
register_preset("pcformer", "pcformer_wmt_en_de", rk_order=4, rk_field="released")
register_preset(
    "pcformer",
    "pcformer_wmt_en_de_big",
    encoder_embed_dim=1024,
    encoder_ffn_embed_dim=4096,
    encoder_attention_heads=16,
    decoder_attention_heads=16,
    dropout=0.3,
    rk_order=4,
    rk_field="released",
)


@dataclass
class PCformerLanguageModelConfig(PredictorConfig, RungeKuttaLanguageModelConfig):
    """Options of the language model."""


@register_model("pcformer_lm", dataclass=PCformerLanguageModelConfig)
class PCformerLanguageModel(RungeKuttaModel, LanguageModel):
    """Causal language model of predictor-corrector layers."""

    decoder_class = PCformerLanguageModelDecoder


@dataclass
class PCformerClassifierConfig(PredictorConfig, RungeKuttaClassifierConfig):
    """Options of the classifier."""


@register_model("pcformer_classifier", dataclass=PCformerClassifierConfig)
class PCformerClassifier(RungeKuttaModel, TransformerClassifier):
    """PCformer's encoder as a classifier."""

    encoder_class = PCformerEncoder
