"""The N-ODE Transformer as models of fairseq: a classifier, a translator, and their options."""

import math
from dataclasses import dataclass
from typing import Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import FairseqEncoderDecoderModel, register_model
from omegaconf import II

from fairseq_odeformers.models.common.parity_model import ParityModel, ParityModelConfig
from fairseq_odeformers.models.common.translation import (
    TranslationConfig,
    WithoutAlignment,
    build_embeddings,
)
from fairseq_odeformers.options import (
    DataclassOptions,
    at_least_one,
    check_layers,
    flag,
    option,
    refuse,
    side,
)

from .decoder import NodeTransformerDecoder
from .encoder import NodeTransformerEncoder
from .methods import ADAPTIVE, FIXED_GRID

Decomposition = ChoiceEnum(["composed", "residual"])


@dataclass
class NodeEncoderConfig(FairseqDataclass):
    """Options of the ODE and of its solver in the encoder; the defaults are the paper's."""

    ode_method: ChoiceEnum([*ADAPTIVE, *FIXED_GRID]) = option(
        "dopri5", f"solver: adaptive ({', '.join(ADAPTIVE)}), or on a fixed grid"
    )
    ode_rtol: float = option(1e-5, "relative tolerance of an adaptive solver")
    ode_atol: float = option(1e-5, "absolute tolerance of an adaptive solver")
    ode_steps: Optional[int] = option(None, "steps of a solver on a fixed grid")
    ode_final_time: float = option(1.0, "final time T_F")
    ode_max_steps: int = option(1000, "most steps of an adaptive solve, beyond which it stops")
    adaptivity: ChoiceEnum(["batch", "sequence"]) = option(
        "batch", "adaptive steps of the batch, or of each sequence"
    )
    adjoint: bool = option(
        False,
        "compute gradients of the encoder by the adjoint method: slower, in a memory "
        "that does not grow with the number of adaptive steps",
    )
    checkpoint_activations: bool = option(
        False,
        "compute the activations of a solve again in the backward pass, to save memory",
    )
    vector_field: Decomposition = option(
        "composed", "FFN(alpha X + MHSA(X)), or MHSA(X) + FFN(X + MHSA(X))"
    )
    skip_connection: bool = option(False, "alpha is 1 in the composed vector field")
    time_dependent_attention: bool = option(
        False, "give the affine maps of the attention a term c t, too"
    )
    encoder_normalize_before: bool = option(
        False,
        "apply layernorm before each part of the vector fields, of a decoder too, and "
        "after the last block",
    )
    arclength_order: int = option(
        1,
        "order of the derivative by time that the arclength integrates: 1, or 2 or 3, "
        "which take several times as long, with or without a weight",
    )
    tpu: bool = II("common.tpu")


@dataclass
class NodeTransformerConfig(NodeEncoderConfig, ParityModelConfig):
    """Options of the classifier; the defaults are the paper's parity model."""


@register_model("node_transformer", dataclass=NodeTransformerConfig)
class NodeTransformer(ParityModel):
    """The N-ODE Transformer as a classifier."""

    encoder_class = NodeTransformerEncoder

    @classmethod
    def check_config(cls, cfg):
        super().check_config(cfg)
        check_config(cfg, "encoder")


@dataclass
class NodeTransformerMTConfig(NodeEncoderConfig, TranslationConfig):
    """The sizes are those of a Transformer; vector field and normalisation are near to its own."""

    encoder_embed_dim: int = option(512, "encoder width d")
    encoder_ffn_embed_dim: int = option(2048, "encoder inner width")
    encoder_attention_heads: int = option(8, "encoder attention heads")
    encoder_layers: int = option(3, "number of blocks of the encoder")
    encoder_normalize_before: bool = option(
        True,
        "apply layernorm before each part of the vector fields, of a decoder too, and "
        "after the last block",
    )
    decoder_layers: int = option(II("model.encoder_layers"), "number of blocks of the decoder")
    decoder_ode_method: ChoiceEnum(list(FIXED_GRID)) = option(
        "rk4", "solver of the decoder, on a fixed grid"
    )
    decoder_ode_steps: int = option(1, "steps of the decoder's solver")
    vector_field: Decomposition = option(
        "residual", "FFN(alpha X + MHSA(X)), or MHSA(X) + FFN(X + MHSA(X))"
    )
    ode_rtol: float = option(1e-3, "relative tolerance of an adaptive solver")
    ode_atol: float = option(1e-3, "absolute tolerance of an adaptive solver")
    dropout: float = option(0.1, "dropout probability")
    no_token_positional_embeddings: bool = option(False, "leave out positional embeddings")


