"""Language models of fairseq's Transformer in variants: the baselines of TransJect's Table 3."""

from dataclasses import dataclass, field

from fairseq.models import register_model
from fairseq.models.transformer_lm import TransformerLanguageModelConfig
from omegaconf import II

from fairseq_odeformers.modules.baseline_layers import OrthogonalDecoderLayer, ReZeroDecoderLayer

from .language_model import LanguageModel
from .options import refuse
from .stacks import Decoder


@dataclass
class BaselineLanguageModelConfig(TransformerLanguageModelConfig):
    """Options of fairseq's Transformer LM."""

    decoder_input_dim: int = field(
        default=II("model.decoder_embed_dim"), metadata={"help": "decoder input dimension"}
    )
    decoder_output_dim: int = field(
        default=II("model.decoder_embed_dim"), metadata={"help": "decoder output dimension"}
    )


class ReZeroDecoder(Decoder):
    """fairseq's Transformer decoder over ReZero layers."""

    layer_class = ReZeroDecoderLayer


@register_model("transformer_lm_rezero", dataclass=BaselineLanguageModelConfig)
class ReZeroLanguageModel(LanguageModel):
    """The Transformer LM with zero-initialised residual weights instead of LayerNorm."""

    decoder_class = ReZeroDecoder

    @classmethod
    def build_model(cls, cfg, task):
        reason = "the layers of this model have no LayerNorm"
        refuse(
            cfg,
            reason,
            *["decoder_normalize_before", "layernorm_embedding", "scale_attn", "scale_fc"],
        )
        return super().build_model(cfg, task)


class OrthogonalDecoder(Decoder):
    """fairseq's Transformer decoder with all square matrices of its layers orthogonal."""

    layer_class = OrthogonalDecoderLayer


@register_model("transformer_lm_orthogonal", dataclass=BaselineLanguageModelConfig)
class OrthogonalLanguageModel(LanguageModel):
    """The Transformer LM with all square matrices of its layers orthogonal."""

    decoder_class = OrthogonalDecoder
