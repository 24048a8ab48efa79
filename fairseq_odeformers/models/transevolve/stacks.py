"""The stacks: fairseq's Transformer encoder and decoder over blocks of TransEvolve.

fairseq's ``layers`` are the blocks; the layers of a block are its ``depths``. fairseq's ``dropout``
acts on the embeddings alone; the blocks read ``spec.dropout``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqDecoder, FairseqEncoder
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerDecoderBase,
    TransformerEncoderBase,
)
from omegaconf import DictConfig
from torch import Tensor, nn

from fairseq_odeformers.models.common.recording import record_calls
from fairseq_odeformers.models.common.transformer import stack_config, wrap_layer

from .block import (
    TransEvolveCausalBlock,
    TransEvolveDecoderBlock,
    TransEvolveEncoderBlock,
    shared_rows,
)
from .spec import BlockSpec


class TransEvolveEncoder(TransformerEncoderBase):
    """fairseq's Transformer encoder over ``--encoder-blocks`` blocks, made of the same spec."""

    spec_class = BlockSpec
    block_class = TransEvolveEncoderBlock

    def __init__(self, cfg: DictConfig, dictionary: Dictionary, embed_tokens: nn.Embedding):
        spec = self.spec_class.from_options(cfg, "encoder")
        layers, dropout = cfg.encoder_blocks, cfg.embedding_dropout
        config = stack_config(cfg, encoder_layers=layers, dropout=dropout, spec=spec)
        super().__init__(config, dictionary, embed_tokens)

    def build_encoder_layer(self, cfg: TransformerConfig) -> nn.Module:
        """fairseq's method, which its constructor calls for each block, with the config above.

        A block reads ``cfg.spec`` alone.
        """
        return wrap_layer(self.block_class(cfg.spec), cfg)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
    ) -> dict[str, Any]:
        """As fairseq's; all hidden states are X_0 and the state after each depth of each block."""
        with depth_states(self, return_all_hiddens) as states:
            out = super().forward(src_tokens, src_lengths, return_all_hiddens, token_embeddings)
        if return_all_hiddens:
            out = {**out, "encoder_states": out["encoder_states"][:1] + states}
        return out

    def reorder_encoder_out(self, encoder_out: dict[str, Any], new_order: Tensor) -> dict[str, Any]:
        """Reorder for beam search; the beams of a sentence share one row.

        How many share each is the entry ``beams`` of the result.
        """
        rows, beams = shared_rows(new_order, encoder_out.get("beams", 1))
        return {**super().reorder_encoder_out(encoder_out, rows), "beams": beams}


class TransEvolveDecoder(TransformerDecoderBase):
    """fairseq's Transformer decoder over ``--decoder-blocks`` blocks, made of the same spec."""

    spec_class = BlockSpec
    block_class: type[TransEvolveCausalBlock] = TransEvolveDecoderBlock

    def __init__(self, cfg: DictConfig, dictionary: Dictionary, embed_tokens: nn.Embedding):
        spec = self.spec_class.from_options(cfg, "decoder")
        layers, dropout = cfg.decoder_blocks, cfg.embedding_dropout
        config = stack_config(cfg, decoder_layers=layers, dropout=dropout, spec=spec)
        super().__init__(config, dictionary, embed_tokens)

    def build_decoder_layer(
        self, cfg: TransformerConfig, no_encoder_attn: bool = False
    ) -> nn.Module:
        """fairseq's method, as in the encoder."""
        return wrap_layer(self.block_class(cfg.spec), cfg)

    def forward(
        self, prev_output_tokens: Tensor, *args, return_all_hiddens: bool = False, **kwargs
    ) -> tuple[Tensor, dict]:
        """As fairseq's; all hidden states are X_0 and the state after each depth of each block."""
        with depth_states(self, return_all_hiddens) as states:
            x, extra = super().forward(prev_output_tokens, *args, **kwargs)
        if return_all_hiddens:
            extra = {**extra, "inner_states": extra["inner_states"][:1] + states}
        return x, extra


class TransEvolveCausalDecoder(TransEvolveDecoder):
    """The decoder of a language model, without an encoder."""

    block_class = TransEvolveCausalBlock


@contextmanager
def depth_states(stack: FairseqEncoder | FairseqDecoder, wanted: bool) -> Iterator[list[Tensor]]:
    """A list that holds, once the blocks have run, the states (T, B, C) after each of their depths.

    The arclength regulariser (``criterions/arclength.py``) asks for them.

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
    with record_calls(module for block in blocks for module in block.state_modules()) as calls:
        yield states
    states += [call.output.transpose(0, 1) for call in calls]
