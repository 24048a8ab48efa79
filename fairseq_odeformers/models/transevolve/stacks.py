"""fairseq's Transformer encoder and decoder over blocks of TransEvolve.

Here, fairseq's ``dropout`` only acts on the embeddings; the blocks use ``spec.dropout``.
"""

from typing import Any

from torch import Tensor

from fairseq_odeformers.models.common.transformer import BlockDecoder, BlockEncoder

from .block import (
    TransEvolveCausalBlock,
    TransEvolveDecoderBlock,
    TransEvolveEncoderBlock,
    shared_rows,
)
from .spec import BlockSpec


class TransEvolveEncoder(BlockEncoder):
    """fairseq's Transformer encoder over ``--encoder-blocks`` blocks, built from one spec."""

    spec_class = BlockSpec
    block_class = TransEvolveEncoderBlock

    @staticmethod
    def changes(cfg: Any) -> dict[str, Any]:
        return {"encoder_layers": cfg.encoder_blocks, "dropout": cfg.embedding_dropout}

    def reorder_encoder_out(self, encoder_out: dict[str, Any], new_order: Tensor) -> dict[str, Any]:
        """Reorder the encoder output for beam search; the beams of a sentence share one row.

        The entry ``beams`` of the result is the number of hypotheses that share a row.
        """
        rows, beams = shared_rows(new_order, encoder_out.get("beams", 1))
        return {**super().reorder_encoder_out(encoder_out, rows), "beams": beams}


class TransEvolveDecoder(BlockDecoder):
    """fairseq's Transformer decoder over ``--decoder-blocks`` blocks, built from one spec."""

    spec_class = BlockSpec
    block_class: type[TransEvolveCausalBlock] = TransEvolveDecoderBlock

    @staticmethod
    def changes(cfg: Any) -> dict[str, Any]:
        return {"decoder_layers": cfg.decoder_blocks, "dropout": cfg.embedding_dropout}


class TransEvolveCausalDecoder(TransEvolveDecoder):
    """The decoder of a language model, without an encoder."""

    block_class = TransEvolveCausalBlock
