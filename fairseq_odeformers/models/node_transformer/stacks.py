"""fairseq's Transformer encoder and decoder over N-ODE blocks."""

from dataclasses import replace
from typing import Any

from fairseq.models.transformer import TransformerConfig
from torch import Tensor

from fairseq_odeformers.models.common.recording import record_calls
from fairseq_odeformers.models.common.transformer import Decoder, Encoder
from fairseq_odeformers.modules.tableaus import FIXED_GRID

from .adjoint import Adjoint
from .block import NodeBlock, NodeDecoderBlock, summary
from .field import TransformerField
from .problem import Solver
from .solver import Adaptive, FixedGrid, checkpointed
from .spec import BlockSpec


class NodeTransformerEncoder(Encoder):
    """fairseq's Transformer encoder over N-ODE blocks.

    In addition to the output of fairseq's encoder, it returns the dictionaries ``regularizers``
    (the arclength, in training) and ``statistics`` with values (B), one per sequence.
    """

    spec_class = BlockSpec
    field_class = TransformerField

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        for index, block in enumerate(self.layers, 1):
            block.name = f"encoder block {index}"

    def build_encoder_layer(self, cfg: TransformerConfig) -> NodeBlock:
        spec, field = self.spec, self.field_class(self.spec)
        return NodeBlock(field, make_solver(spec), spec.ode_final_time, spec.arclength_order)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
    ) -> dict[str, Any]:
        """Map tokens (B, T) to the states (T, B, C) after the last block, in fairseq's form.

        Raises:
            RuntimeError: a solve needs more than ``--ode-max-steps`` and may not stop there, or a
                state is not finite.
        """
        with record_calls(self.layers) as calls:
            out = super().forward(src_tokens, src_lengths, return_all_hiddens, token_embeddings)
        return {**out, **summary("encoder", calls)}


class NodeTransformerDecoder(Decoder):
    """fairseq's Transformer decoder over N-ODE blocks.

    The paper has no decoder, since adaptive steps would differ from one token to the next. Here,
    the decoder's solver has a fixed grid.

    In addition to the output of fairseq's decoder, it returns the dictionaries ``regularizers`` and
    ``statistics``.
    """

    spec_class = BlockSpec
    field_class = TransformerField
    attends_to_source = True

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        for index, block in enumerate(self.layers, 1):
            block.name = f"decoder block {index}"

    def build_decoder_layer(
        self, cfg: TransformerConfig, no_encoder_attn: bool = False
    ) -> NodeDecoderBlock:
        spec = replace(self.spec, adjoint=False)  # the option only applies to the encoder
        field = self.field_class(spec, decoder=self.attends_to_source)
        return NodeDecoderBlock(field, make_solver(spec), spec.ode_final_time, spec.arclength_order)

    def extract_features(
        self, prev_output_tokens: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, dict[str, Any]]:
        """Map tokens (B, T) to the states (B, T, C) after the last block, and extra outputs.

        Raises:
            RuntimeError: a state is not finite.
        """
        with record_calls(self.layers) as calls:
            x, extra = super().extract_features(prev_output_tokens, *args, **kwargs)
        return x, {**extra, **summary("decoder", calls)}


class NodeTransformerCausalDecoder(NodeTransformerDecoder):
    """The decoder of a language model, without an encoder."""

    attends_to_source = False


def make_solver(spec: BlockSpec) -> Solver:
    """Make the solver of a block: on a fixed grid or adaptive, with or without :class:`Adjoint`."""
    method = spec.ode_method
    if method in FIXED_GRID:
        assert spec.ode_steps is not None
        solver = FixedGrid(method, spec.ode_steps)
    else:
        solver = Adaptive(
            method,
            rtol=spec.ode_rtol,
            atol=spec.ode_atol,
            max_steps=spec.ode_max_steps,
            per_sequence=spec.adaptivity == "sequence",
            stops=spec.ode_on_max_steps == "stop",
        )
    if spec.adjoint:
        return Adjoint(solver)
    return checkpointed(solver) if spec.checkpoint_activations else solver
