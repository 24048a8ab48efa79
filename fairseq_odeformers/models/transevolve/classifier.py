"""TransEvolve (Dutta et al. 2021) as a classifier: the paper's encoder-only models."""

from dataclasses import dataclass

from fairseq.models import register_model, register_model_architecture

from fairseq_odeformers.models.common.options import option
from fairseq_odeformers.models.common.sequence_classifier import (
    SequenceClassifier,
    SequenceClassifierConfig,
)

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


@register_model_architecture("transevolve_classifier", "transevolve_classifier_randomff_1")
def transevolve_classifier_randomff_1(args):
    translation.paper_encoder(args, "random", 1)


@register_model_architecture("transevolve_classifier", "transevolve_classifier_randomff_2")
def transevolve_classifier_randomff_2(args):
    translation.paper_encoder(args, "random", 2)


@register_model_architecture("transevolve_classifier", "transevolve_classifier_fullff_1")
def transevolve_classifier_fullff_1(args):
    translation.paper_encoder(args, "full", 1)


@register_model_architecture("transevolve_classifier", "transevolve_classifier_fullff_2")
def transevolve_classifier_fullff_2(args):
    translation.paper_encoder(args, "full", 2)


@register_model_architecture("transevolve_classifier", "transevolve_classifier_randomff_1_prenorm")
def transevolve_classifier_randomff_1_prenorm(args):
    translation.paper_encoder(args, "random", 1)
    translation.prenorm(args, "encoder")


@register_model_architecture("transevolve_classifier", "transevolve_classifier_randomff_2_prenorm")
def transevolve_classifier_randomff_2_prenorm(args):
    translation.paper_encoder(args, "random", 2)
    translation.prenorm(args, "encoder")


@register_model_architecture("transevolve_classifier", "transevolve_classifier_fullff_1_prenorm")
def transevolve_classifier_fullff_1_prenorm(args):
    translation.paper_encoder(args, "full", 1)
    translation.prenorm(args, "encoder")


@register_model_architecture("transevolve_classifier", "transevolve_classifier_fullff_2_prenorm")
def transevolve_classifier_fullff_2_prenorm(args):
    translation.paper_encoder(args, "full", 2)
    translation.prenorm(args, "encoder")
