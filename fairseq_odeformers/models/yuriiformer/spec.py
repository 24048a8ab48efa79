"""The options from which the layers of YuriiFormer and TMMFormer are built."""

from dataclasses import dataclass

from fairseq_odeformers.models.common.transformer import Spec


@dataclass(frozen=True)
class LayerSpec(Spec):
    """The steps of a layer; fields are named after their options, and stacks set ``first``."""

    velocity: str = "zero"
    nu: str = "fixed"
    first: bool = True  # whether no earlier layer passes its velocity on

    @property
    def from_rest(self) -> bool:
        """Whether the velocity before the layer is 0."""
        return self.first and self.velocity == "zero"
