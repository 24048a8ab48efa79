"""The decoders: fairseq's Transformer decoder over blocks of TransEvolve."""

from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase
from omegaconf import DictConfig
from torch import Tensor, nn

from fairseq_odeformers.models.common.transformer import stack_config, wrap_layer

from .block import TransEvolveCausalBlock, TransEvolveDecoderBlock
from .encoder import depth_states
from .spec import BlockSpec


class TransEvolveDecoder(TransformerDecoderBase):
    """fairseq's Transformer decoder over ``--decoder-blocks`` blocks."""

    spec_class = BlockSpec
    block_class: type[TransEvolveCausalBlock] = TransEvolveDecoderBlock

    def __init__(self, cfg: DictConfig, dictionary: Dictionary, embed_tokens: nn.Embedding):
        config = stack_config(
            cfg,
            decoder_layers=cfg.decoder_blocks,
            dropout=cfg.embedding_dropout,  # fairseq's stack itself drops only embeddings
            spec=self.spec_class.from_options(cfg, "decoder"),
        )
        super().__init__(config, dictionary, embed_tokens)

    def build_decoder_layer(
        self, cfg: TransformerConfig, no_encoder_attn: bool = False
    ) -> nn.Module:
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
