"""The Macaron Net as a language model: fairseq's Transformer LM with Macaron layers."""

from dataclasses import dataclass

from fairseq.models import register_model

from fairseq_odeformers.models.common.language_model import LanguageModel, LanguageModelConfig
from fairseq_odeformers.options import option, refuse

from .translation import MacaronDecoder, check_config


@dataclass
class MacaronTransformerLanguageModelConfig(LanguageModelConfig):
    """Options of fairseq's Transformer LM, but for two of NormFormer's."""

    attention_dropout: float = option(0.1, "dropout probability for attention weights")
    activation_dropout: float = option(0.1, "dropout probability after activation in both FFNs")
    decoder_ffn_embed_dim: int = option(1024, "inner width of each of the two FFNs of a layer")
    decoder_normalize_before: bool = option(True, "apply layernorm before each decoder block")


@register_model("macaron_transformer_lm", dataclass=MacaronTransformerLanguageModelConfig)
class MacaronTransformerLanguageModel(LanguageModel):
    """Causal language model of Macaron layers, for fairseq's ``language_modeling`` task.

    The defaults are those of the decoder of the paper's base translation model; the paper has no
    language model of its own.

    Raises:
        ValueError: ``--scale-fc`` or ``--scale-resids``, defined for layers with one FFN, is given.
    """

    decoder_class = MacaronDecoder

    @classmethod
    def build_model(cls, cfg, task):
        refuse(cfg, "NormFormer defines it for a layer with one FFN", "scale_fc", "scale_resids")
        check_config(cfg, "decoder")
        return super().build_model(cfg, task)
