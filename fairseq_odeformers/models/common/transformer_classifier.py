"""fairseq's Transformer encoder as a classifier, over layers of any class."""

from argparse import Namespace
from dataclasses import dataclass

from fairseq.models.transformer import TransformerConfig
from fairseq.tasks import FairseqTask

from fairseq_odeformers.options import option

from .sequence_classifier import SequenceClassifier, SequenceClassifierConfig
from .transformer import Encoder, EncoderConfig, drop_embeddings, embedding_dropout


@dataclass
class TransformerClassifierConfig(SequenceClassifierConfig, EncoderConfig):
    """Options of fairseq's encoder; the defaults have the size of the small TransEvolve."""

    encoder_embed_dim: int = option(256, "width d")
    encoder_ffn_embed_dim: int = option(1024, "inner width")
    embedding_dropout: float = embedding_dropout()


class TransformerClassifier(SequenceClassifier):
    """A classifier over fairseq's Transformer encoder, or over one that derives from it."""

    encoder_class = Encoder
    unsupported = {"quant_noise_scalar": "fairseq's tasks of classification do not quantize"}

    @classmethod
    def build_model(
        cls, cfg: TransformerClassifierConfig, task: FairseqTask
    ) -> "TransformerClassifier":
        model = super().build_model(cfg, task)
        drop_embeddings(cfg, model.encoder)
        return model

    @classmethod
    def encoder_config(cls, cfg: TransformerClassifierConfig) -> TransformerConfig:
        args = Namespace(**cfg)
        if args.encoder_layers_to_keep:
            args.encoder_layers = len(args.encoder_layers_to_keep.split(","))
        return TransformerConfig.from_namespace(args)
