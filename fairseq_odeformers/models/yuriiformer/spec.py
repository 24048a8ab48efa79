"""The spec of the layers of YuriiFormer and TMMFormer."""

from dataclasses import dataclass

from fairseq_odeformers.models.common.transformer import Spec


@dataclass(frozen=True)
class LayerSpec(Spec):
    """The steps of a layer; fields are named after their options.

    ``velocity`` is the start of the velocity: ``zero`` or ``embedding`` in the first layer of a
    stack, and ``layer`` in later ones.
    """

    embed_dim: int  # C
    velocity: str = "zero"
    nu: str = "fixed"
