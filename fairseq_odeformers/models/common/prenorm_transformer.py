"""fairseq's Transformer with LayerNorm before each sub-layer: a baseline and a base class."""

from dataclasses import dataclass

from fairseq.data import Dictionary
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerDecoderBase,
    TransformerEncoderBase,
    TransformerModelBase,
)
from fairseq.tasks import FairseqTask
from omegaconf import II, DictConfig
from torch import nn

from fairseq_odeformers.options import option

from .transformer import drop_embeddings, stack_config
from .transformer_options import TransformerOptions
from .translation import Translator


@dataclass
class PreNormTransformerConfig(TransformerOptions):
    """Options of fairseq's Transformer, with LayerNorm before each sub-layer."""

    encoder_normalize_before: bool = option(True, "apply LayerNorm before each encoder sub-layer")
    decoder_embed_dim: int = option(II("model.encoder_embed_dim"), "decoder embedding dimension")
    decoder_ffn_embed_dim: int = option(
        II("model.encoder_ffn_embed_dim"), "inner width of the decoder's FFN"
    )
    decoder_normalize_before: bool = option(True, "apply LayerNorm before each decoder sub-layer")
    embedding_dropout: float = option(II("model.dropout"), "dropout probability of embeddings")


class PreNormTransformer(Translator, TransformerModelBase):
    """A translator: fairseq's Transformer over your encoder and decoder, pre-norm by default.

    :class:`PreNormTransformerConfig` declares its options. A subclass may set ``encoder_class`` and
    ``decoder_class`` to classes that derive from fairseq's. fairseq's ``build_model`` builds the
    embeddings and calls :meth:`build_encoder` and :meth:`build_decoder`.
    """

    encoder_class: type[TransformerEncoderBase] = TransformerEncoderBase
    decoder_class: type[TransformerDecoderBase] = TransformerDecoderBase

    @classmethod
    def build_model(cls, cfg: DictConfig, task: FairseqTask) -> "PreNormTransformer":
        cls.check_options(cfg, task)
        model = super().build_model(stack_config(cfg), task)
        drop_embeddings(cfg, model.encoder, model.decoder)
        return model

    @classmethod
    def build_encoder(
        cls, cfg: TransformerConfig, src_dict: Dictionary, embed_tokens: nn.Embedding
    ) -> TransformerEncoderBase:
        return cls.encoder_class(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(
        cls, cfg: TransformerConfig, tgt_dict: Dictionary, embed_tokens: nn.Embedding
    ) -> TransformerDecoderBase:
        no_encoder_attn = cfg.no_cross_attention
        return cls.decoder_class(cfg, tgt_dict, embed_tokens, no_encoder_attn=no_encoder_attn)
