"""The encoder: fairseq's Transformer encoder over blocks of TransEvolve."""

from contextlib import contextmanager

import torch
from fairseq.models.transformer import TransformerEncoderBase

from fairseq_odeformers.models.common.transformer import stack_config, wrap_layer
from fairseq_odeformers.modules.recording import recorded

from .block import TransEvolveEncoderBlock, shared_rows
from .spec import BlockSpec


class TransEvolveEncoder(TransformerEncoderBase):
    """fairseq's Transformer encoder over ``--encoder-blocks`` blocks."""

    def __init__(self, cfg, dictionary, embed_tokens):
        self.block_spec = BlockSpec.from_config(cfg, "encoder")
        config = stack_config(cfg, encoder_layers=cfg.encoder_blocks, dropout=cfg.embedding_dropout)
        super().__init__(config, dictionary, embed_tokens)

    def build_encoder_layer(self, cfg):
        return wrap_layer(TransEvolveEncoderBlock(self.block_spec), cfg)

    def forward(
        self, src_tokens, src_lengths=None, return_all_hiddens=False, token_embeddings=None
    ):
        """As fairseq's; all hidden states are X_0 and the state after each depth of each block."""
        with depth_states(self, return_all_hiddens) as states:
            out = super().forward(src_tokens, src_lengths, return_all_hiddens, token_embeddings)
        return {**out, "encoder_states": out["encoder_states"][:1] + states}

    def reorder_encoder_out(self, encoder_out, new_order):
        """Reorder for beam search; the beams of a sentence share one row."""
        rows, beams = shared_rows(new_order, encoder_out.get("beams", 1))
        return {**super().reorder_encoder_out(encoder_out, rows), "beams": beams}


@contextmanager
def depth_states(stack, wanted: bool):
    """A list that holds, once the blocks have run, the states (T, B, C) after each of their depths.

    Args:
        stack: an encoder or a decoder.
        wanted: if false, the list stays empty.

    Raises:
        ValueError: the blocks compute their activations again, so no gradient reaches the states.
    """
    if wanted and stack.cfg.checkpoint_activations and torch.is_grad_enabled():
        raise ValueError(
            "--checkpoint-activations: the states within a block, which --arclength-weight needs, "
            "are not kept; leave one of the two options out"
        )
    states = []
    blocks = stack.layers if wanted else []
    with recorded(module for block in blocks for module in block.state_modules()) as calls:
        yield states
    states += [call.output.transpose(0, 1) for call in calls]
