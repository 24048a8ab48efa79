"""Blocks of the N-ODE Transformer, in place of fairseq's Transformer layers."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from fairseq_odeformers.models.common.answers import AttentionMaps
from fairseq_odeformers.models.common.recording import Call
from fairseq_odeformers.modules.incremental import Incremental, IncrementalState
from fairseq_odeformers.modules.tableaus import FIXED_GRID
from fairseq_odeformers.modules.transformer_layer import Block

from .attention import KeyValueCache
from .field import TransformerField
from .layout import features_first, tokens_first
from .problem import Problem, Solution, Solver, arclength
from .solver import FixedGrid


class NodeBlock(Block):
    """Encoder block that solves an ODE from X(0) to X(T_F), as in the N-ODE Transformer.

    Args:
        field: module of dX/dt. Its ``bind`` has the arguments of :meth:`.TransformerField.bind` and
            returns dX/dt as a function of t and X. For the adjoint method, this function must be a
            module, or a NamedTuple or another pytree of all tensors that dX/dt depends on.
        solver: solver of the ODE.
        final_time: the time T_F at which a solve ends.
        arclength_order: order K of the derivative in :func:`.arclength`.

    Attributes:
        name: name of the block in messages, set by the stack.
    """

    def __init__(
        self,
        field: TransformerField,
        solver: Solver,
        final_time: float = 1.0,
        arclength_order: int = 1,
    ):
        super().__init__()
        self.field = field
        self.solver = solver
        self.final_time = final_time
        self.arclength_order = arclength_order
        self.name = "block"

    def forward(
        self, x: Tensor, encoder_padding_mask: Tensor | None = None
    ) -> tuple[Tensor, Solution]:
        """Solve from X(0) to X(T_F).

        Args:
            x: X(0) (T, B, C), 0 at padding.
            encoder_padding_mask: true where a token is padding (B, T).

        Returns:
            X(T_F) (T, B, C), and the solution. In training, its integral is the arclength.
        """
        solution = self.solve(features_first(x), encoder_padding_mask)
        return tokens_first(solution.state).to(x), solution

    def solve(self, x: Tensor, padding_mask: Tensor | None, **batch: Any) -> Solution:
        """Solve from X(0) = x (C, T, B), in float32 or better.

        Args:
            padding_mask: true where a token is padding (B, T), or None.
            batch: additional arguments of the field's ``bind``.
        """
        width, length, size = x.shape
        if padding_mask is None:
            lengths = torch.full((size,), length, device=x.device)
        else:
            lengths = (~padding_mask).sum(1)
        with torch.autocast(x.device.type, enabled=False):
            f = self.field.bind(x, padding_mask, **batch)
            problem = Problem(
                f,
                x,
                entries=width * lengths,
                final_time=self.final_time,
                integrand=arclength(f, self.arclength_order, lengths) if self.training else None,
                name=f"{self.name}, a batch of {size} x {length} tokens",
            )
            return self.solver(problem)

    def attention_maps(
        self, x: Tensor, encoder_padding_mask: Tensor | None = None
    ) -> Iterator[AttentionMaps]:
        """Yield the maps at t = 0 and at T_F, for the initial and the final state of the block.

        Between these times, the map changes continuously. The block solves its ODE once more.
        """
        return self._maps(x, self(x, encoder_padding_mask)[0], encoder_padding_mask)

    def _maps(
        self, x: Tensor, end: Tensor, padding_mask: Tensor | None, **batch: Any
    ) -> Iterator[AttentionMaps]:
        """Yield the maps for X(0) and X(T_F) (T, B, C), with arguments *batch* of ``bind``."""
        states = features_first(x), features_first(end)
        f = self.field.bind(states[0], padding_mask, **batch)
        times = 0.0, float(self.final_time)
        ends = zip(*(f.attention_maps(t, state) for t, state in zip(times, states)))
        for cross, maps in enumerate(ends):
            yield AttentionMaps(torch.stack(maps), bool(cross), first=0)

    def for_export(self) -> "NodeBlock":
        """Return the block itself.

        Raises:
            ValueError: the solver is adaptive, and its steps depend on the data.
        """
        if not isinstance(self.solver, FixedGrid):
            raise ValueError(
                "adaptive steps depend on the data, but a program must not; use a solver on a "
                "fixed grid, such as --model-overrides \"{'ode_method': 'rk4', 'ode_steps': 8}\" "
                f"(or {', '.join(FIXED_GRID)})"
            )
        return self


class NodeDecoderBlock(Incremental, NodeBlock):
    """Decoder block, with or without an encoder's output to attend to.

    Its solver has a fixed grid, so that the trajectory of a token does not depend on later tokens.
    Incremental decoding is exact: at each time, a new token attends to the keys and values of
    earlier tokens at that time. They are saved for each evaluation of the field.
    """

    batch_dim = -1

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState = None,
        self_attn_mask: Tensor | None = None,
        self_attn_padding_mask: Tensor | None = None,
        need_attn: bool = False,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, None, Solution]:
        """Solve from X(0) to X(T_F), with the keys and values of earlier tokens and a source.

        Args:
            x: X(0) (T, B, C); in incremental decoding, only the newest token (1, B, C).
            encoder_out: the encoder's output (S, B, C); None in a language model.
            encoder_padding_mask: true where a source token is padding (B, S).
            self_attn_mask: any tensor if the self-attention is causal; its values are not read.
            self_attn_padding_mask: true where a target token is padding (B, T).
            need_attn, need_head_weights: ignored, since the weights differ between evaluations.

        Returns:
            X(T_F) (T, B, C); None in place of attention weights; and the solution.
        """
        saved = self.saved(incremental_state)
        solution = self.solve(
            features_first(x),
            self_attn_padding_mask,
            source=encoder_out,
            source_padding_mask=encoder_padding_mask,
            causal=self_attn_mask is not None,
            cache=None if incremental_state is None else KeyValueCache(saved),
        )
        self.save(incremental_state, saved)
        return tokens_first(solution.state).to(x), None, solution

    def attention_maps(
        self,
        x: Tensor,
        encoder_out: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState = None,
        self_attn_mask: Tensor | None = None,
        self_attn_padding_mask: Tensor | None = None,
        **unused: bool,
    ) -> Iterator[AttentionMaps]:
        """Yield the maps at t = 0 and at T_F of self-attention, then of cross-attention."""
        source = encoder_out, encoder_padding_mask
        masks = {
            "self_attn_mask": self_attn_mask,
            "self_attn_padding_mask": self_attn_padding_mask,
        }
        return self._maps(
            x,
            self(x, *source, **masks)[0],
            self_attn_padding_mask,
            source=encoder_out,
            source_padding_mask=encoder_padding_mask,
            causal=self_attn_mask is not None,
        )


def summary(side: str, calls: list[Call]) -> dict[str, dict[str, Tensor]]:
    """Return the regularisers (in training) and the statistics of the ``encoder`` or ``decoder``.

    Each is a dictionary of values (B), one per sequence. The arclength is the sum over the blocks.

    Args:
        calls: recorded calls of the blocks, since fairseq's stack drops the solutions.
    """
    solutions = [call.output[-1] for call in calls]
    regularizers = {}
    if calls[0].module.training:
        regularizers["arclength"] = sum(solution.integral for solution in solutions)
    statistics = {
        f"{side}_{name}_{index}": value
        for index, solution in enumerate(solutions, 1)
        for name, value in solution.statistics.items()
    }
    return {"regularizers": regularizers, "statistics": statistics}
