"""Sizes of a Transformer, and the options that give them to any architecture."""

from collections.abc import Mapping
from typing import Any

from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_odeformers.options import SIDES
from fairseq_odeformers.registry import default_options, side_options, transformer_sizes

# Names of sizes that are the same for all architectures. The inner width (ffn) is a Transformer's;
# each of the two FFNs of a Macaron layer has half of it.
NEUTRAL = {
    "layers": "layers",
    "width": "embed_dim",
    "heads": "attention_heads",
    "ffn": "ffn_embed_dim",
}
SIZES = {  # the sizes for each value of --size
    "small": {"layers": 2, "width": 128, "heads": 4, "ffn": 512},
    "base": {"layers": 6, "width": 512, "heads": 8, "ffn": 2048},
}


def split_sizes(options: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, Any]]:
    """Split options into sizes, given by neutral names, and all other options.

    Raises:
        ValueError: a size is not a whole number, or ``size`` is not in :data:`SIZES`.
    """
    others = {name: value for name, value in options.items() if name not in (*NEUTRAL, "size")}
    name = options.get("size", "")
    if name and name not in SIZES:
        raise ValueError(f"--size {name}: choose from {', '.join(SIZES)}")
    sizes = {**SIZES.get(name, {}), **{key: options[key] for key in NEUTRAL if key in options}}
    for key, value in sizes.items():
        if not str(value).isdecimal() or not int(value):
            raise ValueError(f"--{key} {value}: give a whole number from 1")
    width, heads = int(sizes.get("width", 0)), int(sizes.get("heads", 1))
    if width % heads:
        raise ValueError(f"--heads {heads}: give a divisor of --width {width}")
    return {NEUTRAL[key]: int(value) for key, value in sizes.items()}, others


def size_options(
    arch: str, sizes: Mapping[str, int], chosen: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the options that give an architecture the sizes of a Transformer.

    The model's ``side_sizes`` determines the options of a side. An option of the decoder is not set
    if its default is the encoder's option. A size that is chosen only for the encoder applies to
    the decoder as well.

    Args:
        sizes: some of ``embed_dim``, ``ffn_embed_dim``, ``attention_heads`` and ``layers``.
        chosen: options with values other than their defaults; they keep these values.

    Raises:
        ValueError: the architecture cannot have these sizes.
    """
    chosen, defaults = dict(chosen or {}), default_options(arch)
    side_sizes = getattr(ARCH_MODEL_REGISTRY[arch], "side_sizes", transformer_sizes)
    options_of_sizes: dict[str, Any] = {}
    for side in SIDES:
        target = dict(sizes)
        if "embed_dim" in sizes and f"{side}_embed_dim" in chosen:
            target["embed_dim"] = int(chosen[f"{side}_embed_dim"])
        options = side_options({**defaults, **chosen}, side)
        for name, value in side_sizes(target, options).items():
            default = defaults.get(f"{side}_{name}")
            follows = side == "decoder" and str(default).startswith("${model.encoder")
            if f"{side}_{name}" in defaults and not follows:
                options_of_sizes[f"{side}_{name}"] = chosen.get(f"encoder_{name}", value)
    return {name: value for name, value in options_of_sizes.items() if name not in chosen}
