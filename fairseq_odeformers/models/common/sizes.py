"""The options of an architecture for a width, an inner width, a number of heads and of layers."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
)

from fairseq_odeformers.options import SIDES, hyphenate

from .model import BaseModel
from .transformer import side_options

# Names that are the same for all architectures. The inner width is a Transformer's: the halves of a
# Macaron Net's feed-forward network have half of it each.
NEUTRAL = {
    "layers": "layers",
    "width": "embed_dim",
    "heads": "attention_heads",
    "ffn": "ffn_embed_dim",
}
SIZES = {  # by the names of --size
    "small": {"layers": 2, "width": 128, "heads": 4, "ffn": 512},
    "base": {"layers": 6, "width": 512, "heads": 8, "ffn": 2048},
}


def model_parser(arch: str) -> ArgumentParser:
    """A parser of the options of an architecture alone."""
    parser = ArgumentParser(allow_abbrev=False, add_help=False)
    ARCH_MODEL_REGISTRY[arch].add_args(parser)
    return parser


def option_names(arch: str) -> dict[str, str]:
    """The names of the options of an architecture, by how they may be typed after ``--``.

    A switch that is on by default is typed ``no-...``; some options can be typed in two ways.
    """
    return {
        hyphenate(typed[2:]): action.dest
        for action in model_parser(arch)._actions
        for typed in action.option_strings
    }


def default_options(arch: str) -> dict[str, Any]:
    """All options of an architecture, by their names, with its defaults; None where it has none.

    A default that follows another option is an interpolation, such as
    ``${model.encoder_embed_dim}``.
    """
    preset = Namespace()
    ARCH_CONFIG_REGISTRY[arch](preset)
    config = MODEL_DATACLASS_REGISTRY.get(ARCH_MODEL_NAME_REGISTRY[arch])
    defaults = {**(vars(config()) if config else {}), **vars(preset)}
    return {name: defaults.get(name) for name in option_names(arch).values()}


def split_sizes(options: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, Any]]:
    """The sizes that options give by neutral names, and all other options.

    Raises:
        ValueError: a size is no whole number, or has no such name.
    """
    others = {name: value for name, value in options.items() if name not in (*NEUTRAL, "size")}
    name = options.get("size", "")
    if name and name not in SIZES:
        raise ValueError(f"--size {name}: choose from {', '.join(SIZES)}")
    named = {**SIZES.get(name, {}), **{key: options[key] for key in NEUTRAL if key in options}}
    for key, value in named.items():
        if not str(value).isdecimal() or not int(value):
            raise ValueError(f"--{key} {value}: give a whole number from 1")
    width, heads = int(named.get("width", 0)), int(named.get("heads", 1))
    if width % heads:
        raise ValueError(f"--heads {heads}: give a divisor of --width {width}")
    return {NEUTRAL[key]: int(value) for key, value in named.items()}, others


def size_options(
    arch: str, sizes: Mapping[str, int], chosen: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The options that give an architecture the sizes of a Transformer.

    The model's ``side_sizes`` says which options of a side these are. Where a decoder's option
    follows the encoder's by default, it is not set. Where a size is chosen for the encoder alone,
    the decoder takes it as well.

    Args:
        sizes: some of ``embed_dim``, ``ffn_embed_dim``, ``attention_heads`` and ``layers``.
        chosen: options that have other values than their defaults, and keep them.

    Raises:
        ValueError: the architecture cannot have these sizes.
    """
    chosen, defaults = dict(chosen or {}), default_options(arch)
    side_sizes = getattr(ARCH_MODEL_REGISTRY[arch], "side_sizes", BaseModel.side_sizes)
    options_of_sizes: dict[str, Any] = {}
    for side in SIDES:
        wanted = dict(sizes)
        if "embed_dim" in sizes and f"{side}_embed_dim" in chosen:
            wanted["embed_dim"] = int(chosen[f"{side}_embed_dim"])
        options = side_options({**defaults, **chosen}, side)
        for name, value in side_sizes(wanted, options).items():
            default = defaults.get(f"{side}_{name}")
            follows = side == "decoder" and str(default).startswith("${model.encoder")
            if f"{side}_{name}" in defaults and not follows:
                options_of_sizes[f"{side}_{name}"] = chosen.get(f"encoder_{name}", value)
    return {name: value for name, value in options_of_sizes.items() if name not in chosen}
