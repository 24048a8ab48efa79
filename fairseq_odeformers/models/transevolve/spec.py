"""The sizes of a block of TransEvolve, as its options give them and its depths take them."""

from dataclasses import dataclass

from fairseq_odeformers.options import side

BACKENDS = ("auto", "direct", "factored", "fused")
INITIALIZATIONS = ("glorot", "transformer")


@dataclass(frozen=True)
class BlockSpec:
    """Sizes and choices of a block.

    Attributes:
        embed_dim, ffn_embed_dim: width d of the states, and inner width d_ff.
        num_heads: number of heads H.
        depth: depth L.
        time_dim: width d' of the time map; even.
        ffn_type: ``full`` or ``random``.
        dropout: dropout probability of the residual branches.
        attention_dropout: dropout probability of queries and keys.
        attention_backend: one of :data:`BACKENDS`, see :meth:`.TimeEvolvingAttention.evolve`.
        normalize_before: whether LayerNorm comes before queries and keys, not after the block.
        initialization: start of W_o and of fullFF. ``glorot`` is the released code's: uniform
            matrices by Glorot, zero biases. ``transformer`` is fairseq's: W_o has a gain of
            1/sqrt(2), which fairseq gives to values (they have no projection here), and the
            feed-forward layers start as torch's.

    Raises:
        ValueError: the widths d and d' and the heads do not fit together.
    """

    embed_dim: int
    ffn_embed_dim: int
    num_heads: int
    depth: int
    time_dim: int
    ffn_type: str = "full"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    attention_backend: str = "auto"
    normalize_before: bool = False
    initialization: str = "glorot"

    def __post_init__(self):
        check_attention_sizes(self.embed_dim, self.num_heads, self.time_dim)

    @classmethod
    def from_config(cls, cfg, name: str) -> "BlockSpec":
        """The blocks of the ``encoder`` or the ``decoder``."""
        own = side(cfg, name)
        initialization = cfg.initialization
        if initialization == "auto":
            initialization = "transformer" if own.normalize_before else "glorot"
        return cls(
            embed_dim=own.embed_dim,
            ffn_embed_dim=own.ffn_embed_dim,
            num_heads=own.attention_heads,
            depth=own.depth,
            time_dim=cfg.time_dim,
            ffn_type=cfg.ffn_type,
            dropout=cfg.dropout,
            attention_dropout=cfg.attention_dropout,
            attention_backend=cfg.attention_backend,
            normalize_before=own.normalize_before,
            initialization=initialization,
        )


def check_attention_sizes(embed_dim: int, num_heads: int, time_dim: int):
    """Raise a ValueError if the widths d and d' and the heads do not fit together."""
    if num_heads < 1:
        raise ValueError(f"{num_heads} heads: give at least 1")
    if time_dim < 2 or time_dim % 2:
        raise ValueError(
            f"time_dim {time_dim} is not a positive even number, which the sine-cosine pairs of "
            "the time map need"
        )
    for name, size in (("embed_dim", embed_dim), ("time_dim", time_dim)):
        if size < 1 or size % num_heads:
            raise ValueError(f"{name} {size} is not divisible by {num_heads} heads")
