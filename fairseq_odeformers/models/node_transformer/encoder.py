"""The encoder of the N-ODE Transformer."""

from fairseq.models.transformer import TransformerEncoderBase
from torch import Tensor

from fairseq_odeformers.models.common.transformer import stack_config
from fairseq_odeformers.modules.recording import Call, recorded

from .adjoint import Adjoint
from .block import NodeBlock
from .field import FieldSpec, TransformerField
from .methods import FIXED_GRID
from .problem import Solver
from .solver import Adaptive, FixedGrid, checkpointed


class NodeTransformerEncoder(TransformerEncoderBase):
    """fairseq's Transformer encoder over N-ODE blocks.

    It returns what fairseq's encoder returns, and the dictionaries ``regularizers``, which has the
    arclength in training, and ``statistics`` of values (B) a sequence.
    """

    def __init__(self, cfg, dictionary, embed_tokens):
        super().__init__(stack_config(cfg), dictionary, embed_tokens)
        for index, block in enumerate(self.layers, 1):
            block.name = f"encoder block {index}"

    def build_encoder_layer(self, cfg):
        field = TransformerField(FieldSpec.from_config(cfg, "encoder"))
        return NodeBlock(field, encoder_solver(cfg), cfg.ode_final_time, cfg.arclength_order)

    def forward(
        self, src_tokens, src_lengths=None, return_all_hiddens=False, token_embeddings=None
    ):
        """The states (T, B, C) at the end of the last block, of tokens (B, T), in fairseq's form.

        Raises:
            RuntimeError: a solve takes more than ``--ode-max-steps``, or a state is not finite.
        """
        with recorded(self.layers) as calls:
            out = super().forward(src_tokens, src_lengths, return_all_hiddens, token_embeddings)
        return {**out, **summary("encoder", calls)}


def encoder_solver(cfg) -> Solver:
    """The solver of the encoder's blocks."""
    method = str(cfg.ode_method)
    if method in FIXED_GRID:
        solver = FixedGrid(method, cfg.ode_steps)
    else:
        solver = Adaptive(
            method,
            rtol=cfg.ode_rtol,
            atol=cfg.ode_atol,
            max_steps=cfg.ode_max_steps,
            per_sequence=cfg.adaptivity == "sequence",
        )
    if cfg.adjoint:
        return Adjoint(solver)
    return checkpointed(solver) if cfg.checkpoint_activations else solver


def summary(side: str, calls: list[Call]) -> dict[str, dict[str, Tensor]]:
    """The regularisers, in training, and the statistics of the ``encoder`` or ``decoder``.

    Each is a dictionary of values (B) a sequence. The arclength is summed over the blocks.

    Args:
        calls: of the blocks, whose last output is a solution.
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
