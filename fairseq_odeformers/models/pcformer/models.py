"""The registered models: PCformer (Li et al. 2024) on fairseq's Transformer."""

from dataclasses import dataclass

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model

from fairseq_odeformers.models.common.history import check_history
from fairseq_odeformers.models.common.language_model import LanguageModel, LanguageModelConfig
from fairseq_odeformers.models.common.model import BaseModel
from fairseq_odeformers.models.common.prenorm_transformer import (
    PreNormTransformer,
    PreNormTransformerConfig,
)
from fairseq_odeformers.models.common.runge_kutta import FIELDS
from fairseq_odeformers.models.common.transformer_classifier import (
    TransformerClassifier,
    TransformerClassifierConfig,
)
from fairseq_odeformers.options import option
from fairseq_odeformers.registry import register_preset

from .stacks import PCformerDecoder, PCformerEncoder, PCformerLanguageModelDecoder


@dataclass
class PredictorCorrectorConfig(FairseqDataclass):
    """Options of the predictor."""

    rk_order: int = option(
        2,
        "order of the predictor's Runge-Kutta method, 2 or 4; a layer is evaluated once more",
        at_least=2,
        at_most=4,
        multiple_of=2,
    )
    rk_field: str = option(
        "textbook",
        "slope F(y) of a layer: textbook, layer(y) - y, or released, layer(y) as in the authors' "
        "code",
        choices=FIELDS,
    )
    rk_norm: bool = option(
        False, "apply layernorm to the residual term and to each slope of the predictor"
    )
    alpha_per_layer: bool = option(False, "learn one alpha per layer, instead of one for all")


class PredictorCorrectorModel(BaseModel):
    """The base of the models, a mixin: it checks what a history of layers rules out."""

    @classmethod
    def check_config(cls, cfg):
        """As the base class's; also for options that layers with a history do not have."""
        super().check_config(cfg)
        check_history(cfg)


@dataclass
class PCformerConfig(PredictorCorrectorConfig, PreNormTransformerConfig):
    """Options of fairseq's Transformer; the defaults have the size of the paper's base model."""

    attention_dropout: float = option(0.1, "dropout probability for attention weights")
    activation_dropout: float = option(
        0.1, "dropout probability after activation in FFN", argparse_alias="--relu-dropout"
    )


@register_model("pcformer", dataclass=PCformerConfig)
class PCformer(PredictorCorrectorModel, PreNormTransformer):
    """Encoder of predictor-corrector layers, with a pre-norm decoder that has a dense history."""

    encoder_class = PCformerEncoder
    decoder_class = PCformerDecoder


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
class PCformerLanguageModelConfig(PredictorCorrectorConfig, LanguageModelConfig):
    """Options of fairseq's Transformer LM, with LayerNorm before each sub-layer."""

    attention_dropout: float = option(0.1, "dropout probability for attention weights")
    activation_dropout: float = option(0.1, "dropout probability after activation in FFN")
    decoder_normalize_before: bool = option(True, "apply layernorm before each decoder block")


@register_model("pcformer_lm", dataclass=PCformerLanguageModelConfig)
class PCformerLanguageModel(PredictorCorrectorModel, LanguageModel):
    """Causal language model of predictor-corrector layers."""

    decoder_class = PCformerLanguageModelDecoder


@dataclass
class PCformerClassifierConfig(PredictorCorrectorConfig, TransformerClassifierConfig):
    """Options of fairseq's encoder; the defaults have the size of ``transformer_classifier``."""

    encoder_normalize_before: bool = option(True, "apply layernorm before each block")


@register_model("pcformer_classifier", dataclass=PCformerClassifierConfig)
class PCformerClassifier(PredictorCorrectorModel, TransformerClassifier):
    """PCformer's encoder as a classifier."""

    encoder_class = PCformerEncoder
