"""Blocks of the N-ODE Transformer, which stand where fairseq's Transformer layers stand."""

import torch
from fairseq.incremental_decoding_utils import with_incremental_state
from torch import Tensor

from fairseq_odeformers.modules.block import Block

from .arclength import arclength
from .batch import Batch, KeyValueCache
from .field import TransformerField
from .layout import features_first, tokens_first
from .problem import Problem, Solution, Solver


class NodeBlock(Block):
    """Encoder block: X(T_F) from X(0), where X' is a function of t and X (paper, section 3).

    Args:
        field: X'. Its ``bind`` takes a :class:`Batch` and returns a function of t and X. For the
            adjoint method that function is a module, or a NamedTuple or another pytree of all
            tensors that X' depends on.
        solver: solves the ODE.
        final_time: T_F.
        arclength_order: K of :func:`arclength`.

    Attributes:
        name: names the block in messages.
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
            X(T_F) (T, B, C), and the solution. In training its integral is the arclength.
        """
        solution = self.solve(Batch(features_first(x), encoder_padding_mask))
        return tokens_first(solution.state).to(x), solution

    def solve(self, batch: Batch) -> Solution:
        """The solution from X(0), in single precision or better."""
        width, length, size = batch.x.shape
        lengths = batch.lengths()
        batch_name = f"a batch of {size} x {length} tokens after {self.num_updates:,} updates"
        with torch.autocast(batch.x.device.type, enabled=False):
            f = self.field.bind(batch)
            problem = Problem(
                f,
                batch.x,
                entries=width * lengths,
                final_time=self.final_time,
                integrand=arclength(f, self.arclength_order, lengths) if self.training else None,
                name=f"{self.name}, {batch_name}",
            )
            return self.solver(problem)

    def set_num_updates(self, num_updates: int) -> None:
        """fairseq calls this before each update."""
        self.num_updates = num_updates


@with_incremental_state
class NodeDecoderBlock(NodeBlock):
    """Decoder block.

    Its solver has a fixed grid, so that the trajectory of a token does not depend on later tokens.
    Incremental decoding is exact: at each time a new token attends to the keys and values that the
    tokens before it had at that time. They are saved for each evaluation of the field.
    """

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
            x: X(0) (T, B, C); in incremental decoding, of the newest token alone (1, B, C).
            encoder_out: the encoder's output (S, B, C).
            encoder_padding_mask: true where a source token is padding (B, S).
            self_attn_mask: given if the self-attention is causal; its values are not read.
            self_attn_padding_mask: true where a target token is padding (B, T).
            need_attn, need_head_weights: have no effect. A solve has other weights at each
                evaluation, and returns none.

        Returns:
            X(T_F) (T, B, C); None in place of attention weights; and the solution.
        """
        saved = self.get_incremental_state(incremental_state, "saved") or {}
        solution = self.solve(
            Batch(
                features_first(x),
                self_attn_padding_mask,
                encoder_out,
                encoder_padding_mask,
                causal=self_attn_mask is not None,
                cache=None if incremental_state is None else KeyValueCache(saved),
            )
        )
        self.set_incremental_state(incremental_state, "saved", saved)
        return tokens_first(solution.state).to(x), None, solution

    def reorder_incremental_state(self, incremental_state, new_order: Tensor):
        """Reorder the saved state as ``new_order``, an index of hypotheses, says."""
        saved = self.get_incremental_state(incremental_state, "saved")
        if saved is not None:
            saved = {name: tensor.index_select(-1, new_order) for name, tensor in saved.items()}
            self.set_incremental_state(incremental_state, "saved", saved)
