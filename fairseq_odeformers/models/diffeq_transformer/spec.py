"""The options of an encoder's or a decoder's block."""

from dataclasses import dataclass

from fairseq_odeformers.models.common.transformer import Spec

FEATURES = ("harmonic", "released")
INITIALIZATIONS = ("transformer", "released")


@dataclass(frozen=True)
class BlockSpec(Spec):
    """Sizes and choices of all steps: the options of these names."""

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
        """The number of steps. It may differ from the training's."""
        return self.eval_steps or self.steps

    @property
    def time_width(self) -> int:
        """E. Without the option, F and c together are as large as the weights of L layers.

        Those of a single step are as large as two: without e(t), it would have no biases.
        """
        return self.time_embed_dim or max(self.steps - 1, 1)
