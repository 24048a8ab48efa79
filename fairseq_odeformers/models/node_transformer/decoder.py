"""The decoder of the N-ODE Transformer.

The paper leaves a decoder open, since its adaptive steps would differ from one token to the next.
Here the decoder's solver has a fixed grid.
"""

from typing import Any

from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase
from omegaconf import DictConfig
from torch import Tensor, nn

from fairseq_odeformers.models.common.recording import recorded
from fairseq_odeformers.models.common.transformer import stack_config

from .block import NodeDecoderBlock, summary
from .field import FieldSpec, TransformerField
from .solver import FixedGrid, checkpointed


class NodeTransformerDecoder(TransformerDecoderBase):
    """fairseq's Transformer decoder over N-ODE blocks.

    Beside the output of fairseq's decoder it returns the dictionaries ``regularizers`` and
    ``statistics`` of encoder and decoder together.
    """

    def __init__(self, cfg: DictConfig, dictionary: Dictionary, embed_tokens: nn.Module):
        config = stack_config(cfg, decoder_normalize_before=cfg.encoder_normalize_before)
        super().__init__(config, dictionary, embed_tokens)
        for index, block in enumerate(self.layers, 1):
            block.name = f"decoder block {index}"

    def build_decoder_layer(
        self, cfg: TransformerConfig, no_encoder_attn: bool = False
    ) -> NodeDecoderBlock:
        field = TransformerField(FieldSpec.from_config(cfg, "decoder"))
        solver = FixedGrid(cfg.decoder_ode_method, cfg.decoder_ode_steps)
        if cfg.checkpoint_activations:
            solver = checkpointed(solver)
        return NodeDecoderBlock(field, solver, cfg.ode_final_time, cfg.arclength_order)

    def extract_features(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Any], *args: Any, **kwargs: Any
    ) -> tuple[Tensor, dict[str, Any]]:
        """The states (B, T, C) at the end of the last block, of tokens (B, T), and fairseq's extra.

        Raises:
            RuntimeError: a state is not finite.
        """
        with recorded(self.layers) as calls:
            x, extra = super().extract_features(prev_output_tokens, encoder_out, *args, **kwargs)
        own = summary("decoder", calls)
        for name, value in encoder_out.get("regularizers", {}).items():
            own["regularizers"][name] = own["regularizers"].get(name, 0) + value
        own["statistics"].update(encoder_out.get("statistics", {}))
        return x, {**extra, **own}
