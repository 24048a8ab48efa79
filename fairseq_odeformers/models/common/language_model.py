"""Causal language models: fairseq's Transformer LM over any decoder, and LMs without its config."""

import re
from dataclasses import dataclass
from typing import Optional

from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.models import FairseqIncrementalDecoder, FairseqLanguageModel
from fairseq.models.transformer import Embedding, TransformerDecoderBase
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig
from fairseq.modules import AdaptiveSoftmax
from fairseq.tasks import FairseqTask
from fairseq.utils import eval_str_list
from omegaconf import II, DictConfig, OmegaConf
from torch import nn

from fairseq_odeformers.options import option

from .model import BaseModel
from .transformer import drop_embeddings, stack_config

NO_LAYERS = {"decoder_layers": 0, "decoder_layers_to_keep": None, "base_layers": 0}


@dataclass
class LanguageModelConfig(TransformerLanguageModelConfig):
    """Options of fairseq's Transformer LM; by default, input and output have the layers' width."""

    decoder_input_dim: int = option(II("model.decoder_embed_dim"), "width of the input embeddings")
    decoder_output_dim: int = option(
        II("model.decoder_embed_dim"), "width of the output embeddings"
    )
    embedding_dropout: float = option(II("model.dropout"), "dropout probability of embeddings")


class LanguageModel(BaseModel, TransformerLanguageModel):
    """A language model: fairseq's Transformer LM over your decoder, post-norm by default.

    :class:`LanguageModelConfig` declares its options. A subclass may set ``decoder_class`` to a
    class that derives from fairseq's decoder.
    """

    decoder_class: type[TransformerDecoderBase] = TransformerDecoderBase

    @classmethod
    def build_model(cls, cfg: DictConfig, task: FairseqTask) -> "LanguageModel":
        """Build a model for the language of a task.

        Raises:
            ValueError: as in :meth:`check_options` and :func:`check_cutoffs`.
        """
        cls.check_options(cfg, task)
        check_cutoffs(cfg, task.target_dictionary)
        # fairseq's model without layers provides the embeddings that the options ask for. It also
        # draws an output layer: without it, a seed would yield different initial weights.
        embeddings = super().build_model(OmegaConf.merge(cfg, NO_LAYERS), task).decoder
        decoder = cls.decoder_class(
            stack_config(cfg, max_target_positions=embeddings.max_target_positions),
            task.target_dictionary,
            embeddings.embed_tokens,
            no_encoder_attn=True,
        )
        drop_embeddings(cfg, decoder)
        return cls(decoder)


@dataclass
class AdaptiveSoftmaxConfig(FairseqDataclass):
    """Options of fairseq's adaptive softmax (Grave et al. 2017)."""

    adaptive_softmax_cutoff: Optional[str] = option(
        None, "cutoffs of adaptive softmax, such as 2000,10000; needs --criterion adaptive_loss"
    )
    adaptive_softmax_dropout: float = option(
        0.0, "dropout probability in the tails of the adaptive softmax"
    )
    adaptive_softmax_factor: float = option(
        4.0, "ratio between the widths of successive tails of the adaptive softmax", at_least=1
    )


@dataclass
class DecoderOnlyConfig(AdaptiveSoftmaxConfig):
    """Options of any causal decoder and its embeddings, with fairseq's LM sizes as defaults."""

    decoder_embed_dim: int = option(512, "decoder width")
    decoder_ffn_embed_dim: int = option(2048, "inner width of the decoder's FFN")
    decoder_attention_heads: int = option(8, "number of attention heads in the decoder")
    share_decoder_input_output_embed: bool = option(False, "share input and output embeddings")
    tokens_per_sample: int = II("task.tokens_per_sample")
    max_target_positions: Optional[int] = II("task.max_target_positions")


class DecoderOnlyModel(BaseModel, FairseqLanguageModel):
    """A language model over any decoder, without fairseq's Transformer config.

    A subclass sets ``decoder_class``, a class constructed from the config, a dictionary and an
    embedding.
    """

    decoder_class: type[FairseqIncrementalDecoder]

    @classmethod
    def check_config(cls, cfg: DictConfig) -> None:
        """Check the options, and that embeddings are not shared with an adaptive softmax."""
        super().check_config(cfg)
        cutoffs = getattr(cfg, "adaptive_softmax_cutoff", None)
        if cutoffs and getattr(cfg, "share_decoder_input_output_embed", False):
            raise ValueError(
                f"--adaptive-softmax-cutoff {cutoffs}: adaptive softmax has no output embeddings; "
                "leave --share-decoder-input-output-embed out"
            )

    @classmethod
    def build_model(cls, cfg: DictConfig, task: FairseqTask) -> "DecoderOnlyModel":
        """Build a model for the language of a task.

        Raises:
            ValueError: as in :meth:`check_options` and :func:`check_cutoffs`.
        """
        cls.check_options(cfg, task)
        check_cutoffs(cfg, task.target_dictionary)
        positions = cfg.max_target_positions or cfg.tokens_per_sample
        merged = OmegaConf.merge(cfg, {"max_target_positions": positions})
        embed_tokens = cls.build_embedding(cfg, task.source_dictionary)
        return cls(cls.decoder_class(merged, task.target_dictionary, embed_tokens))

    @classmethod
    def build_embedding(cls, cfg: DictConfig, dictionary: Dictionary) -> nn.Embedding:
        """Build the embedding (V, C) of the symbols of a dictionary."""
        return Embedding(len(dictionary), cfg.decoder_embed_dim, dictionary.pad())


def check_cutoffs(cfg: DictConfig, dictionary: Dictionary) -> None:
    """Check that the cutoffs of adaptive softmax can divide a dictionary.

    Raises:
        ValueError: the cutoffs are not increasing numbers up to the size of the dictionary.
    """
    cutoffs = getattr(cfg, "adaptive_softmax_cutoff", None)
    if cutoffs is None:
        return
    limits = [0, *map(int, re.findall(r"\d+", cutoffs)), len(dictionary) + 1]
    rising = all(low < high for low, high in zip(limits, limits[1:]))
    if not rising or not re.fullmatch(r"[\[(]?\d+( *, *\d+)*[\])]?", cutoffs):
        raise ValueError(
            f"--adaptive-softmax-cutoff {cutoffs}: give increasing numbers from 1 to "
            f"{len(dictionary)}, the number of symbols in the dictionary, such as 10,20"
        )


def adaptive_softmax(cfg: DictConfig, embed_dim: int, dictionary: Dictionary) -> AdaptiveSoftmax:
    """Build fairseq's adaptive softmax from the options in :class:`AdaptiveSoftmaxConfig`."""
    return AdaptiveSoftmax(
        len(dictionary),
        embed_dim,
        eval_str_list(cfg.adaptive_softmax_cutoff, type=int),
        dropout=cfg.adaptive_softmax_dropout,
        factor=cfg.adaptive_softmax_factor,
    )
