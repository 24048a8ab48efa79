"""What the two models of the N-ODE Transformer's paper share (Baier-Reinio and De Sterck 2020)."""

from dataclasses import dataclass, field
from typing import Optional

from omegaconf import II, OmegaConf

from .sequence_classifier import Pooling, SequenceClassifier, SequenceClassifierConfig


@dataclass
class ParityModelConfig(SequenceClassifierConfig):
    """The defaults are those of the model that tells the parity of a binary string (section 4)."""

    encoder_embed_dim: int = field(default=8, metadata={"help": "width d"})
    encoder_ffn_embed_dim: int = field(
        default=II("model.encoder_embed_dim"), metadata={"help": "inner width"}
    )
    encoder_attention_heads: Optional[int] = field(
        default=None, metadata={"help": "number of attention heads (default: d/2)"}
    )
    encoder_layers: int = field(default=2, metadata={"help": "number of layers, or of ODE blocks"})
    dropout: float = field(default=0.0, metadata={"help": "dropout probability"})
    no_token_positional_embeddings: bool = field(
        default=True, metadata={"help": "leave out positional embeddings"}
    )
    pooling: Pooling = field(
        default="first", metadata={"help": "what stands for a text: mean, max or first token"}
    )
    pooled_layer_norm: bool = field(
        default=False, metadata={"help": "apply layernorm to the pooled states"}
    )
    classifier_hidden_layers: int = field(
        default=2, metadata={"help": "number of ReLU layers before the last layer"}
    )


class ParityModel(SequenceClassifier):
    """A classifier with as many attention heads as the width has pairs, if not told otherwise."""

    @classmethod
    def build_model(cls, cfg, task):
        if cfg.encoder_attention_heads is None:
            heads = max(cfg.encoder_embed_dim // 2, 1)
            cfg = OmegaConf.create({**cfg, "encoder_attention_heads": heads})
        return super().build_model(cfg, task)
