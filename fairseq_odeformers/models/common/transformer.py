"""fairseq's Transformer encoder and decoder over custom layers, and the options of these layers."""

from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from fairseq.data import Dictionary
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerDecoderBase,
    TransformerEncoderBase,
)
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from omegaconf import DictConfig
from torch import nn

from fairseq_odeformers.modules.transformer_layer import DecoderLayer, EncoderLayer
from fairseq_odeformers.options import SIDES
from fairseq_odeformers.registry import side_options

from .depths import DecoderOfDepths, EncoderOfDepths

Config = DictConfig | TransformerConfig  # the options of a model, flat or nested as in fairseq
AnySpec = TypeVar("AnySpec", bound="Spec")


class Encoder(TransformerEncoderBase):
    """fairseq's Transformer encoder over layers of ``layer_class``.

    Layers are constructed from the result of :func:`stack_config` and, if the stack has a
    ``spec_class``, from a spec.
    """

    layer_class: Callable[..., nn.Module] = EncoderLayer
    spec_class: "type[Spec] | None" = None

    def __init__(self, cfg: Config, dictionary: Dictionary, embed_tokens: nn.Module):
        self.spec = make_spec(self.spec_class, cfg, "encoder")  # before the layers are built
        super().__init__(stack_config(cfg, **self.changes(cfg)), dictionary, embed_tokens)

    @staticmethod
    def changes(cfg: Any) -> dict[str, Any]:
        """Return the options with a different name or value in fairseq's config than in *cfg*."""
        return {}

    def build_encoder_layer(self, cfg: TransformerConfig) -> nn.Module:
        spec = filter(None, [self.spec])
        return wrap_layer(self.layer_class(cfg, *spec, return_fc=self.return_fc), cfg)


class Decoder(TransformerDecoderBase):
    """fairseq's Transformer decoder over layers of ``layer_class``; see :class:`Encoder`."""

    layer_class: Callable[..., nn.Module] = DecoderLayer
    spec_class: "type[Spec] | None" = None

    def __init__(
        self,
        cfg: Config,
        dictionary: Dictionary,
        embed_tokens: nn.Module,
        no_encoder_attn: bool = False,
    ):
        self.spec = make_spec(self.spec_class, cfg, "decoder")  # before the layers are built
        config = stack_config(cfg, **self.changes(cfg))
        super().__init__(config, dictionary, embed_tokens, no_encoder_attn)

    @staticmethod
    def changes(cfg: Any) -> dict[str, Any]:
        """Return the options with a different name or value in fairseq's config than in *cfg*."""
        return {}

    def build_decoder_layer(
        self, cfg: TransformerConfig, no_encoder_attn: bool = False
    ) -> nn.Module:
        spec = filter(None, [self.spec])
        return wrap_layer(self.layer_class(cfg, *spec, no_encoder_attn), cfg)


class BlockEncoder(EncoderOfDepths, Encoder):
    """fairseq's Transformer encoder over blocks of ``block_class``, each built from the spec."""

    block_class: Callable[[Any], nn.Module]

    def build_encoder_layer(self, cfg: TransformerConfig) -> nn.Module:
        return wrap_layer(build_block(self), cfg)


class BlockDecoder(DecoderOfDepths, Decoder):
    """fairseq's Transformer decoder over blocks of ``block_class``, each built from the spec."""

    block_class: Callable[[Any], nn.Module]

    def build_decoder_layer(
        self, cfg: TransformerConfig, no_encoder_attn: bool = False
    ) -> nn.Module:
        return wrap_layer(build_block(self), cfg)


def build_block(stack: BlockEncoder | BlockDecoder) -> nn.Module:
    """Build a block of a stack from its spec.

    Raises:
        TypeError: the class of the stack has no ``spec_class``.
    """
    if stack.spec is None:
        raise TypeError(f"{type(stack).__name__}: set spec_class; its blocks are built from a spec")
    return stack.block_class(stack.spec)


def wrap_layer(layer: nn.Module, cfg: TransformerConfig) -> nn.Module:
    """Wrap a layer for activation checkpointing and FSDP if the options ask for them."""
    checkpoint = cfg.checkpoint_activations or cfg.offload_activations
    if checkpoint:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    return fsdp_wrap(layer, min_num_params=0 if checkpoint else cfg.min_params_to_wrap)


def drop_embeddings(cfg: Config, *stacks: Any) -> None:
    """Apply ``--embedding-dropout`` to encoders and decoders that derive from fairseq's.

    fairseq uses ``--dropout`` for the embeddings as well as in the layers.
    """
    for stack in stacks:
        stack.dropout_module.p = cfg.embedding_dropout


def stack_config(cfg: Config, **changes: Any) -> TransformerConfig:
    """Make fairseq's config for an encoder or a decoder, with all options of a model.

    fairseq's layers are built from this config; other layers are built from a :class:`Spec` that
    the stack sets before it calls fairseq's constructor. Options unknown to fairseq become
    attributes of the config.

    Args:
        cfg: options of any model. Without *changes*, fairseq's config is returned unchanged.
        changes: options with a different name or value in fairseq than in the model.
    """
    if isinstance(cfg, TransformerConfig) and not changes:
        return cfg
    values = dict(cfg)  # in omegaconf 2.0, cfg.get refuses unknown names
    options = {"decoder_output_dim": values.get("decoder_embed_dim"), **values}
    if values.get("share_all_embeddings"):
        options["share_decoder_input_output_embed"] = True
    for side in SIDES:
        if layers := values.get(f"{side}_layers_to_keep"):
            options[f"{side}_layers"] = len(layers.split(","))
    return TransformerConfig.from_namespace(Namespace(**{**options, **changes}))


@dataclass(frozen=True)
class Spec:
    """Base class of the dataclasses from which layers are built: a model's options for one side.

    In an encoder, the field ``embed_dim`` is the option ``encoder_embed_dim``. If the option has no
    side, as ``time_dim``, the field is the same for both sides. An option that a derived model adds
    reaches the layers if a derived spec has a field with its name.
    """

    @classmethod
    def from_options(cls: type[AnySpec], cfg: Mapping[str, Any] | Config, side: str) -> AnySpec:
        """Make the spec of the ``encoder`` or the ``decoder`` from the options of a model.

        An option of the side takes precedence over an option with the name of the field. A field
        without an option keeps its default.
        """
        options = flat_options(cfg) if isinstance(cfg, TransformerConfig) else dict(cfg)
        values = {**options, **side_options(options, side)}
        return cls(**{f.name: values[f.name] for f in fields(cls) if f.name in values})


def make_spec(spec_class: type[Spec] | None, cfg: Config, side: str) -> Any:
    """Make the spec that a stack's layers need in addition to fairseq's config, or return None."""
    return None if spec_class is None else spec_class.from_options(cfg, side)


def flat_options(cfg: TransformerConfig) -> dict[str, Any]:
    """Flatten fairseq's config: options of a side get names such as ``encoder_layers``."""
    sides = {side: vars(getattr(cfg, side)) for side in SIDES}
    nested = {f"{side}_{name}": value for side in SIDES for name, value in sides[side].items()}
    return {**vars(cfg), **nested}
