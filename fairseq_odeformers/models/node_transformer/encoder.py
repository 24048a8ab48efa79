"""The encoder of the N-ODE Transformer."""

from argparse import Namespace
from typing import Any

from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerConfig, TransformerEncoderBase
from omegaconf import DictConfig
from torch import Tensor, nn

from fairseq_odeformers.models.common.recording import recorded
from fairseq_odeformers.models.common.transformer import stack_config

from .adjoint import Adjoint
from .block import NodeBlock, summary
from .field import FieldSpec, TransformerField
from .methods import FIXED_GRID
from .problem import Solver
from .solver import Adaptive, FixedGrid, checkpointed


class NodeTransformerEncoder(TransformerEncoderBase):
    """fairseq's Transformer encoder over N-ODE blocks.

    Beside the output of fairseq's encoder it returns the dictionaries ``regularizers``, which has
    the arclength in training, and ``statistics``, both of values (B), one a sequence.
    """

    def __init__(self, cfg: DictConfig, dictionary: Dictionary, embed_tokens: nn.Module):
        super().__init__(stack_config(cfg), dictionary, embed_tokens)
        for index, block in enumerate(self.layers, 1):
            block.name = f"encoder block {index}"

    def build_encoder_layer(self, cfg: TransformerConfig) -> NodeBlock:
        field = TransformerField(FieldSpec.from_config(cfg, "encoder"))
        return NodeBlock(field, encoder_solver(cfg), cfg.ode_final_time, cfg.arclength_order)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
    ) -> dict[str, Any]:
        """The states (T, B, C) at the end of the last block, of tokens (B, T), in fairseq's form.

        Raises:
            RuntimeError: a solve takes more than ``--ode-max-steps``, or a state is not finite.
        """
        with recorded(self.layers) as calls:
            out = super().forward(src_tokens, src_lengths, return_all_hiddens, token_embeddings)
        return {**out, **summary("encoder", calls)}


def encoder_solver(cfg: TransformerConfig | Namespace) -> Solver:
    """The solver of the encoder's blocks, from the options of the ODE."""
    method = cfg.ode_method
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
