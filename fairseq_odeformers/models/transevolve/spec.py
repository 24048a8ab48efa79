"""The sizes of a block of TransEvolve, as its options give them and its depths take them."""

from dataclasses import dataclass, fields

from omegaconf import DictConfig

from fairseq_odeformers.options import side

BACKENDS = ("auto", "direct", "factored", "fused")
INITIALIZATIONS = ("glorot", "transformer")


@dataclass(frozen=True)
class BlockSpec:
    """Sizes and choices of a block: the options of these names, with their meaning.

    With the initialization ``glorot`` W_o and fullFF start as in the released code: uniform
    matrices by Glorot, zero biases. With ``transformer`` they start as fairseq's: W_o has a gain of
    1/sqrt(2), which fairseq gives to values (they have no projection here unless an option asks for
    it), and fullFF starts as torch's linear layers do.
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
    initialization: str = "glorot"
    self_attention_value_projection: bool = False
    cross_attention_value_norm: bool = False
    cross_attention_value_projection: bool = False

    @classmethod
    def from_config(cls, cfg: DictConfig, name: str) -> "BlockSpec":
        """The blocks of the ``encoder`` or the ``decoder``, by the options of a model."""
        options = {**cfg, **vars(side(cfg, name))}
        if options["initialization"] == "auto":
            options["initialization"] = "transformer" if options["normalize_before"] else "glorot"
        names = (item.name for item in fields(cls) if item.name in options)
        return cls(**{name: options[name] for name in names})
