"""fairseq's Transformer with LayerNorm before, and its stacks over layers of another class."""

from argparse import Namespace
from dataclasses import dataclass, make_dataclass

from fairseq.dataclass import FairseqDataclass
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerDecoderBase,
    TransformerEncoderBase,
    TransformerModelBase,
)
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from omegaconf import II

from fairseq_odeformers.modules.encoder_layer import EncoderLayer
from fairseq_odeformers.options import (
    DataclassOptions,
    check_layers,
    drop_embeddings,
    embedding_dropout,
    flat_fields,
    option,
)


class Encoder(TransformerEncoderBase):
    """fairseq's encoder over layers of ``layer_class``, which takes fairseq's config."""

    layer_class = EncoderLayer

    def build_encoder_layer(self, cfg):
        return wrap_layer(self.layer_class(cfg, return_fc=self.return_fc), cfg)


class Decoder(TransformerDecoderBase):
    """fairseq's decoder over layers of ``layer_class``, which takes fairseq's config."""

    layer_class = TransformerDecoderLayerBase

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        return wrap_layer(self.layer_class(cfg, no_encoder_attn), cfg)


def wrap_layer(layer, cfg):
    """Activation checkpointing and FSDP, as ``cfg`` asks for them."""
    checkpoint = cfg.checkpoint_activations or cfg.offload_activations
    if checkpoint:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    return fsdp_wrap(layer, min_num_params=0 if checkpoint else cfg.min_params_to_wrap)


@dataclass
class PreNormTransformerConfig(
    make_dataclass("Flat", flat_fields(TransformerConfig), bases=(FairseqDataclass,))
):
    """Options of fairseq's Transformer, with LayerNorm before each sub-layer."""

    encoder_normalize_before: bool = option(True, "apply layernorm before each encoder block")
    decoder_embed_dim: int = option(II("model.encoder_embed_dim"), "decoder embedding dimension")
    decoder_ffn_embed_dim: int = option(
        II("model.encoder_ffn_embed_dim"), "decoder embedding dimension for FFN"
    )
    decoder_normalize_before: bool = option(True, "apply layernorm before each decoder block")
    embedding_dropout: float = embedding_dropout()


class PreNormTransformer(DataclassOptions, TransformerModelBase):
    """fairseq's Transformer with the options of :class:`PreNormTransformerConfig`."""

    @classmethod
    def build_model(cls, cfg, task):
        check_layers(cfg, "encoder", "decoder")
        model = super().build_model(TransformerConfig.from_namespace(Namespace(**cfg)), task)
        drop_embeddings(cfg, model.encoder, model.decoder)
        return model
