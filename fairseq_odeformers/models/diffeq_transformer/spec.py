"""The spec of a block of DiffEqFormer."""

from dataclasses import dataclass

from fairseq_odeformers.models.common.transformer import Spec

FEATURES = ("harmonic", "released")
INITIALIZATIONS = ("transformer", "released")


@dataclass(frozen=True)
class BlockSpec(Spec):
    """The sizes and choices of all steps; fields are named after their options."""

    embed_dim: int  # C
    ffn_embed_dim: int
    attention_heads: int  # H
    steps: int  # L
    time_embed_dim: int | None = None  # E
    time_features: str = "harmonic"  # one of FEATURES
    time_frequencies: int = 4  # S
    initialization: str = "transformer"  # one of INITIALIZATIONS
    eval_steps: int | None = None
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    activation_fn: str = "relu"
    checkpoint_activations: bool = False

    @property
    def steps_taken(self) -> int:
        """The number of steps, which may differ from the training's."""
        return self.eval_steps or self.steps

    @property
    def time_width(self) -> int:
        """E. Without the option, F and c together are as large as the weights of L layers.

        With a single step, they are as large as two layers: without e(t), there would be no biases.
        """
        return self.time_embed_dim or max(self.steps - 1, 1)
