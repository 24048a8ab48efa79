"""The decoders of the N-ODE Transformer, for translation and language models.

The paper leaves a decoder open, since its adaptive steps would differ from one token to the next.
Here the decoder's solver has a fixed grid.
"""

from dataclasses import replace
from typing import Any

from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase
from omegaconf import DictConfig
from torch import Tensor, nn

from fairseq_odeformers.models.common.recording import record_calls
from fairseq_odeformers.models.common.transformer import stack_config

from .block import NodeDecoderBlock, summary
from .encoder import make_solver
from .field import TransformerField
from .spec import BlockSpec


class NodeTransformerDecoder(TransformerDecoderBase):
    """fairseq's Transformer decoder over N-ODE blocks.

    Beside the output of fairseq's decoder it returns the dictionaries ``regularizers`` and
    ``statistics`` of encoder and decoder together.
    """

    spec_class = BlockSpec
    field_class = TransformerField
    attends_to_source = True

    def __init__(self, cfg: DictConfig, dictionary: Dictionary, embed_tokens: nn.Module):
        spec = self.spec_class.from_options(cfg, "decoder")
        spec = replace(spec, adjoint=False)  # which is the encoder's option
        super().__init__(stack_config(cfg, spec=spec), dictionary, embed_tokens)
        for index, block in enumerate(self.layers, 1):
            block.name = f"decoder block {index}"

    def build_decoder_layer(
        self, cfg: TransformerConfig, no_encoder_attn: bool = False
    ) -> NodeDecoderBlock:
        spec, field = cfg.spec, self.field_class(cfg.spec, decoder=self.attends_to_source)
        return NodeDecoderBlock(field, make_solver(spec), spec.ode_final_time, spec.arclength_order)

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Any] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """The states (B, T, C) at the end of the last block, of tokens (B, T), and fairseq's extra.

        Raises:
            RuntimeError: a state is not finite.
        """
        with record_calls(self.layers) as calls:
            x, extra = super().extract_features(prev_output_tokens, encoder_out, *args, **kwargs)
        both, encoder = summary("decoder", calls), encoder_out or {}
        for name, value in encoder.get("regularizers", {}).items():
            both["regularizers"][name] = both["regularizers"].get(name, 0) + value
        both["statistics"].update(encoder.get("statistics", {}))
        return x, {**extra, **both}


class NodeTransformerCausalDecoder(NodeTransformerDecoder):
    """The decoder of a language model, without an encoder."""

    attends_to_source = False
