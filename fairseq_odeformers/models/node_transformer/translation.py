"""The N-ODE Transformer (Baier-Reinio and De Sterck 2020) as an encoder-decoder.

The paper leaves an N-ODE decoder open, as its adaptive steps would differ from one token to the
next. Here the decoder's solver has a fixed grid.
"""

from dataclasses import dataclass, field

from fairseq.dataclass import ChoiceEnum
from fairseq.models import FairseqEncoderDecoderModel, register_model
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase
from fairseq.models.transformer.transformer_config import DecoderConfig
from omegaconf import II

from fairseq_odeformers.models.common.options import DataclassOptions
from fairseq_odeformers.models.common.translation import TranslationConfig, build_embeddings
from fairseq_odeformers.modules.recording import recorded

from .block import NodeDecoderBlock
from .classifier import (
    NodeEncoderConfig,
    NodeTransformerEncoder,
    VectorField,
    block_options,
    check_config,
    check_grid,
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

    encoder_embed_dim: int = field(default=512, metadata={"help": "encoder width d"})
    encoder_ffn_embed_dim: int = field(default=2048, metadata={"help": "encoder inner width"})
    encoder_attention_heads: int = field(default=8, metadata={"help": "encoder attention heads"})
    encoder_layers: int = field(default=3, metadata={"help": "number of blocks of the encoder"})
    encoder_normalize_before: bool = field(
        default=True,
        metadata={
            "help": "apply layernorm before each part of the vector fields, of a decoder too, and "
            "after the last block"
        },
    )
    decoder_layers: int = field(
        default=II("model.encoder_layers"), metadata={"help": "number of blocks of the decoder"}
    )
    decoder_ode_method: ChoiceEnum(list(FIXED_GRID)) = field(
        default="rk4", metadata={"help": "solver of the decoder, on a fixed grid"}
    )
    decoder_ode_steps: int = field(default=1, metadata={"help": "steps of the decoder's solver"})
    vector_field: VectorField = field(
        default="residual",
        metadata={"help": "FFN(alpha X + MHSA(X)), or MHSA(X) + FFN(X + MHSA(X))"},
    )
    ode_rtol: float = field(default=1e-3, metadata={"help": "relative tolerance"})
    ode_atol: float = field(default=1e-3, metadata={"help": "absolute tolerance"})
    dropout: float = field(default=0.1, metadata={"help": "dropout probability"})
    no_token_positional_embeddings: bool = field(
        default=False, metadata={"help": "leave out positional embeddings"}
    )


class NodeTransformerDecoder(TransformerDecoderBase):
    """fairseq's Transformer decoder over N-ODE blocks.

    Beside what fairseq's decoder returns there are ``regularizers`` and ``statistics`` of both
    sides, as :class:`NodeTransformerEncoder` has them.
    """

    def __init__(self, cfg, dictionary, embed_tokens):
        solver = FixedGrid(str(cfg.decoder_ode_method), cfg.decoder_ode_steps)
        self.block_options = block_options(cfg, solver)
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
class NodeTransformerMT(DataclassOptions, FairseqEncoderDecoderModel):
    """Encoder-decoder over N-ODE blocks: the encoder adaptive, the decoder on a fixed grid."""

    @classmethod
    def build_model(cls, cfg, task):
        check_config(cfg, "encoder", "decoder")
        check_grid(cfg, "decoder_ode_")
        encoder_embed, decoder_embed = build_embeddings(cfg, task, "leave the option out")
        return cls(
            NodeTransformerEncoder(cfg, task.source_dictionary, encoder_embed),
            NodeTransformerDecoder(cfg, task.target_dictionary, decoder_embed),
        )
