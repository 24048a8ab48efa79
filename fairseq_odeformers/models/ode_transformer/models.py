"""The registered models: the ODE Transformer (Li et al. 2022) on fairseq's Transformer."""

from dataclasses import dataclass
from typing import Optional

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
from fairseq_odeformers.modules.coefficients import COEFFICIENTS
from fairseq_odeformers.modules.tableaus import TABLEAUS
from fairseq_odeformers.options import option
from fairseq_odeformers.registry import register_preset

from .stacks import ODELanguageModelDecoder, ODETransformerDecoder, ODETransformerEncoder


@dataclass
class BlockConfig(FieldConfig):
    """Options of the Runge-Kutta method of a block."""

    rk_order: int = option(
        2,
        "order of a block's Runge-Kutta method, and number of evaluations of its layer",
        at_least=min(TABLEAUS),
        at_most=max(TABLEAUS),
    )
    rk_coefficients: Optional[str] = option(
        None,
        "coefficients of the slopes: fixed by the method or, with --rk-order 2, learned or gated "
        "(default: gated with --rk-order 2, else fixed)",
        choices=COEFFICIENTS,
    )
    dense_history: bool = option(
        False,
        "let each layer of encoder and decoder read a learned combination of the normalised "
        "outputs of all earlier layers",
    )


class ODEModel(BaseModel):
    """Mixin for the models, with a check that the options of the method fit together."""

    @classmethod
    def check_config(cls, cfg):
        """Check the options, and that a block of this order can have the chosen coefficients."""
        super().check_config(cfg)
        if cfg.dense_history:
            check_history(cfg)
        if cfg.rk_coefficients in ("learned", "gated") and cfg.rk_order != 2:
            raise ValueError(
                f"--rk-coefficients {cfg.rk_coefficients}: a block of --rk-order {cfg.rk_order} "
                "has only fixed ones; set --rk-order 2, or --rk-coefficients fixed"
            )


@dataclass
class ODETransformerConfig(BlockConfig, RungeKuttaConfig):
    """Options of the translator: a pre-norm Transformer's, and the Runge-Kutta method's."""


@register_model("ode_transformer", dataclass=ODETransformerConfig)
class ODETransformerModel(ODEModel, PreNormTransformer):
    """An encoder of Runge-Kutta blocks with an ordinary pre-norm decoder."""

    encoder_class = ODETransformerEncoder
    decoder_class = ODETransformerDecoder


# The models in the authors' code, where F(y) is the output of a layer. Models named dense also have
# the code's history of layers.
RK2 = {"rk_order": 2, "rk_field": "released"}
RK4 = {"rk_order": 4, "rk_field": "released"}
DENSE = {"dense_history": True}
BIG = {
    "encoder_embed_dim": 1024,
    "encoder_ffn_embed_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "dropout": 0.3,
}
register_preset("ode_transformer", "ode_transformer_wmt_en_de", **RK2)
register_preset("ode_transformer", "ode_transformer_wmt_en_de_rk4", **RK4)
register_preset("ode_transformer", "ode_transformer_wmt_en_de_big", **RK2, **BIG)
register_preset("ode_transformer", "ode_transformer_wmt_en_de_big_rk4", **RK4, **BIG)
register_preset("ode_transformer", "ode_transformer_wmt_en_de_dense", **RK2, **DENSE)
register_preset("ode_transformer", "ode_transformer_wmt_en_de_dense_rk4", **RK4, **DENSE)
register_preset("ode_transformer", "ode_transformer_wmt_en_de_dense_big", **RK2, **BIG, **DENSE)
register_preset("ode_transformer", "ode_transformer_wmt_en_de_dense_big_rk4", **RK4, **BIG, **DENSE)


@dataclass
class ODETransformerLanguageModelConfig(BlockConfig, RungeKuttaLanguageModelConfig):
    """Options of the language model: a pre-norm Transformer's, and the Runge-Kutta method's."""


@register_model("ode_transformer_lm", dataclass=ODETransformerLanguageModelConfig)
class ODETransformerLanguageModel(ODEModel, LanguageModel):
    """Causal language model over Runge-Kutta blocks, for fairseq's ``language_modeling`` task."""

    decoder_class = ODELanguageModelDecoder


@dataclass
class ODETransformerClassifierConfig(BlockConfig, RungeKuttaClassifierConfig):
    """Options of the classifier: a pre-norm Transformer encoder's, and the Runge-Kutta method's."""


@register_model("ode_transformer_classifier", dataclass=ODETransformerClassifierConfig)
class ODETransformerClassifier(ODEModel, TransformerClassifier):
    """The ODE Transformer's encoder as a classifier."""

    encoder_class = ODETransformerEncoder