@register_model("node_transformer_mt", dataclass=NodeTransformerMTConfig)
class NodeTransformerMT(DataclassOptions, WithoutAlignment, FairseqEncoderDecoderModel):
    """Encoder-decoder over N-ODE blocks: the encoder adaptive, the decoder on a fixed grid."""

    @classmethod
    def build_model(cls, cfg, task):
        check_config(cfg, "encoder", "decoder")
        check_grid(cfg, "decoder_ode")
        encoder_embed, decoder_embed = build_embeddings(cfg, task, "leave the option out")
        return cls(
            NodeTransformerEncoder(cfg, task.source_dictionary, encoder_embed),
            NodeTransformerDecoder(cfg, task.target_dictionary, decoder_embed),
        )


def check_config(cfg, *sides: str) -> None:
    """Refuse what cannot be built or solved.

    Args:
        sides: those that the model has, ``encoder`` and ``decoder``.

    Raises:
        ValueError: it names the first such option, its value and the remedy.
    """
    check_layers(cfg, *sides)
    at_least_one(cfg, "ode_max_steps")
    for name in ("ode_rtol", "ode_atol", "ode_final_time"):
        if not 0 < cfg[name] < math.inf:
            raise ValueError(f"{flag(name)} {cfg[name]}: give a finite number above 0")
    if cfg.arclength_order not in (1, 2, 3):
        raise ValueError(f"--arclength-order {cfg.arclength_order}: give 1, 2 or 3")
    if cfg.vector_field == "residual":
        refuse(cfg, "--vector-field residual has all skip connections", "skip_connection")
    if cfg.ode_method in FIXED_GRID:
        check_grid(cfg, "ode")
        if cfg.adaptivity == "sequence":
            raise ValueError(
                f"--adaptivity sequence: --ode-method {cfg.ode_method} takes the same steps for "
                f"all; leave it out, or choose one of {', '.join(ADAPTIVE)}"
            )
    elif cfg.ode_steps is not None:
        raise ValueError(
            f"--ode-steps {cfg.ode_steps}: --ode-method {cfg.ode_method} chooses its steps; leave "
            f"it out, or choose one of {', '.join(FIXED_GRID)}"
        )
    elif cfg.tpu:
        raise ValueError(
            f"--ode-method {cfg.ode_method}: adaptive steps depend on the data, which XLA cannot "
            f"compile; choose one of {', '.join(FIXED_GRID)} with --ode-steps, or leave out --tpu"
        )
    if cfg.adjoint and cfg.adaptivity == "sequence":
        raise ValueError(
            "--adjoint: the backward solve is of the whole batch, and --adaptivity sequence asks "
            "for steps of each sequence; leave one of them out"
        )
    if cfg.adjoint and cfg.checkpoint_activations:
        raise ValueError(
            "--checkpoint-activations: --adjoint keeps no activations either; leave one of them out"
        )
    if cfg.adjoint and cfg.tpu:
        raise ValueError("--adjoint: torchdiffeq's solver does not compile with XLA; leave it out")


def check_grid(cfg, prefix: str) -> None:
    """Refuse a solver on a fixed grid without steps; *prefix* begins the names of its options."""
    method, steps = side(cfg, prefix).method, side(cfg, prefix).steps
    if steps is None or steps < 1:
        raise ValueError(
            f"{flag(prefix)}-steps {steps}: {flag(prefix)}-method {method} needs at least 1"
        )
