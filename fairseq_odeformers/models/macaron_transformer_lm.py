"""The Macaron Net as a language model: fairseq's Transformer LM with Macaron layers."""

from argparse import Namespace
from dataclasses import dataclass, field

from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig

from .macaron_transformer import MacaronDecoder, check_parity


@dataclass
class MacaronTransformerLanguageModelConfig(TransformerLanguageModelConfig):
    """Options of fairseq's Transformer LM, but for two of NormFormer's."""

    decoder_ffn_embed_dim: int = field(
        default=1024, metadata={"help": "inner width of each of the two FFNs of a layer"}
    )
    decoder_normalize_before: bool = field(
        default=True, metadata={"help": "apply layernorm before each decoder block"}
    )


@register_model("macaron_transformer_lm", dataclass=MacaronTransformerLanguageModelConfig)
class MacaronTransformerLanguageModel(TransformerLanguageModel):
    """Causal language model of Macaron layers, for fairseq's ``language_modeling`` task.

    The defaults are the decoder of the paper's base translation model; the paper has no language
    model of its own.

    Raises:
        ValueError: ``--scale-fc`` or ``--scale-resids``, defined for layers with one FFN, is given.
    """

    @classmethod
    def build_model(cls, cfg, task):
        for name in ("scale_fc", "scale_resids"):
            if cfg[name]:
                option = "--" + name.replace("_", "-")
                raise ValueError(
                    f"{option}: NormFormer defines it for a layer with one feed-forward network, "
                    "a Macaron layer has two; leave it out, or use --arch transformer_lm"
                )
        check_parity(cfg, "decoder")
        # fairseq's model makes the embeddings, in whatever form the options ask for.
        embed_tokens = super().build_model(cfg, task).decoder.embed_tokens
        decoder_cfg = TransformerConfig.from_namespace(Namespace(**cfg))
        return cls(
            MacaronDecoder(decoder_cfg, task.target_dictionary, embed_tokens, no_encoder_attn=True)
        )
