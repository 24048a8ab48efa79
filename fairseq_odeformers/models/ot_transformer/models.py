"""The registered models: OT-Transformer (Kan et al. 2025) on fairseq's Transformer."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model

from fairseq_odeformers.models.common.dial import Dial
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
from fairseq_odeformers.modules.tableaus import FIXED_GRID
from fairseq_odeformers.options import option
from fairseq_odeformers.registry import register_preset

from .stacks import OTDecoder, OTEncoder

FINAL_NORMS = ("field", "state", "none")
ONE_FIELD = "the remaining layers would be a different vector field"


@dataclass
class FlowConfig(FairseqDataclass):
    """Options of the flow; the defaults match the authors' code for GPT-2."""

    ode_steps: int = option(
        5,
        "number M of steps from t = 0 to 1, each through all layers of the encoder or decoder; it "
        "can be changed after training",
        at_least=1,
    )
    ode_method: str = option("euler", "Runge-Kutta method of each step", choices=tuple(FIXED_GRID))
    ode_field: str = option(
        "released",
        "slope F(x) of all layers: their output, as in the authors' code (released), or the change "
        "that they add to x (textbook)",
        choices=FIELDS,
    )
    final_norm: str = option(
        "field",
        "place of the final LayerNorm: field, inside the vector field; state, after the last "
        "state, as in a Transformer; none, no final LayerNorm",
        choices=FINAL_NORMS,
    )
    layer_norm: bool = option(True, "apply LayerNorm in the layers")


class FlowModel(BaseModel):
    """Mixin for the models, with the options of a Transformer that a flow does not support."""

    unsupported = {
        "no_decoder_final_norm": "--final-norm replaces it; set --final-norm none",
        "encoder_layers_to_keep": ONE_FIELD,
        "decoder_layers_to_keep": ONE_FIELD,
    }

    @classmethod
    def depth_dials(cls, cfg) -> Sequence[Dial]:
        """Return the number of steps, common to both sides, as a dial."""
        return [Dial({"ode_steps": cfg.ode_steps}, FIXED_GRID[cfg.ode_method].order)]


@dataclass
class OTTransformerConfig(FlowConfig, PreNormTransformerConfig):
    """Options of the translator: a pre-norm Transformer's, and the flow's."""


@register_model("ot_transformer", dataclass=OTTransformerConfig)
class OTTransformer(FlowModel, PreNormTransformer):
    """A translator with flows as encoder and decoder; it is not in the paper."""

    encoder_class = OTEncoder
    decoder_class = OTDecoder


@dataclass
class OTClassifierConfig(FlowConfig, TransformerClassifierConfig):
    """Options of the classifier; the defaults have the size of ``transformer_classifier``."""

    encoder_normalize_before: bool = option(True, "apply LayerNorm before each sub-layer")


@register_model("ot_transformer_classifier", dataclass=OTClassifierConfig)
class OTClassifier(FlowModel, TransformerClassifier):
    """The OT-Transformer's encoder as a classifier; it is not in the paper."""

    encoder_class = OTEncoder


@dataclass
class OTLanguageModelConfig(FlowConfig, LanguageModelConfig):
    """Options of the language model: a pre-norm Transformer's, and the flow's."""

    decoder_normalize_before: bool = option(True, "apply LayerNorm before each decoder sub-layer")


@register_model("ot_transformer_lm", dataclass=OTLanguageModelConfig)
class OTLanguageModel(FlowModel, LanguageModel):
    """The causal language model of the paper."""

    decoder_class = OTDecoder


register_preset(
    "ot_transformer_lm",
    "ot_transformer_lm_shakespeare",
    decoder_layers=5,
    decoder_embed_dim=320,
    decoder_ffn_embed_dim=1280,
    decoder_attention_heads=5,
    decoder_learned_pos=True,
    no_scale_embedding=True,
    share_decoder_input_output_embed=True,
    activation_fn="gelu",
    dropout=0.2,
    attention_dropout=0.2,
    ode_steps=5,
    layer_norm=False,
    final_norm="none",
)
