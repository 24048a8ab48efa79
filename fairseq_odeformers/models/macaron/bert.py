"""The Macaron Net as BERT (Lu et al. 2019, section 4): fairseq's RoBERTa with Macaron layers."""

from argparse import Namespace
from dataclasses import dataclass
from typing import Optional

from fairseq import utils
from fairseq.dataclass import ChoiceEnum
from fairseq.models import register_model, register_model_architecture
from fairseq.models.roberta import RobertaEncoder, RobertaModel
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.transformer_sentence_encoder import init_bert_params

from fairseq_odeformers.options import (
    DataclassOptions,
    EncoderConfig,
    check_layers,
    option,
    refuse,
)

from .translation import MacaronEncoder, check_config

NO_SPECTRAL_NORM = "fairseq's RoBERTa loads no checkpoint whose head has spectral normalization"


@dataclass
class MacaronBertConfig(EncoderConfig):
    """Options of fairseq's RoBERTa; the defaults are the paper's model, with pre-norm layers."""

    encoder_layers: int = option(12, "number of layers")
    encoder_embed_dim: int = option(768, "embedding dimension")
    encoder_ffn_embed_dim: int = option(1536, "inner width of each of the two FFNs of a layer")
    encoder_attention_heads: int = option(12, "number of attention heads")
    encoder_normalize_before: bool = option(True, "apply layernorm before each block")
    encoder_learned_pos: bool = option(True, "use learned positional embeddings")
    attention_dropout: float = option(0.1, "dropout probability for attention weights")
    activation_fn: ChoiceEnum(utils.get_available_activation_fns()) = option(
        "gelu", "activation function of FFNs and language model head"
    )
    pooler_activation_fn: ChoiceEnum(utils.get_available_activation_fns()) = option(
        "tanh", "activation function of the classification heads"
    )
    pooler_dropout: float = option(0.0, "dropout probability in the classification heads")
    max_positions: Optional[int] = option(None, "longest input (default: that of the task)")
    load_checkpoint_heads: bool = option(
        False, "(re-)register and load heads when loading checkpoints"
    )
    untie_weights_roberta: bool = option(False, "untie embeddings and language model head")
    spectral_norm_classification_head: bool = option(
        False, "apply spectral normalization on the classification head"
    )


class MacaronBertEncoder(RobertaEncoder):
    """fairseq's RoBERTa encoder over Macaron layers."""

    def build_encoder(self, args, dictionary, embed_tokens):
        encoder = MacaronEncoder(TransformerConfig.from_namespace(args), dictionary, embed_tokens)
        return encoder.apply(init_bert_params)


@register_model("macaron_bert", dataclass=MacaronBertConfig)
class MacaronBertModel(DataclassOptions, RobertaModel):
    """Masked language model with classification heads.

    fairseq's tasks ``masked_lm`` and ``sentence_prediction`` pretrain and fine-tune it as they do
    RoBERTa; its twin is ``roberta_prenorm``. Unlike the paper's model it has RoBERTa's learned
    positions and no next-sentence prediction.
    """

    @classmethod
    def build_model(cls, cfg, task):
        check_layers(cfg, "encoder")
        check_config(cfg, "encoder")
        refuse(cfg, NO_SPECTRAL_NORM, "spectral_norm_classification_head")
        args = Namespace(**cfg)
        if args.max_positions is None:
            args.max_positions = getattr(task.cfg, "tokens_per_sample", task.max_positions())
        return cls(args, MacaronBertEncoder(args, task.dictionary))


@register_model_architecture("macaron_bert", "macaron_bert_base")
def macaron_bert_base(args):
    """The defaults."""
