"""fairseq's encoder and decoder with one block for all steps and a final LayerNorm.

Here, fairseq's ``dropout`` only acts on the embeddings; the block uses ``spec.dropout``.
"""

from typing import Any

from fairseq_odeformers.models.common.transformer import BlockDecoder, BlockEncoder

from .block import DiffEqCausalBlock, DiffEqDecoderBlock, DiffEqEncoderBlock
from .spec import BlockSpec


def one_block(cfg: Any) -> dict[str, Any]:
    """Return the changes to fairseq's options for a stack with one block as its only layer."""
    return {
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_normalize_before": True,
        "decoder_normalize_before": True,
        "checkpoint_activations": False,  # the block recomputes each step itself
        "dropout": cfg.embedding_dropout,
    }


class DiffEqEncoder(BlockEncoder):
    """fairseq's Transformer encoder over the steps of DiffEqFormer."""

    spec_class = BlockSpec
    block_class = DiffEqEncoderBlock
    changes = staticmethod(one_block)


class DiffEqDecoder(BlockDecoder):
    """fairseq's Transformer decoder over the steps of DiffEqFormer."""

    spec_class = BlockSpec
    block_class: type[DiffEqCausalBlock] = DiffEqDecoderBlock
    changes = staticmethod(one_block)


class DiffEqCausalDecoder(DiffEqDecoder):
    """The decoder of a language model, without an encoder."""

    block_class = DiffEqCausalBlock
