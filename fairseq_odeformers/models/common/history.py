"""fairseq's encoders and decoders with a history of their layers (``modules/layer_history.py``)."""

from fairseq.models.transformer import TransformerDecoderBase, TransformerEncoderBase
from torch import nn

from fairseq_odeformers.modules.layer_history import LayerHistory
from fairseq_odeformers.options import SIDES, flag


def keep_history(
    stack: TransformerEncoderBase | TransformerDecoderBase,
    history_class: type[LayerHistory] = LayerHistory,
) -> None:
    """Make one block with a history of the layers of a stack that has just been built."""
    embed_dim = stack.layers[0].embed_dim
    stack.layers = nn.ModuleList([history_class(nn.ModuleList(stack.layers), embed_dim)])
    stack.num_layers = 1


def check_history(cfg) -> None:
    """Raise a ValueError that names an option which layers with a history do not have."""
    for side in SIDES:
        for name in (f"{side}_layerdrop", f"{side}_layers_to_keep"):
            if value := getattr(cfg, name, None):
                raise ValueError(
                    f"{flag(name)} {value}: a history has a weight for each layer; leave it out"
                )
        if getattr(cfg, f"{side}_normalize_before", True) is False:
            raise ValueError(
                f"--no-{side}-normalize-before: a history normalises what its layers return; "
                "leave it out"
            )
