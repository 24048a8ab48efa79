"""Encoder-decoder Macaron Net (Lu et al. 2019): fairseq's Transformer with Macaron layers."""

import logging
from dataclasses import dataclass

import torch
from fairseq.models import register_model, register_model_architecture
from omegaconf import II

from fairseq_odeformers.models.common.stacks import (
    Decoder,
    Encoder,
    PreNormTransformer,
    PreNormTransformerConfig,
)
from fairseq_odeformers.options import option, refuse, side

from .layer import MacaronDecoderLayer, MacaronEncoderLayer

logger = logging.getLogger(__name__)


@dataclass
class MacaronTransformerConfig(PreNormTransformerConfig):
    """Options of fairseq's Transformer; the defaults are the paper's base model."""

    attention_dropout: float = option(0.1, "dropout probability for attention weights")
    activation_dropout: float = option(
        0.1, "dropout probability after activation in both FFNs", argparse_alias="--relu-dropout"
    )
    encoder_ffn_embed_dim: int = option(
        1024, "inner width of each of the two FFNs of an encoder layer"
    )
    decoder_ffn_embed_dim: int = option(
        II("model.encoder_ffn_embed_dim"), "inner width of each of the two FFNs of a decoder layer"
    )


class MacaronEncoder(Encoder):
    """fairseq's Transformer encoder over Macaron layers."""

    layer_class = MacaronEncoderLayer


class MacaronDecoder(Decoder):
    """fairseq's Transformer decoder over Macaron layers."""

    layer_class = MacaronDecoderLayer

    def upgrade_state_dict_named(self, state_dict, name):
        # fairseq takes version 2 for one without final LayerNorm; the authors' code has it.
        if f"{name}.layer_norm.weight" in state_dict:
            state_dict[f"{name}.version"] = torch.Tensor([3])
        return super().upgrade_state_dict_named(state_dict, name)


@register_model("macaron_transformer", dataclass=MacaronTransformerConfig)
class MacaronTransformerModel(PreNormTransformer):
    """Encoder-decoder Macaron Net; ``--arch macaron_transformer`` is the paper's base model.

    ``fairseq-generate --path`` also reads checkpoints in the layout of the authors' code.
    """

    @classmethod
    def build_model(cls, cfg, task):
        check_config(cfg, "encoder", "decoder")
        return super().build_model(cfg, task)

    @classmethod
    def build_encoder(cls, cfg, src_dict, embed_tokens):
        return MacaronEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg, tgt_dict, embed_tokens):
        return MacaronDecoder(cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention)


def check_config(cfg, *sides: str):
    """Refuse what two FFNs cannot do, and warn, once, if they have not a Transformer's parameters.

    Args:
        sides: those that the model has, ``encoder`` and ``decoder``.

    Raises:
        ValueError: ``--quant-noise-scalar`` is given.
    """
    refuse(
        cfg,
        "fairseq cannot quantize the output layers of half-step FFNs to integers",
        "quant_noise_scalar",
    )
    for name in sides:
        width, inner_width = side(cfg, name).embed_dim, side(cfg, name).ffn_embed_dim
        if inner_width != 2 * width:
            logger.warning(
                f"--{name}-ffn-embed-dim {inner_width} is not twice the width {width}: a layer has "
                f"the parameters of a Transformer layer with inner width {2 * inner_width}, not "
                f"{4 * width}"
            )
            break


def paper_model(args, embed_dim, ffn_embed_dim, attention_heads):
    """A model of the paper's section 4.1, with the inner width of the authors' code."""
    args.encoder_embed_dim = getattr(args, "encoder_embed_dim", embed_dim)
    args.encoder_ffn_embed_dim = getattr(args, "encoder_ffn_embed_dim", ffn_embed_dim)
    for name in ("encoder_attention_heads", "decoder_attention_heads"):
        setattr(args, name, getattr(args, name, attention_heads))


# The second name of each preset is the one in the authors' checkpoints.
@register_model_architecture("macaron_transformer", "transformer_iwslt_de_en_macaron_v2")
@register_model_architecture("macaron_transformer", "macaron_transformer_iwslt_de_en")
def macaron_transformer_iwslt_de_en(args):
    paper_model(args, 512, 512, 4)


@register_model_architecture("macaron_transformer", "transformer_wmt_en_de_macaron_v2")
@register_model_architecture("macaron_transformer", "macaron_transformer_wmt_en_de")
def macaron_transformer_wmt_en_de(args):
    paper_model(args, 512, 1024, 8)


@register_model_architecture("macaron_transformer", "transformer_wmt_en_de_big_t2t_macaron")
@register_model_architecture("macaron_transformer", "macaron_transformer_wmt_en_de_big")
def macaron_transformer_wmt_en_de_big(args):
    args.dropout = getattr(args, "dropout", 0.3)
    paper_model(args, 1024, 2048, 16)
