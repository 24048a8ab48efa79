"""The Macaron Net (Lu et al. 2019) as a classifier."""

from dataclasses import dataclass

from fairseq.models import register_model

from fairseq_odeformers.models.common.transformer_classifier import (
    TransformerClassifier,
    TransformerClassifierConfig,
)
from fairseq_odeformers.options import option

from . import translation


@dataclass
class MacaronClassifierConfig(TransformerClassifierConfig):
    """Options of fairseq's encoder; the defaults have the size of ``transformer_classifier``."""

    encoder_ffn_embed_dim: int = option(512, "inner width of each of the two FFNs of a layer")
    encoder_normalize_before: bool = option(True, "apply layernorm before each block")


@register_model("macaron_classifier", dataclass=MacaronClassifierConfig)
class MacaronClassifier(TransformerClassifier):
    """The Macaron Net's encoder as a classifier."""

    encoder_class = translation.MacaronEncoder

    @classmethod
    def check_config(cls, cfg):
        super().check_config(cfg)
        translation.check_config(cfg, "encoder")
