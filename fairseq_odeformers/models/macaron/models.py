"""The registered models: Macaron Net (Lu et al. 2019) on fairseq's Transformer and RoBERTa."""

from argparse import Namespace
from dataclasses import dataclass
from typing import Optional

from fairseq.models import register_model
from fairseq.models.roberta import RobertaModel
from fairseq.tasks import FairseqTask
from fairseq.utils import get_available_activation_fns
from omegaconf import II, DictConfig

from fairseq_odeformers.models.common.language_model import LanguageModel, LanguageModelConfig
from fairseq_odeformers.models.common.model import BaseModel
from fairseq_odeformers.models.common.prenorm_transformer import (
    PreNormTransformer,
    PreNormTransformerConfig,
)
from fairseq_odeformers.models.common.transformer_classifier import (
    TransformerClassifier,
    TransformerClassifierConfig,
)
from fairseq_odeformers.models.common.transformer_options import EncoderConfig
from fairseq_odeformers.options import option
from fairseq_odeformers.registry import register_preset

from .stacks import MacaronBertEncoder, MacaronDecoder, MacaronEncoder

NOT_QUANTIZED = {
    "quant_noise_scalar": "fairseq cannot quantise the output layers of half-step FFNs to integers"
}
ACTIVATION_FNS = tuple(get_available_activation_fns())


# --- translation -----------------------------------------------------------


@dataclass
class MacaronTransformerConfig(PreNormTransformerConfig):
    """Options of fairseq's Transformer; the defaults are the paper's base model."""

    attention_dropout: float = option(0.1, "dropout probability of attention weights")
    activation_dropout: float = option(
        0.1,
        "dropout probability after the activation function of both FFNs",
        argparse_alias="--relu-dropout",
    )
    encoder_ffn_embed_dim: int = option(
        1024, "inner width of each of the two FFNs of an encoder layer"
    )
    decoder_ffn_embed_dim: int = option(
        II("model.encoder_ffn_embed_dim"), "inner width of each of the two FFNs of a decoder layer"
    )


@register_model("macaron_transformer", dataclass=MacaronTransformerConfig)
class MacaronTransformerModel(PreNormTransformer):
    """Encoder-decoder Macaron Net; ``--arch macaron_transformer`` is the paper's base model.

    ``fairseq-generate --path`` also reads checkpoints in the layout of the authors' code.
    """

    encoder_class = MacaronEncoder
    decoder_class = MacaronDecoder
    ffns_per_layer = 2
    unsupported = NOT_QUANTIZED


# The models of section 4.1, with the inner width of the authors' code. The second name is the name
# in the authors' checkpoints.
register_preset(
    "macaron_transformer",
    "macaron_transformer_iwslt_de_en",
    "transformer_iwslt_de_en_macaron_v2",
    encoder_embed_dim=512,
    encoder_ffn_embed_dim=512,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
)
register_preset(
    "macaron_transformer",
    "macaron_transformer_wmt_en_de",
    "transformer_wmt_en_de_macaron_v2",
)
register_preset(
    "macaron_transformer",
    "macaron_transformer_wmt_en_de_big",
    "transformer_wmt_en_de_big_t2t_macaron",
    encoder_embed_dim=1024,
    encoder_ffn_embed_dim=2048,
    encoder_attention_heads=16,
    decoder_attention_heads=16,
    dropout=0.3,
)


# --- language model --------------------------------------------------------


@dataclass
class MacaronTransformerLanguageModelConfig(LanguageModelConfig):
    """Options of fairseq's Transformer LM; two of NormFormer's are not supported."""

    attention_dropout: float = option(0.1, "dropout probability of attention weights")
    activation_dropout: float = option(
        0.1, "dropout probability after the activation function of both FFNs"
    )
    decoder_ffn_embed_dim: int = option(1024, "inner width of each of the two FFNs of a layer")
    decoder_normalize_before: bool = option(True, "apply LayerNorm before each decoder sub-layer")


