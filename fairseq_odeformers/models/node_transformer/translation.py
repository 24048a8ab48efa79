"""The N-ODE Transformer (Baier-Reinio and De Sterck 2020) as an encoder-decoder.

The paper leaves an N-ODE decoder open, as its adaptive steps would differ from one token to the
next. Here the decoder's solver has a fixed grid.
"""

from dataclasses import dataclass

from fairseq.dataclass import ChoiceEnum
from fairseq.models import FairseqEncoderDecoderModel, register_model
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase
from fairseq.models.transformer.transformer_config import DecoderConfig
from omegaconf import II

from fairseq_odeformers.models.common.translation import (
    TranslationConfig,
    WithoutAlignment,
    build_embeddings,
)
from fairseq_odeformers.modules.recording import recorded
from fairseq_odeformers.options import DataclassOptions, option

from .block import NodeDecoderBlock
from .classifier import (
    Decomposition,
    NodeEncoderConfig,
    NodeTransformerEncoder,
    block_options,
    check_config,
    check_grid,
    checkpointed,
    field_options,
    remedies,
    summary,
)
from .field import TransformerDecoderField
from .methods import FIXED_GRID
from .solver import FixedGrid


@dataclass
class NodeTransformerMTConfig(NodeEncoderConfig, TranslationConfig):
    """The sizes are those of a Transformer; vector field and normalisation are near to its own."""

    encoder_embed_dim: int = option(512, "encoder width d")
    encoder_ffn_embed_dim: int = option(2048, "encoder inner width")
    encoder_attention_heads: int = option(8, "encoder attention heads")
    encoder_layers: int = option(3, "number of blocks of the encoder")
    encoder_normalize_before: bool = option(
        True,
        "apply layernorm before each part of the vector fields, of a decoder too, and "
        "after the last block",
    )
    decoder_layers: int = option(II("model.encoder_layers"), "number of blocks of the decoder")
    decoder_ode_method: ChoiceEnum(list(FIXED_GRID)) = option(
        "rk4", "solver of the decoder, on a fixed grid"
    )
    decoder_ode_steps: int = option(1, "steps of the decoder's solver")
    vector_field: Decomposition = option(
        "residual", "FFN(alpha X + MHSA(X)), or MHSA(X) + FFN(X + MHSA(X))"
    )
    ode_rtol: float = option(1e-3, "relative tolerance of an adaptive solver")
    ode_atol: float = option(1e-3, "absolute tolerance of an adaptive solver")
    dropout: float = option(0.1, "dropout probability")
    no_token_positional_embeddings: bool = option(False, "leave out positional embeddings")


class NodeTransformerDecoder(TransformerDecoderBase):
    """fairseq's Transformer decoder over N-ODE blocks.

    Beside what fairseq's decoder returns there are ``regularizers`` and ``statistics`` of both
    sides, as :class:`NodeTransformerEncoder` has them.
    """

    def __init__(self, cfg, dictionary, embed_tokens):
        solver = FixedGrid(str(cfg.decoder_ode_method), cfg.decoder_ode_steps)
        self.block_options = block_options(cfg, checkpointed(solver, cfg))
        self.field_options = field_options(cfg, "decoder")
        config = TransformerConfig(
            dropout=cfg.dropout,
            decoder=DecoderConfig(
                embed_dim=cfg.decoder_embed_dim,
                layers=cfg.decoder_layers,
                normalize_before=cfg.encoder_normalize_before,
            ),
            max_target_positions=cfg.max_target_positions,
            no_token_positional_embeddings=cfg.no_token_positional_embeddings,
            share_decoder_input_output_embed=(
                cfg.share_all_embeddings or cfg.share_decoder_input_output_embed
            ),
        )
        super().__init__(config, dictionary, embed_tokens)
        for index, block in enumerate(self.layers, 1):
            block.name = f"decoder block {index}"

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        return NodeDecoderBlock(TransformerDecoderField(**self.field_options), **self.block_options)

    def extract_features(self, prev_output_tokens, encoder_out, *args, **kwargs):
        with recorded(self.layers) as calls, remedies():
            x, extra = super().extract_features(prev_output_tokens, encoder_out, *args, **kwargs)
        own = summary("decoder", calls)
        for name, value in encoder_out.get("regularizers", {}).items():
            own["regularizers"][name] = own["regularizers"].get(name, 0) + value
        own["statistics"].update(encoder_out.get("statistics", {}))
        return x, {**extra, **own}


@register_model("node_transformer_mt", dataclass=NodeTransformerMTConfig)
class NodeTransformerMT(DataclassOptions, WithoutAlignment, FairseqEncoderDecoderModel):
    """Encoder-decoder over N-ODE blocks: the encoder adaptive, the decoder on a fixed grid."""

    @classmethod
    def build_model(cls, cfg, task):
        check_config(cfg, "encoder", "decoder")
        check_grid(cfg, "decoder_ode")
        encoder_embed, decoder_embed = build_embeddings(cfg, task, "leave the option out")
        return cls(
            NodeTransformerEncoder(cfg, task.source_dictionary, encoder_embed),
            NodeTransformerDecoder(cfg, task.target_dictionary, decoder_embed),
        )
