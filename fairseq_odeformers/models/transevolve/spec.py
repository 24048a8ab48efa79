"""The spec of a block of TransEvolve."""

from dataclasses import dataclass

from fairseq_odeformers.models.common.transformer import Spec

BACKENDS = ("auto", "direct", "factored", "fused")
INITIALIZATIONS = ("auto", "glorot", "transformer")

# The bias of a padded key, in float16 half of the lowest number. Padding never gets any weight,
# because real keys have biases above half of this one. It is no lower because fused kernels
# recompute the softmax in the backward pass, where scores of much larger size would lose their
# fractions.
MASKED_BIAS = -1e6


@dataclass(frozen=True)
class BlockSpec(Spec):
    """Sizes and choices of a block; :meth:`.Spec.from_options` fills fields by name of the options.

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
        """Whether W_o and fullFF are initialised as in the released code instead of fairseq.

        The released code has Glorot-uniform matrices and zero biases. fairseq initialises values
        and W_o with a gain of 1/sqrt(2) (here, values only have a projection if an option asks for
        it), and feed-forward layers like torch's linear layers. With ``normalize_before``, ``auto``
        follows fairseq.
        """
        if self.initialization == "auto":
            return not self.normalize_before
        return self.initialization == "glorot"
