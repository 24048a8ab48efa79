"""fairseq's Transformer encoder and decoder over layers of another class."""

from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerDecoderBase, TransformerEncoderBase
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase

from fairseq_odeformers.modules.encoder_layer import EncoderLayer


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
