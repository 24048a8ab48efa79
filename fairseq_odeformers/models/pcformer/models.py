"""The registered models: PCformer (Li et al. 2024) on fairseq's Transformer."""

from dataclasses import dataclass

from fairseq.models import register_model

from fairseq_odeformers.models.common.language_model import LanguageModel
from fairseq_odeformers.models.common.model import BaseModel
from fairseq_odeformers.models.common.prenorm_transformer import PreNormTransformer
from fairseq_odeformers.models.common.runge_kutta import (
    FieldConfig,
    RungeKuttaClassifierConfig,
    RungeKuttaConfig,
    RungeKuttaLanguageModelConfig,
    check_history,
)
from fairseq_odeformers.models.common.transformer_classifier import TransformerClassifier
from fairseq_odeformers.options import option
from fairseq_odeformers.registry import register_preset

from .stacks import PCformerDecoder, PCformerEncoder, PCformerLanguageModelDecoder


@dataclass
class PredictorConfig(FieldConfig):
    """Options of the predictor."""

    rk_order: int = option(
        2,
        "order of the predictor's Runge-Kutta method; a layer is evaluated once more than that",
        at_least=2,
        at_most=4,
        multiple_of=2,
    )
    rk_norm: bool = option(
        False, "apply LayerNorm to the residual term and to each slope of the predictor"
    )
    rk_norm_slopes: bool = option(
        False,
        "apply LayerNorm to each slope of the predictor before the next stage reads it, and not to "
        "the residual term, as in the authors' language model",
    )
    alpha_per_layer: bool = option(
        False, "learn one alpha per layer, instead of one for all layers"
    )


class PredictorModel(BaseModel):
    """Mixin for the models, with a check of the predictor's options."""

    @classmethod
    def check_config(cls, cfg):
        """Check the options, and that only one form of the predictor's LayerNorms is chosen."""
        super().check_config(cfg)
        check_history(cfg)
        if cfg.rk_norm and cfg.rk_norm_slopes:
            raise ValueError(
                "--rk-norm-slopes is an alternative to --rk-norm; leave one of them out"
            )


@dataclass
class PCformerConfig(PredictorConfig, RungeKuttaConfig):
    """Options of the translator: a pre-norm Transformer's, and the predictor's."""


@register_model("pcformer", dataclass=PCformerConfig)
class PCformer(PredictorModel, PreNormTransformer):
    """Encoder of predictor-corrector layers, with a pre-norm decoder that has a dense history."""

    encoder_class = PCformerEncoder
    decoder_class = PCformerDecoder


# The models in the authors' code, except for its relative positions.
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
    """Options of the language model: a pre-norm Transformer's, and the predictor's."""


@register_model("pcformer_lm", dataclass=PCformerLanguageModelConfig)
class PCformerLanguageModel(PredictorModel, LanguageModel):
    """Causal language model of predictor-corrector layers."""

    decoder_class = PCformerLanguageModelDecoder


# The predictor and the dropout of the authors' language model, over fairseq's layers, not Llama's.
register_preset(
    "pcformer_lm",
    "pcformer_lm_released",
    rk_field="released",
    rk_norm_slopes=True,
    dropout=0.0,
    attention_dropout=0.0,
    activation_dropout=0.0,
)


@dataclass
class PCformerClassifierConfig(PredictorConfig, RungeKuttaClassifierConfig):
    """Options of the classifier: a pre-norm Transformer encoder's, and the predictor's."""


@register_model("pcformer_classifier", dataclass=PCformerClassifierConfig)
class PCformerClassifier(PredictorModel, TransformerClassifier):
    """PCformer's encoder as a classifier."""

    encoder_class = PCformerEncoder
