"""The registered models over the modern layer: translator, classifier, language model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerDecoderBase,
    TransformerEncoderBase,
)
from omegaconf import II, DictConfig
from torch import nn

from fairseq_odeformers.models.common.language_model import DecoderOnlyConfig, DecoderOnlyModel
from fairseq_odeformers.models.common.model import BaseModel
from fairseq_odeformers.models.common.sequence_classifier import (
    SequenceClassifier,
    SequenceClassifierConfig,
)
from fairseq_odeformers.models.common.transformer import stack_config, wrap_layer
from fairseq_odeformers.models.common.translation import TranslationConfig, TranslationModel
from fairseq_odeformers.options import SIDES, option
from fairseq_odeformers.registry import Family

from .modern import ModernDecoderLayer, ModernEncoderLayer, ModernSpec, RMSNorm, gated_width

INNER_WIDTH = "inner width of the SwiGLU (default: 8/3 of the width, rounded up to a multiple of 8)"

# --- stacks ----------------------------------------------------------------


def modern_config(cfg: DictConfig) -> TransformerConfig:
    """Make fairseq's config without absolute positions, and with dropout only of embeddings."""
    return stack_config(cfg, no_token_positional_embeddings=True, dropout=cfg.embedding_dropout)


class ModernEncoder(TransformerEncoderBase):
    """fairseq's encoder over the modern layers, with an RMSNorm at the end."""

    def __init__(self, cfg: DictConfig, dictionary: Dictionary, embed_tokens: nn.Embedding):
        self.spec = ModernSpec.from_options(cfg, "encoder")  # before the layers are built
        super().__init__(modern_config(cfg), dictionary, embed_tokens)
        self.layer_norm = RMSNorm(self.spec.embed_dim)

    def build_encoder_layer(self, cfg: TransformerConfig) -> nn.Module:
        return wrap_layer(ModernEncoderLayer(self.spec), cfg)


class ModernDecoder(TransformerDecoderBase):
    """fairseq's decoder over the modern layers, with an RMSNorm at the end."""

    no_encoder_attn = False

    def __init__(self, cfg: DictConfig, dictionary: Dictionary, embed_tokens: nn.Embedding):
        self.spec = ModernSpec.from_options(cfg, "decoder")  # before the layers are built
        super().__init__(modern_config(cfg), dictionary, embed_tokens, self.no_encoder_attn)
        self.layer_norm = RMSNorm(self.spec.embed_dim)

    def build_decoder_layer(
        self, cfg: TransformerConfig, no_encoder_attn: bool = False
    ) -> nn.Module:
        return wrap_layer(ModernDecoderLayer(self.spec, no_encoder_attn), cfg)


class ModernCausalDecoder(ModernDecoder):
    """The decoder of a language model, without an encoder."""

    no_encoder_attn = True


# --- models ----------------------------------------------------------------


@dataclass
class ModernConfig(FairseqDataclass):
    """Options that the encoder and the decoder share."""

    dropout: float = option(0.1, "dropout probability of sub-layers")
    embedding_dropout: float = option(II("model.dropout"), "dropout probability of embeddings")
    attention_dropout: float = option(0.0, "dropout probability of attention weights")
    activation_dropout: float = option(0.0, "dropout probability of the inner features of SwiGLU")
    checkpoint_activations: bool = option(
        False, "recompute the activations of layers in the backward pass to save memory"
    )


@dataclass
class ModernEncoderConfig(ModernConfig):
    """Options of the encoder; the defaults have the size of the base Transformer."""

    encoder_embed_dim: int = option(512, "encoder width")
    encoder_ffn_embed_dim: Optional[int] = option(None, INNER_WIDTH, at_least=1, at_most=65_536)
    encoder_attention_heads: int = option(8, "number of attention heads in the encoder")
    encoder_layers: int = option(6, "number of encoder layers")


MODERN = Family("modern Transformer", color="black")


class ModernModel(BaseModel):
    """Mixin for the models, with a check of the heads and the sizes of a Transformer."""

    @classmethod
    def check_config(cls, cfg: DictConfig) -> None:
        """Check the options, and that heads have an even width, for the rotation of pairs."""
        super().check_config(cfg)
        for side in SIDES:
            names = (f"{side}_embed_dim", f"{side}_attention_heads")
            width, heads = (getattr(cfg, name, None) for name in names)
            if width and heads and width // heads % 2:
                raise ValueError(
                    f"--{side}-attention-heads {heads}: rotary positions rotate pairs of features, "
                    f"but heads have {width // heads}; give a divisor of --{side}-embed-dim "
                    f"{width} so that heads have an even number"
                )

    @classmethod
    def side_sizes(cls, sizes: Mapping[str, int], options: Mapping[str, Any]) -> dict[str, int]:
        """Extend :meth:`.BaseModel.side_sizes`: SwiGLU has three matrices, and an FFN two."""
        values = super().side_sizes(sizes, options)
        if "ffn_embed_dim" in values:
            values["ffn_embed_dim"] = gated_width(values["ffn_embed_dim"])
        return values


@dataclass
class ModernTransformerConfig(TranslationConfig, ModernEncoderConfig):
    """Options of encoder and decoder; both have the same width."""

    decoder_ffn_embed_dim: Optional[int] = option(
        II("model.encoder_ffn_embed_dim"),
        "inner width of the decoder's FFN",
        at_least=1,
        at_most=65_536,
    )
    decoder_layers: int = option(II("model.encoder_layers"), "number of decoder layers")


@register_model("transformer_modern", dataclass=ModernTransformerConfig)
class ModernTransformer(ModernModel, TranslationModel):
    """The modern Transformer for translation; cross-attention has no positions."""

    family = MODERN
    encoder_class = ModernEncoder
    decoder_class = ModernDecoder


@dataclass
class ModernClassifierConfig(SequenceClassifierConfig, ModernEncoderConfig):
    """Options of the classifier; the defaults have the size of ``transformer_classifier``."""

    encoder_embed_dim: int = option(256, "encoder width")


@register_model("transformer_classifier_modern", dataclass=ModernClassifierConfig)
class ModernClassifier(ModernModel, SequenceClassifier):
    """The modern Transformer's encoder as a classifier."""

    family = MODERN
    encoder_class = ModernEncoder


@dataclass
class ModernLanguageModelConfig(DecoderOnlyConfig, ModernConfig):
    """Options of the language model; the defaults have the size of fairseq's Transformer LM."""

    decoder_ffn_embed_dim: Optional[int] = option(None, INNER_WIDTH, at_least=1, at_most=65_536)
    decoder_layers: int = option(6, "number of layers")


@register_model("transformer_lm_modern", dataclass=ModernLanguageModelConfig)
class ModernLanguageModel(ModernModel, DecoderOnlyModel):
    """The modern Transformer LM, as in Llama, with as many key heads as query heads."""

    family = MODERN
    decoder_class = ModernCausalDecoder
