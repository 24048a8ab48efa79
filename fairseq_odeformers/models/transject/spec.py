"""The options from which the layers of TransJect are built."""

from dataclasses import dataclass

from fairseq_odeformers.models.common.transformer import Spec


@dataclass(frozen=True)
class LayerSpec(Spec):
    """The sizes and choices of the layers; fields are named after their options.

    The residual gate ``tanh`` comes from the authors' code, and ``sigmoid`` from the paper's text.
    Both keep alpha below 1. With ``tanh``, alpha starts at 0 and may become negative; with
    ``sigmoid``, it starts at 1/2.
    """

    embed_dim: int  # C
    layers: int  # L
    experts: int  # E
    residual_gate: str = "tanh"
