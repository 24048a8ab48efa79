"""Language models of fairseq's Transformer in variants: the baselines of TransJect's Table 3."""

from fairseq.models import register_model

from fairseq_odeformers.models.common.language_model import LanguageModel, LanguageModelConfig
from fairseq_odeformers.models.common.stacks import Decoder
from fairseq_odeformers.options import NO_LAYER_NORM, NO_QUANT_NOISE, refuse

from .layers import OrthogonalDecoderLayer, ReZeroDecoderLayer


class ReZeroDecoder(Decoder):
    """fairseq's Transformer decoder over ReZero layers."""

    layer_class = ReZeroDecoderLayer


@register_model("transformer_lm_rezero", dataclass=LanguageModelConfig)
class ReZeroLanguageModel(LanguageModel):
    """The Transformer LM with zero-initialised residual weights instead of LayerNorm."""

    decoder_class = ReZeroDecoder

    @classmethod
    def build_model(cls, cfg, task):
        normalizing = ("decoder_normalize_before", "layernorm_embedding", "scale_attn", "scale_fc")
        refuse(cfg, NO_LAYER_NORM, *normalizing)
        return super().build_model(cfg, task)


class OrthogonalDecoder(Decoder):
    """fairseq's Transformer decoder with all matrices of its layers orthogonal."""

    layer_class = OrthogonalDecoderLayer


@register_model("transformer_lm_orthogonal", dataclass=LanguageModelConfig)
class OrthogonalLanguageModel(LanguageModel):
    """The Transformer LM with all matrices of its layers orthogonal."""

    decoder_class = OrthogonalDecoder

    @classmethod
    def build_model(cls, cfg, task):
        refuse(cfg, NO_QUANT_NOISE, "quant_noise_pq", "quant_noise_scalar")
        return super().build_model(cfg, task)
