"""The encoder of the N-ODE Transformer."""

from fairseq.models.transformer import TransformerEncoderBase

from fairseq_odeformers.models.common.transformer import stack_config

from .adjoint import Adjoint
from .block import NodeBlock
from .field import TransformerField
from .methods import FIXED_GRID
from .problem import Solver
from .solver import Adaptive, Checkpointed, FixedGrid
from .stack import field_spec, recorded_solves, summary


class NodeTransformerEncoder(TransformerEncoderBase):
    """fairseq's Transformer encoder over N-ODE blocks.

    It returns what fairseq's encoder returns, and the dictionaries ``regularizers``, which has the
    arclength in training, and ``statistics`` of values (B) a sequence.
    """

    def __init__(self, cfg, dictionary, embed_tokens):
        self.node_config = cfg
        config = stack_config(cfg, checkpoint_activations=False)  # the solvers do that
        super().__init__(config, dictionary, embed_tokens)
        for index, block in enumerate(self.layers, 1):
            block.name = f"encoder block {index}"

    def build_encoder_layer(self, cfg):
        cfg = self.node_config
        field = TransformerField(field_spec(cfg, "encoder"))
        return NodeBlock(field, encoder_solver(cfg), cfg.ode_final_time, cfg.arclength_order)

    def forward(
        self, src_tokens, src_lengths=None, return_all_hiddens=False, token_embeddings=None
    ):
        """The states (T, B, C) at the end of the last block, of tokens (B, T), in fairseq's form.

        Raises:
            RuntimeError: a solve takes more than ``--ode-max-steps``, or a state is not finite.
        """
        with recorded_solves(self.layers) as calls:
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
    return Checkpointed(solver) if cfg.checkpoint_activations else solver
