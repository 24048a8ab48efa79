"""fairseq's nested Transformer options as flat dataclasses, the bases of the models' options."""

from dataclasses import field, fields, make_dataclass
from inspect import isclass
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.models.transformer import TransformerConfig


def flat_fields(config: type, prefix: str = "") -> list[tuple[str, Any, Any]]:
    """List the fields of a config and of nested configs, with names such as ``encoder_layers``.

    fairseq's command line uses such names for nested options, but does not fill nested configs.

    Returns:
        The name, type and ``dataclasses.field`` of each, as ``make_dataclass`` accepts them.
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
            pruned = item.name == "layers_to_keep"  # fairseq splits 0,2,4 when it builds the layers
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
