"""The base of both models in the N-ODE Transformer paper (Baier-Reinio and De Sterck 2020)."""

from dataclasses import dataclass
from typing import Optional

from fairseq.tasks import FairseqTask
from omegaconf import II, DictConfig, OmegaConf

from fairseq_odeformers.modules.classification_head import POOLING
from fairseq_odeformers.options import option

from .sequence_classifier import SequenceClassifier, SequenceClassifierConfig


@dataclass
class ParityModelConfig(SequenceClassifierConfig):
    """Options of a classifier; the defaults are the paper's model for parity (section 4)."""

    encoder_embed_dim: int = option(8, "width")
    encoder_ffn_embed_dim: int = option(II("model.encoder_embed_dim"), "inner width")
    encoder_attention_heads: Optional[int] = option(
        None, "number of attention heads (default: half of --encoder-embed-dim)"
    )
    encoder_layers: int = option(2, "number of layers or ODE blocks")
    dropout: float = option(0.0, "dropout probability")
    no_token_positional_embeddings: bool = option(True, "omit positional embeddings")
    pooling: str = option(
        "first",
        "pooling over the tokens of a text: mean, max, or first (the state of the first token)",
        choices=tuple(POOLING),
    )
    pooled_layer_norm: bool = option(False, "apply LayerNorm to the pooled states")
    classifier_hidden_layers: int = option(
        2,
        "number of ReLU layers before the last layer of the classification head",
        at_least=0,
        at_most=1000,
    )


class ParityModel(SequenceClassifier):
    """A classifier with, by default, ``encoder_embed_dim // 2`` attention heads."""

    @classmethod
    def build_model(cls, cfg: DictConfig, task: FairseqTask) -> "ParityModel":
        if cfg.encoder_attention_heads is None:
            heads = max(cfg.encoder_embed_dim // 2, 1)
            cfg = OmegaConf.create({**cfg, "encoder_attention_heads": heads})
        return super().build_model(cfg, task)
