"""What a block of TransEvolve is built from."""

from dataclasses import dataclass

from fairseq_odeformers.models.common.transformer import Spec

BACKENDS = ("auto", "direct", "factored", "fused")
INITIALIZATIONS = ("auto", "glorot", "transformer")

# The bias of a padded key; in float16 half of the lowest number. Real keys have biases above half
# of it, so that padding never gets a weight. It is no lower because fused kernels, which compute
# the softmax again in the backward pass, lose the fractions of scores that are much larger.
MASKED_BIAS = -1e6


@dataclass(frozen=True)
class BlockSpec(Spec):
    """Sizes and choices of a block; :meth:`.Spec.from_options` fills a field by the option's name.

    ``depth`` of the encoder is the option ``encoder_depth``.
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
    attention_backend: str = "auto"  # one of BACKENDS, see TimeEvolvingAttention.evolve
    normalize_before: bool = False
    initialization: str = "auto"  # one of INITIALIZATIONS
    self_attention_value_projection: bool = False
    cross_attention_value_norm: bool = False
    cross_attention_value_projection: bool = False

    @property
    def glorot(self) -> bool:
        """Whether W_o and fullFF start as in the released code, rather than as fairseq's.

        The released code has uniform matrices by Glorot and zero biases. fairseq gives values and
        W_o a gain of 1/sqrt(2) (values have no projection here unless an option asks for it), and
        its feed-forward layers start as torch's linear layers do. ``auto`` takes fairseq's start
        with ``normalize_before``.
        """
        if self.initialization == "auto":
            return not self.normalize_before
        return self.initialization == "glorot"
