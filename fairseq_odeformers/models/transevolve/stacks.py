"""The stacks: fairseq's Transformer encoder and decoder over blocks of TransEvolve.

fairseq's ``dropout`` acts on the embeddings alone; the blocks read ``spec.dropout``.
"""

from typing import Any

from fairseq.data import Dictionary
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerDecoderBase,
    TransformerEncoderBase,
)
from omegaconf import DictConfig
from torch import Tensor, nn

from fairseq_odeformers.models.common.depths import DecoderOfDepths, EncoderOfDepths
from fairseq_odeformers.models.common.transformer import stack_config, wrap_layer

from .block import (
    TransEvolveCausalBlock,
    TransEvolveDecoderBlock,
    TransEvolveEncoderBlock,
    shared_rows,
)
from .spec import BlockSpec


class TransEvolveEncoder(EncoderOfDepths, TransformerEncoderBase):
    """fairseq's Transformer encoder over ``--encoder-blocks`` blocks, made of the same spec."""

    spec_class = BlockSpec
    block_class = TransEvolveEncoderBlock

    def __init__(self, cfg: DictConfig, dictionary: Dictionary, embed_tokens: nn.Embedding):
        self.spec = self.spec_class.from_options(cfg, "encoder")  # before the blocks are built
        layers, dropout = cfg.encoder_blocks, cfg.embedding_dropout
        config = stack_config(cfg, encoder_layers=layers, dropout=dropout)
        super().__init__(config, dictionary, embed_tokens)

    def build_encoder_layer(self, cfg: TransformerConfig) -> nn.Module:
        """fairseq's method, which its constructor calls for each block."""
        return wrap_layer(self.block_class(self.spec), cfg)

    def reorder_encoder_out(self, encoder_out: dict[str, Any], new_order: Tensor) -> dict[str, Any]:
        """Reorder for beam search; the beams of a sentence share one row.

        How many share each is the entry ``beams`` of the result.
        """
        rows, beams = shared_rows(new_order, encoder_out.get("beams", 1))
        return {**super().reorder_encoder_out(encoder_out, rows), "beams": beams}


class TransEvolveDecoder(DecoderOfDepths, TransformerDecoderBase):
    """fairseq's Transformer decoder over ``--decoder-blocks`` blocks, made of the same spec."""

    spec_class = BlockSpec
    block_class: type[TransEvolveCausalBlock] = TransEvolveDecoderBlock

    def __init__(self, cfg: DictConfig, dictionary: Dictionary, embed_tokens: nn.Embedding):
        self.spec = self.spec_class.from_options(cfg, "decoder")  # before the blocks are built
        layers, dropout = cfg.decoder_blocks, cfg.embedding_dropout
        config = stack_config(cfg, decoder_layers=layers, dropout=dropout)
        super().__init__(config, dictionary, embed_tokens)

    def build_decoder_layer(
        self, cfg: TransformerConfig, no_encoder_attn: bool = False
    ) -> nn.Module:
        """fairseq's method, as in the encoder."""
        return wrap_layer(self.block_class(self.spec), cfg)


class TransEvolveCausalDecoder(TransEvolveDecoder):
    """The decoder of a language model, without an encoder."""

    block_class = TransEvolveCausalBlock
