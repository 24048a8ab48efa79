"""The spec of the layers of YuriiFormer and TMMFormer."""

from dataclasses import dataclass

from fairseq_odeformers.models.common.transformer import Spec


@dataclass(frozen=True)
class LayerSpec(Spec):
    """The steps of a layer: the options of these names.

    ``velocity`` is where the stack's velocity starts, ``zero`` or ``embedding``, and for layers
    after its first ``layer``.
    """

    embed_dim: int  # C
    velocity: str = "zero"
    nu: str = "fixed"
