"""The decoder: fairseq's Transformer decoder over blocks of TransEvolve."""

from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase
from fairseq.models.transformer.transformer_config import DecoderConfig

from fairseq_odeformers.models.common.transformer import wrap_layer

from .block import TransEvolveDecoderBlock
from .encoder import depth_states
from .spec import BlockSpec


class TransEvolveDecoder(TransformerDecoderBase):
    """fairseq's Transformer decoder over ``--decoder-blocks`` blocks."""

    def __init__(self, cfg, dictionary, embed_tokens):
        self.block_spec = BlockSpec.from_config(cfg, "decoder")
        config = TransformerConfig(
            dropout=cfg.embedding_dropout,
            decoder=DecoderConfig(
                embed_dim=cfg.decoder_embed_dim,
                layers=cfg.decoder_blocks,
                normalize_before=cfg.decoder_normalize_before,
            ),
            checkpoint_activations=cfg.checkpoint_activations,
            max_target_positions=cfg.max_target_positions,
            share_decoder_input_output_embed=(
                cfg.share_all_embeddings or cfg.share_decoder_input_output_embed
            ),
        )
        super().__init__(config, dictionary, embed_tokens)

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        return wrap_layer(TransEvolveDecoderBlock(self.block_spec), cfg)

    def forward(self, prev_output_tokens, *args, return_all_hiddens=False, **kwargs):
        """As fairseq's; all hidden states are X_0 and the state after each depth of each block."""
        with depth_states(self, return_all_hiddens) as states:
            x, extra = super().forward(prev_output_tokens, *args, **kwargs)
        if return_all_hiddens:
            extra = {**extra, "inner_states": extra["inner_states"][:1] + states}
        return x, extra
