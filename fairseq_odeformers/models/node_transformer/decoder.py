"""The decoder of the N-ODE Transformer.

The paper leaves a decoder open, since its adaptive steps would differ from one token to the next.
Here the decoder's solver has a fixed grid.
"""

from fairseq.models.transformer import TransformerDecoderBase

from fairseq_odeformers.models.common.transformer import stack_config

from .block import NodeDecoderBlock
from .field import TransformerField
from .problem import Solver
from .solver import Checkpointed, FixedGrid
from .stack import field_spec, recorded_solves, summary


class NodeTransformerDecoder(TransformerDecoderBase):
    """fairseq's Transformer decoder over N-ODE blocks.

    It returns what fairseq's decoder returns, and the dictionaries ``regularizers`` and
    ``statistics`` of encoder and decoder together.
    """

    def __init__(self, cfg, dictionary, embed_tokens):
        self.node_config = cfg
        config = stack_config(
            cfg,
            decoder_normalize_before=cfg.encoder_normalize_before,
            checkpoint_activations=False,  # the solvers do that
        )
        super().__init__(config, dictionary, embed_tokens)
        for index, block in enumerate(self.layers, 1):
            block.name = f"decoder block {index}"

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        cfg = self.node_config
        field = TransformerField(field_spec(cfg, "decoder"))
        return NodeDecoderBlock(field, decoder_solver(cfg), cfg.ode_final_time, cfg.arclength_order)

    def extract_features(self, prev_output_tokens, encoder_out, *args, **kwargs):
        with recorded_solves(self.layers) as calls:
            x, extra = super().extract_features(prev_output_tokens, encoder_out, *args, **kwargs)
        own = summary("decoder", calls)
        for name, value in encoder_out.get("regularizers", {}).items():
            own["regularizers"][name] = own["regularizers"].get(name, 0) + value
        own["statistics"].update(encoder_out.get("statistics", {}))
        return x, {**extra, **own}


def decoder_solver(cfg) -> Solver:
    """The solver of the decoder's blocks."""
    solver = FixedGrid(str(cfg.decoder_ode_method), cfg.decoder_ode_steps)
    return Checkpointed(solver) if cfg.checkpoint_activations else solver
