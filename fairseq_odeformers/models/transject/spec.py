"""What the layers of TransJect are built from."""

from dataclasses import dataclass

from fairseq_odeformers.models.common.transformer import Spec


@dataclass(frozen=True)
class LayerSpec(Spec):
    """Sizes and choices of the layers: the options of these names, with their meaning.

    The residual gate ``tanh`` is the released code's, ``sigmoid`` is in the paper's text. Both keep
    alpha below 1. With ``tanh`` it starts at 0 and may become negative, with ``sigmoid`` it starts
    at 1/2.
    """

    embed_dim: int  # C
    layers: int  # L
    experts: int  # E
    residual_gate: str = "tanh"
