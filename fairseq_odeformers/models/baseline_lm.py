"""Language models of fairseq's Transformer in variants: the baselines of TransJect's Table 3."""

from dataclasses import dataclass, field

from fairseq.models import register_model
from fairseq.models.transformer import TransformerDecoderBase
from fairseq.models.transformer_lm import TransformerLanguageModelConfig
from omegaconf import II

from fairseq_odeformers.modules.baseline_layers import ReZeroDecoderLayer, orthogonalize

from .language_model import LanguageModel


@dataclass
class BaselineLanguageModelConfig(TransformerLanguageModelConfig):
    """Options of fairseq's Transformer LM."""

    decoder_input_dim: int = field(
        default=II("model.decoder_embed_dim"), metadata={"help": "decoder input dimension"}
    )
    decoder_output_dim: int = field(
        default=II("model.decoder_embed_dim"), metadata={"help": "decoder output dimension"}
    )


class ReZeroDecoder(TransformerDecoderBase):
    """fairseq's Transformer decoder over ReZero layers."""

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        return ReZeroDecoderLayer(cfg, no_encoder_attn)


@register_model("transformer_lm_rezero", dataclass=BaselineLanguageModelConfig)
class ReZeroLanguageModel(LanguageModel):
    """The Transformer LM with zero-initialised residual weights instead of LayerNorm."""

    decoder_class = ReZeroDecoder


class OrthogonalDecoder(TransformerDecoderBase):
    """fairseq's Transformer decoder with all square matrices of its layers orthogonal."""

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        return orthogonalize(super().build_decoder_layer(cfg, no_encoder_attn))


@register_model("transformer_lm_orthogonal", dataclass=BaselineLanguageModelConfig)
class OrthogonalLanguageModel(LanguageModel):
    """The Transformer LM with all square matrices of its layers orthogonal."""

    decoder_class = OrthogonalDecoder
