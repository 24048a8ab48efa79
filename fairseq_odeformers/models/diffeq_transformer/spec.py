"""The spec of a block of DiffEqFormer."""

from dataclasses import dataclass

from fairseq_odeformers.models.common.transformer import Spec

FEATURES = ("harmonic", "released")
INITIALIZATIONS = ("transformer", "released")


@dataclass(frozen=True)
class BlockSpec(Spec):
    """The sizes and choices that all steps share; fields are named after their options."""

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
        """The number of steps; in evaluation, it may differ from the number in training."""
        return self.eval_steps or self.steps

    @property
    def time_width(self) -> int:
        """E; without the option, G and W_0 together are as large as the weights of L layers.

        With a single step, E is 1, and G and W_0 are as large as the weights of two layers, because
        there would be no biases without e(t).
        """
        return self.time_embed_dim or max(self.steps - 1, 1)
