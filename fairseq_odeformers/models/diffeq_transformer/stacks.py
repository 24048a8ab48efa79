"""fairseq's encoder and decoder over one block, which takes all steps; LayerNorm at the end.

fairseq's ``dropout`` acts on the embeddings alone; the block reads ``spec.dropout``.
"""

from fairseq.data import Dictionary
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerDecoderBase,
    TransformerEncoderBase,
)
from omegaconf import DictConfig
from torch import nn

from fairseq_odeformers.models.common.depths import DecoderOfDepths, EncoderOfDepths
from fairseq_odeformers.models.common.transformer import stack_config

from .block import DiffEqCausalBlock, DiffEqDecoderBlock, DiffEqEncoderBlock
from .spec import BlockSpec


def one_block(cfg: DictConfig) -> TransformerConfig:
    """fairseq's config of a stack whose one layer is a block."""
    return stack_config(
        cfg,
        encoder_layers=1,
        decoder_layers=1,
        encoder_normalize_before=True,
        decoder_normalize_before=True,
        checkpoint_activations=False,  # the block's, step by step
        dropout=cfg.embedding_dropout,
    )


class DiffEqEncoder(EncoderOfDepths, TransformerEncoderBase):
    """fairseq's Transformer encoder over the steps of DiffEqFormer."""

    spec_class = BlockSpec
    block_class = DiffEqEncoderBlock

    def __init__(self, cfg: DictConfig, dictionary: Dictionary, embed_tokens: nn.Embedding):
        self.spec = self.spec_class.from_options(cfg, "encoder")  # before the block is built
        super().__init__(one_block(cfg), dictionary, embed_tokens)

    def build_encoder_layer(self, cfg: TransformerConfig) -> nn.Module:
        return self.block_class(self.spec)


class DiffEqDecoder(DecoderOfDepths, TransformerDecoderBase):
    """fairseq's Transformer decoder over the steps of DiffEqFormer."""

    spec_class = BlockSpec
    block_class: type[DiffEqCausalBlock] = DiffEqDecoderBlock

    def __init__(self, cfg: DictConfig, dictionary: Dictionary, embed_tokens: nn.Embedding):
        self.spec = self.spec_class.from_options(cfg, "decoder")  # before the block is built
        super().__init__(one_block(cfg), dictionary, embed_tokens)

    def build_decoder_layer(
        self, cfg: TransformerConfig, no_encoder_attn: bool = False
    ) -> nn.Module:
        return self.block_class(self.spec)


class DiffEqCausalDecoder(DiffEqDecoder):
    """The decoder of a language model, without an encoder."""

    block_class = DiffEqCausalBlock
