"""TransEvolve (Dutta et al. 2021) as a classifier: the paper's encoder-only models."""

from dataclasses import dataclass

from fairseq.models import register_model

from fairseq_odeformers.models.common.sequence_classifier import (
    SequenceClassifier,
    SequenceClassifierConfig,
)
from fairseq_odeformers.options import option

from . import translation


@dataclass
class TransEvolveClassifierConfig(SequenceClassifierConfig, translation.TransEvolveEncoderConfig):
    """The defaults are the paper's small model, fullFF-2 (section 7.1)."""

    encoder_embed_dim: int = option(256, "encoder width d")
    encoder_ffn_embed_dim: int = option(1024, "encoder inner width")


@register_model("transevolve_classifier", dataclass=TransEvolveClassifierConfig)
class TransEvolveClassifier(SequenceClassifier):
    """TransEvolve's encoder as a classifier; the architectures are the paper's four variants."""

    encoder_class = translation.TransEvolveEncoder

    @classmethod
    def check_config(cls, cfg):
        super().check_config(cfg)
        translation.check_config(cfg, "encoder")


translation.register_variants("transevolve_classifier", "encoder")
