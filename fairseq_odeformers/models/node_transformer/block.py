"""Blocks of the N-ODE Transformer, in the place of fairseq's Transformer layers."""

from __future__ import annotations

from typing import Union

import torch
from fairseq.incremental_decoding_utils import with_incremental_state
from torch import Tensor

from fairseq_odeformers.modules.block import Block

from .adjoint import Adjoint
from .arclength import arclength
from .attention import Memory
from .field import Field, TransformerDecoderField, TransformerField
from .layout import features_first, padding_bias, tokens_first
from .solver import Adaptive, Checkpointed, FixedGrid, Problem, Solution

Solver = Union[FixedGrid, Adaptive, Adjoint, Checkpointed]


class NodeBlock(Block):
    """Encoder block: X(T_F) of X(0), where X' is a field of X and t (paper, section 3).

    Args:
        field: X'. Its ``of_batch`` returns a function of t and X; for the adjoint method, one that
            is a module, or a NamedTuple or another pytree of all tensors that X' depends on.
        solver: of the ODE.
        final_time: T_F.
        arclength_order: K of :func:`arclength`.

    Attributes:
        name: of the block, in messages.
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
        self.num_updates = 0

    def forward(
        self, x: Tensor, encoder_padding_mask: Tensor | None = None
    ) -> tuple[Tensor, Solution]:
        """
        Args:
            x: X(0) (T, B, C), 0 where padding is.
            encoder_padding_mask: true where a token is padding (B, T).

        Returns:
            X(T_F) (T, B, C), and the solution, whose integral in training is the arclength.
        """
        start = features_first(x)
        with torch.autocast(x.device.type, enabled=False):
            f = self.field.of_batch(start, encoder_padding_mask)
            solution = self.solve(f, start, encoder_padding_mask)
        return tokens_first(solution.state).to(x), solution

    def solve(self, f: Field, x: Tensor, padding_mask: Tensor | None) -> Solution:
        """The solution from X(0) (C, T, B)."""
        width, length, batch = x.shape
        if padding_mask is None:
            tokens = torch.full((batch,), length, device=x.device)
        else:
            tokens = (~padding_mask).sum(1)
        batch_name = f"a batch of {batch} x {length} tokens after {self.num_updates:,} updates"
        problem = Problem(
            f,
            x,
            entries=width * tokens,
            final_time=self.final_time,
            integrand=arclength(f, self.arclength_order, tokens) if self.training else None,
            name=f"{self.name}, {batch_name}",
        )
        return self.solver(problem)

    def set_num_updates(self, num_updates: int) -> None:
        """Called by fairseq."""
        self.num_updates = num_updates


@with_incremental_state
class NodeDecoderBlock(NodeBlock):
    """Decoder block.

    Its solver has a fixed grid, so that a token's trajectory does not depend on later tokens, and
    incremental decoding is exact: a new token attends to the keys and values that the tokens before
    had at the same times, which are saved for each evaluation of the field.
    """

    field: TransformerDecoderField

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor,
        encoder_padding_mask: Tensor | None = None,
        incremental_state: dict[str, dict[str, Tensor | None]] | None = None,
        self_attn_mask: Tensor | None = None,
        self_attn_padding_mask: Tensor | None = None,
        need_attn: bool = False,
        need_head_weights: bool = False,
    ):
        """
        Args:
            x: X(0) (T, B, C); the newest token alone (1, B, C) in incremental decoding.
            encoder_out: encoder output (S, B, C).
            encoder_padding_mask: true where a source token is padding (B, S).
            self_attn_mask: given if the self-attention is causal; its values are not read.
            self_attn_padding_mask: true where a target token is padding (B, T).
            need_attn, need_head_weights: fairseq asks for the weights of the last layer; here there
                are as many as evaluations, and none are returned.

        Returns:
            X(T_F) (T, B, C); None in the place of attention weights; and the solution.
        """
        start = features_first(x)
        saved = self.get_incremental_state(incremental_state, "saved") or {}
        with torch.autocast(x.device.type, enabled=False):
            if "source" not in saved:
                saved["source"] = self.field.encoder_attn.source(encoder_out)
            memory = None
            if incremental_state is not None:
                newest = padding_bias(self_attn_padding_mask, start)
                if newest is None:
                    newest = start.new_zeros(1, 1, start.size(-1))
                memory = Memory(saved, newest)
            f = self.field.of_batch(
                start,
                self_attn_padding_mask,
                saved["source"],
                encoder_padding_mask,
                causal=self_attn_mask is not None,
                memory=memory,
            )
            solution = self.solve(f, start, self_attn_padding_mask)
        self.set_incremental_state(incremental_state, "saved", saved)
        return tokens_first(solution.state).to(x), None, solution

    def reorder_incremental_state(self, incremental_state, new_order: Tensor):
        """Put the saved state into the order of ``new_order``, an index of hypotheses."""
        saved = self.get_incremental_state(incremental_state, "saved")
        if saved is not None:
            saved = {name: tensor.index_select(-1, new_order) for name, tensor in saved.items()}
            self.set_incremental_state(incremental_state, "saved", saved)
