"""The N-ODE Transformer (Baier-Reinio and De Sterck 2020) as an encoder and as a classifier."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig, TransformerEncoderBase
from fairseq.models.transformer.transformer_config import EncDecBaseConfig
from omegaconf import II
from torch import Tensor

from fairseq_odeformers.models.common.parity_model import ParityModel, ParityModelConfig
from fairseq_odeformers.modules.recording import Call, recorded
from fairseq_odeformers.options import (
    at_least_one,
    check_layers,
    flag,
    option,
    refuse,
    side,
)

from .adjoint import Adjoint
from .block import NodeBlock, Solver
from .field import TransformerField
from .methods import ADAPTIVE, FIXED_GRID
from .solver import Adaptive, Checkpointed, FixedGrid, NotFinite, TooManySteps

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


class NodeTransformerEncoder(TransformerEncoderBase):
    """fairseq's Transformer encoder over N-ODE blocks.

    Beside what fairseq's encoder returns there are ``regularizers``, in training the arclength, and
    ``statistics``, each a dictionary of values (B) a sequence.
    """

    def __init__(self, cfg, dictionary, embed_tokens):
        self.block_options = block_options(cfg, encoder_solver(cfg))
        self.field_options = field_options(cfg, "encoder")
        config = TransformerConfig(
            dropout=cfg.dropout,
            encoder=EncDecBaseConfig(
                embed_dim=cfg.encoder_embed_dim,
                layers=cfg.encoder_layers,
                normalize_before=cfg.encoder_normalize_before,
            ),
            max_source_positions=cfg.max_source_positions,
            no_token_positional_embeddings=cfg.no_token_positional_embeddings,
        )
        super().__init__(config, dictionary, embed_tokens)
        for index, block in enumerate(self.layers, 1):
            block.name = f"encoder block {index}"

    def build_encoder_layer(self, cfg):
        return NodeBlock(TransformerField(**self.field_options), **self.block_options)

    def forward(
        self, src_tokens, src_lengths=None, return_all_hiddens=False, token_embeddings=None
    ):
        """The states (T, B, C) at the end of the last block, of tokens (B, T), as fairseq has them.

        Raises:
            ValueError: a solver takes more than ``--ode-max-steps``, or a state is not finite.
        """
        with recorded(self.layers) as calls, remedies():
            out = super().forward(src_tokens, src_lengths, return_all_hiddens, token_embeddings)
        return {**out, **summary("encoder", calls)}


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


def encoder_solver(cfg) -> Solver:
    """The solver of the encoder's blocks."""
    method = str(cfg.ode_method)
    if method in FIXED_GRID:
        solver = FixedGrid(method, cfg.ode_steps)
    else:
        per_sequence = cfg.adaptivity == "sequence"
        solver = Adaptive(method, cfg.ode_rtol, cfg.ode_atol, cfg.ode_max_steps, per_sequence)
    return Adjoint(solver) if cfg.adjoint else checkpointed(solver, cfg)


def checkpointed(solver: Solver, cfg) -> Solver:
    """The solver, with activation checkpointing if ``cfg`` asks for it."""
    return Checkpointed(solver) if cfg.checkpoint_activations else solver


def block_options(cfg, solver: Solver) -> dict:
    """The arguments of a block beside its vector field."""
    return dict(solver=solver, final_time=cfg.ode_final_time, arclength_order=cfg.arclength_order)


def field_options(cfg, name: str) -> dict:
    """The arguments of the vector field of a block of the ``encoder`` or ``decoder``."""
    own = side(cfg, name)
    return dict(
        embed_dim=own.embed_dim,
        num_heads=own.attention_heads,
        ffn_embed_dim=own.ffn_embed_dim,
        residual=cfg.vector_field == "residual",
        skip_connection=cfg.skip_connection,
        time_dependent_attention=cfg.time_dependent_attention,
        layer_norm=cfg.encoder_normalize_before,
        dropout=cfg.dropout,
    )


@contextmanager
def remedies() -> Iterator[None]:
    """Say with which options a solve that does not come to its end may come to it."""
    try:
        yield
    except TooManySteps as error:
        raise RuntimeError(
            f"{error}; give more with --ode-max-steps, a larger --ode-rtol and --ode-atol, a "
            "smaller learning rate or, to keep trajectories simple, an --arclength-weight"
        ) from error
    except NotFinite as error:
        raise RuntimeError(f"{error}; give a smaller learning rate") from error


def summary(name: str, calls: list[Call]) -> dict[str, dict[str, Tensor]]:
    """The regularisers, in training, and the statistics of the calls of a side's blocks."""
    solutions = [call.output[-1] for call in calls]
    regularizers = {}
    if calls[0].module.training:
        regularizers["arclength"] = sum(solution.integral for solution in solutions)
    statistics = {
        f"{name}_{statistic}_{index}": value
        for index, solution in enumerate(solutions, 1)
        for statistic, value in solution.statistics.items()
    }
    return {"regularizers": regularizers, "statistics": statistics}


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
