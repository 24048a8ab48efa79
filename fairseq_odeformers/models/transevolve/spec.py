"""The spec of a block of TransEvolve."""

from dataclasses import dataclass

from fairseq_odeformers.models.common.transformer import Spec

BACKENDS = ("auto", "direct", "factored", "fused")
INITIALIZATIONS = ("auto", "glorot", "transformer")

# The bias of a padded key; in float16, half of the lowest number. Padding never gets any weight,
# because the biases of real keys are above half of this bias. It is no lower because fused kernels
# recompute the softmax in the backward pass, where much larger scores would lose their fractions.
MASKED_BIAS = -1e6


@dataclass(frozen=True)
class BlockSpec(Spec):
    """The sizes and choices of a block; fields are named after their options.

    For the encoder, ``depth`` is the option ``encoder_depth``.
    """

    embed_dim: int  # d
    ffn_embed_dim: int  # d_ff
    attention_heads: int  # H
    depth: int  # L
    time_dim: int  # d'
    ffn_type: str = "full"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    attention_weights_dropout: float = 0.0
    activation_fn: str = "relu"
    activation_dropout: float = 0.0
    attention_backend: str = "auto"  # from BACKENDS, see TimeEvolvingAttention.evolve
    normalize_before: bool = False
    initialization: str = "auto"  # from INITIALIZATIONS
    self_attention_value_projection: bool = False
    cross_attention_value_norm: bool = False
    cross_attention_value_projection: bool = False

    @property
    def glorot(self) -> bool:
        """Whether W_o and fullFF are initialised as in the authors' code instead of fairseq.

        The authors' code initialises matrices by Glorot's uniform distribution and biases with
        zeros. fairseq initialises the projections of values (which an option adds here) and W_o
        with a gain of 1/sqrt(2), and feed-forward layers like torch's linear layers. With
        ``normalize_before``, ``auto`` follows fairseq.
        """
        if self.initialization == "auto":
            return not self.normalize_before
        return self.initialization == "glorot"
