"""fairseq's Transformer: its stacks over other layers, its options, and the model with pre-norm."""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field, fields, make_dataclass
from inspect import isclass
from typing import Any, Optional

from fairseq.data import Dictionary
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
from fairseq.tasks import FairseqTask
from omegaconf import II, DictConfig
from torch import nn

from fairseq_odeformers.models.common.model import BaseModel
from fairseq_odeformers.modules.encoder_layer import EncoderLayer
from fairseq_odeformers.options import option

Options = DictConfig | TransformerConfig  # of a model, or in fairseq's form

# --- stacks of layers ------------------------------------------------------


class Encoder(TransformerEncoderBase):
    """fairseq's encoder over layers of ``layer_class``, which takes the :func:`stack_config`."""

    layer_class: Callable[..., nn.Module] = EncoderLayer

    def __init__(self, cfg: Options, dictionary: Dictionary, embed_tokens: nn.Module):
        super().__init__(stack_config(cfg), dictionary, embed_tokens)

    def build_encoder_layer(self, cfg: TransformerConfig) -> nn.Module:
        return wrap_layer(self.layer_class(cfg, return_fc=self.return_fc), cfg)


class Decoder(TransformerDecoderBase):
    """fairseq's decoder over layers of ``layer_class``, which takes the :func:`stack_config`."""

    layer_class: Callable[..., nn.Module] = TransformerDecoderLayerBase

    def __init__(
        self,
        cfg: Options,
        dictionary: Dictionary,
        embed_tokens: nn.Module,
        no_encoder_attn: bool = False,
    ):
        super().__init__(stack_config(cfg), dictionary, embed_tokens, no_encoder_attn)

    def build_decoder_layer(
        self, cfg: TransformerConfig, no_encoder_attn: bool = False
    ) -> nn.Module:
        return wrap_layer(self.layer_class(cfg, no_encoder_attn), cfg)


def wrap_layer(layer: nn.Module, cfg: TransformerConfig) -> nn.Module:
    """Activation checkpointing and FSDP, as ``cfg`` asks for them."""
    checkpoint = cfg.checkpoint_activations or cfg.offload_activations
    if checkpoint:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    return fsdp_wrap(layer, min_num_params=0 if checkpoint else cfg.min_params_to_wrap)


def stack_config(cfg: Options, **changes: Any) -> TransformerConfig:
    """fairseq's config, from which it builds an encoder or a decoder, with all options of a model.

    It is what fairseq's layers are built from, as a ``Spec`` is for others. An option that fairseq
    does not have is an attribute of its name, so it reaches the layers, too.

    Args:
        cfg: the options of any model; fairseq's config itself is returned as it is.
        changes: options of fairseq's that the model has by other names or with other values, and
            further attributes, such as the ``spec`` of other layers than fairseq's.
    """
    if isinstance(cfg, TransformerConfig):
        return cfg
    values = dict(cfg)  # whose get takes any name, in omegaconf 2.0, too
    options = {"decoder_output_dim": values.get("decoder_embed_dim"), **values}
    if values.get("share_all_embeddings"):
        options["share_decoder_input_output_embed"] = True
    for side in ("encoder", "decoder"):
        if kept := values.get(f"{side}_layers_to_keep"):
            options[f"{side}_layers"] = len(kept.split(","))
    return TransformerConfig.from_namespace(Namespace(**{**options, **changes}))


# --- options ---------------------------------------------------------------


def flat_fields(config: type, prefix: str = "") -> list[tuple[str, Any, Any]]:
    """The fields of a config, and of those nested in it with their place as prefix of the name.

    fairseq's command line knows nested options by such names, but does not fill nested configs.

    Returns:
        Name, type and field of each, as ``make_dataclass`` takes them.
    """
    flat = []
    for item in fields(config):
        if isclass(item.type) and issubclass(item.type, FairseqDataclass):
            flat += flat_fields(item.type, f"{prefix}{item.name}_")
        elif not item.name.startswith("_"):
            default = item.default
            if isinstance(default, str):  # an interpolation may name a nested field
                default = default.replace("model.decoder.", "model.decoder_")
            copy = field(default=default, metadata=item.metadata)
            pruned = item.name == "layers_to_keep"  # fairseq splits 0,2,4 where it makes the layers
            flat.append((prefix + item.name, Optional[str] if pruned else item.type, copy))
    return flat


TransformerOptions = make_dataclass(
    "TransformerOptions", flat_fields(TransformerConfig), bases=(FairseqDataclass,)
)

ENCODER_OPTIONS = (
    "encoder_",
    "quant_noise_",
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "layernorm_embedding",
    "no_token_positional_embeddings",
    "checkpoint_activations",
    "offload_activations",
    "min_params_to_wrap",
)

EncoderConfig = make_dataclass(
    "EncoderConfig",
    [
        item
        for item in flat_fields(TransformerConfig)
        if item[0].startswith(ENCODER_OPTIONS) and item[0] != "encoder_embed_path"
    ],
    bases=(FairseqDataclass,),
)


# --- the model with pre-norm -----------------------------------------------


@dataclass
class PreNormTransformerConfig(TransformerOptions):
    """Options of fairseq's Transformer, with LayerNorm before each sub-layer."""

    encoder_normalize_before: bool = option(True, "apply layernorm before each encoder block")
    decoder_embed_dim: int = option(II("model.encoder_embed_dim"), "decoder embedding dimension")
    decoder_ffn_embed_dim: int = option(
        II("model.encoder_ffn_embed_dim"), "decoder embedding dimension for FFN"
    )
    decoder_normalize_before: bool = option(True, "apply layernorm before each decoder block")
    embedding_dropout: float = option(II("model.dropout"), "dropout probability of embeddings")


class PreNormTransformer(BaseModel, TransformerModelBase):
    """fairseq's Transformer with the options of :class:`PreNormTransformerConfig`.

    A subclass may name an ``encoder_class`` and a ``decoder_class`` that derive from fairseq's.
    """

    encoder_class: type[TransformerEncoderBase] = TransformerEncoderBase
    decoder_class: type[TransformerDecoderBase] = TransformerDecoderBase

    @classmethod
    def build_model(cls, cfg: DictConfig, task: FairseqTask) -> "PreNormTransformer":
        cls.check_config(cfg)
        model = super().build_model(stack_config(cfg), task)
        for stack in (model.encoder, model.decoder):
            stack.dropout_module.p = cfg.embedding_dropout  # fairseq's is --dropout
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