@register_model("macaron_transformer_lm", dataclass=MacaronTransformerLanguageModelConfig)
class MacaronTransformerLanguageModel(LanguageModel):
    """Causal language model over Macaron layers, for fairseq's ``language_modeling`` task.

    It is not in the paper. The defaults match the decoder of the paper's base translation model.
    """

    decoder_class = MacaronDecoder
    ffns_per_layer = 2
    unsupported = {
        **NOT_QUANTIZED,
        "scale_fc": "NormFormer defines it for a layer with one FFN",
        "scale_resids": "NormFormer defines it for a layer with one FFN",
    }


# --- BERT and classifier ---------------------------------------------------


@dataclass
class MacaronBertConfig(EncoderConfig):
    """Options of fairseq's RoBERTa; the defaults are the paper's model, with pre-norm layers."""

    encoder_layers: int = option(12, "number of layers")
    encoder_embed_dim: int = option(768, "embedding dimension")
    encoder_ffn_embed_dim: int = option(1536, "inner width of each of the two FFNs of a layer")
    encoder_attention_heads: int = option(12, "number of attention heads")
    encoder_normalize_before: bool = option(True, "apply LayerNorm before each sub-layer")
    encoder_learned_pos: bool = option(True, "use learned positional embeddings")
    attention_dropout: float = option(0.1, "dropout probability of attention weights")
    activation_fn: str = option(
        "gelu", "activation function of FFNs and language model head", choices=ACTIVATION_FNS
    )
    pooler_activation_fn: str = option(
        "tanh", "activation function of the classification heads", choices=ACTIVATION_FNS
    )
    pooler_dropout: float = option(0.0, "dropout probability in the classification heads")
    max_positions: Optional[int] = option(
        None, "maximum number of tokens per text (default: the task's)"
    )
    load_checkpoint_heads: bool = option(
        False, "(re-)register and load heads when loading checkpoints"
    )
    untie_weights_roberta: bool = option(False, "untie embeddings and language model head")
    segment_embeddings: bool = option(
        False, "add a learned embedding of the segment, the first or the second text, to each token"
    )
    spectral_norm_classification_head: bool = option(
        False, "apply spectral normalisation to the classification head"
    )


@register_model("macaron_bert", dataclass=MacaronBertConfig)
class MacaronBertModel(BaseModel, RobertaModel):
    """Masked language model with classification heads.

    fairseq's tasks ``masked_lm`` and ``sentence_prediction`` pretrain and fine-tune it like
    RoBERTa; ``bert_pretraining`` adds next-sentence prediction and turns on segment embeddings. The
    baseline is ``roberta_prenorm``. Unlike the paper's model, it has learned positions.
    """

    ffns_per_layer = 2
    unsupported = {
        **NOT_QUANTIZED,
        "spectral_norm_classification_head": (
            "fairseq's RoBERTa cannot load checkpoints with spectral normalisation of the head"
        ),
    }

    @classmethod
    def build_model(cls, cfg: DictConfig, task: FairseqTask) -> "MacaronBertModel":
        cls.check_options(cfg, task)
        positions = cfg.max_positions
        if positions is None:
            positions = getattr(task.cfg, "tokens_per_sample", task.max_positions())
        args = Namespace(**{**cfg, "max_positions": positions})
        return cls(args, MacaronBertEncoder(args, task.dictionary))


register_preset("macaron_bert", "macaron_bert_base")


@dataclass
class MacaronClassifierConfig(TransformerClassifierConfig):
    """Options of fairseq's encoder; the defaults have the size of ``transformer_classifier``."""

    encoder_ffn_embed_dim: int = option(512, "inner width of each of the two FFNs of a layer")
    encoder_normalize_before: bool = option(True, "apply LayerNorm before each sub-layer")


@register_model("macaron_classifier", dataclass=MacaronClassifierConfig)
class MacaronClassifier(TransformerClassifier):
    """Macaron Net's encoder as a classifier."""

    ffns_per_layer = 2
    encoder_class = MacaronEncoder
