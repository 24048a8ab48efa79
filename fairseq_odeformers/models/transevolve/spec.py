"""The sizes of a block of TransEvolve, as its options give them and its depths take them."""

from dataclasses import dataclass, fields

from fairseq_odeformers.options import side

BACKENDS = ("auto", "direct", "factored", "fused")
INITIALIZATIONS = ("glorot", "transformer")


@dataclass(frozen=True)
class BlockSpec:
    """Sizes and choices of a block, by the names of their options.

    Attributes:
        embed_dim, ffn_embed_dim: width d of the states, and inner width d_ff.
        attention_heads: number of heads H, which divides d and d'.
        depth: depth L.
        time_dim: width d' of the time map; even.
        ffn_type: ``full`` or ``random``.
        dropout: dropout probability of the residual branches.
        attention_dropout: dropout probability of queries and keys.
        attention_weights_dropout: dropout probability of A^l.
        activation_fn: fairseq's name of the function in the feed-forward layers.
        activation_dropout: dropout probability after it.
        attention_backend: one of :data:`BACKENDS`, see :meth:`.TimeEvolvingAttention.evolve`.
        normalize_before: whether LayerNorm comes before queries and keys, not after the block.
        initialization: start of W_o and of fullFF. ``glorot`` is the released code's: uniform
            matrices by Glorot, zero biases. ``transformer`` is fairseq's: W_o has a gain of
            1/sqrt(2), which fairseq gives to values (they have no projection here), and the
            feed-forward layers start as torch's.
        cross_attention_value_norm, cross_attention_value_projection: whether each depth of a
            decoder normalises and projects the encoder output, the values of its attention to it.
    """

    embed_dim: int
    ffn_embed_dim: int
    attention_heads: int
    depth: int
    time_dim: int
    ffn_type: str = "full"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    attention_weights_dropout: float = 0.0
    activation_fn: str = "relu"
    activation_dropout: float = 0.0
    attention_backend: str = "auto"
    normalize_before: bool = False
    initialization: str = "glorot"
    cross_attention_value_norm: bool = False
    cross_attention_value_projection: bool = False

    @classmethod
    def from_config(cls, cfg, name: str) -> "BlockSpec":
        """The blocks of the ``encoder`` or the ``decoder``."""
        options = {**cfg, **vars(side(cfg, name))}
        if options["initialization"] == "auto":
            options["initialization"] = "transformer" if options["normalize_before"] else "glorot"
        names = (item.name for item in fields(cls) if item.name in options)
        return cls(**{name: options[name] for name in names})
