"""fairseq's Transformer encoder as a classifier, over layers of any class."""

from dataclasses import dataclass

from fairseq.tasks import FairseqTask
from fairseq.utils import get_available_activation_fns
from omegaconf import II, DictConfig

from fairseq_odeformers.options import option

from .sequence_classifier import SequenceClassifier, SequenceClassifierConfig
from .transformer import Encoder, drop_embeddings
from .transformer_options import EncoderConfig


@dataclass
class TransformerClassifierConfig(SequenceClassifierConfig, EncoderConfig):
    """Options of fairseq's encoder, with the sizes of TransEvolve's small model as defaults."""

    encoder_embed_dim: int = option(256, "width")
    encoder_ffn_embed_dim: int = option(1024, "inner width")
    embedding_dropout: float = option(II("model.dropout"), "dropout probability of embeddings")
    activation_fn: str = option(
        "relu", "activation function of FFNs", choices=tuple(get_available_activation_fns())
    )


class TransformerClassifier(SequenceClassifier):
    """A classifier over fairseq's Transformer encoder or your subclass, post-norm by default."""

    encoder_class = Encoder
    unsupported = {"quant_noise_scalar": "fairseq's classification tasks do not quantise"}

    @classmethod
    def build_model(cls, cfg: DictConfig, task: FairseqTask) -> "TransformerClassifier":
        model = super().build_model(cfg, task)
        drop_embeddings(cfg, model.encoder)
        return model
