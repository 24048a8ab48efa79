"""Causal language models: fairseq's Transformer LM over any decoder, and one with other options."""

from dataclasses import dataclass
from typing import Optional

from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.models import FairseqIncrementalDecoder, FairseqLanguageModel
from fairseq.models.transformer import Embedding, TransformerDecoderBase
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig
from fairseq.tasks import FairseqTask
from omegaconf import II, DictConfig, OmegaConf
from torch import nn

from fairseq_odeformers.options import option

from .model import BaseModel
from .transformer import drop_embeddings, stack_config

NO_LAYERS = {"decoder_layers": 0, "decoder_layers_to_keep": None, "base_layers": 0}


@dataclass
class LanguageModelConfig(TransformerLanguageModelConfig):
    """Options of fairseq's Transformer LM; input and output have the layers' width by default."""

    decoder_input_dim: int = option(II("model.decoder_embed_dim"), "decoder input dimension")
    decoder_output_dim: int = option(II("model.decoder_embed_dim"), "decoder output dimension")
    embedding_dropout: float = option(II("model.dropout"), "dropout probability of embeddings")


class LanguageModel(BaseModel, TransformerLanguageModel):
    """fairseq's Transformer LM, with :class:`LanguageModelConfig`.

    A subclass may name a ``decoder_class`` that derives from fairseq's.
    """

    decoder_class: type[TransformerDecoderBase] = TransformerDecoderBase

    @classmethod
    def build_model(cls, cfg: DictConfig, task: FairseqTask) -> "LanguageModel":
        """A model of the language of a task.

        Raises:
            ValueError: see :meth:`check_options`.
        """
        cls.check_options(cfg, task)
        # fairseq's model makes the embeddings, in whatever form the options ask for.
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
class DecoderOnlyConfig(FairseqDataclass):
    """Options of any causal decoder and its embeddings, with the sizes of fairseq's LM."""

    decoder_embed_dim: int = option(512, "decoder width")
    decoder_ffn_embed_dim: int = option(2048, "decoder inner width")
    decoder_attention_heads: int = option(8, "decoder attention heads")
    share_decoder_input_output_embed: bool = option(False, "share input and output embeddings")
    tokens_per_sample: int = II("task.tokens_per_sample")
    max_target_positions: Optional[int] = II("task.max_target_positions")


class DecoderOnlyModel(BaseModel, FairseqLanguageModel):
    """A language model that does not take fairseq's Transformer config.

    It is a subclass that names its ``decoder_class``, which is made of the config, a dictionary and
    an embedding.
    """

    decoder_class: type[FairseqIncrementalDecoder]

    @classmethod
    def build_model(cls, cfg: DictConfig, task: FairseqTask) -> "DecoderOnlyModel":
        """A model of the language of a task.

        Raises:
            ValueError: see :meth:`check_options`.
        """
        cls.check_options(cfg, task)
        positions = cfg.max_target_positions or cfg.tokens_per_sample
        merged = OmegaConf.merge(cfg, {"max_target_positions": positions})
        embed_tokens = cls.build_embedding(cfg, task.source_dictionary)
        return cls(cls.decoder_class(merged, task.target_dictionary, embed_tokens))

    @classmethod
    def build_embedding(cls, cfg: DictConfig, dictionary: Dictionary) -> nn.Embedding:
        """The embedding of the symbols of a dictionary."""
        return Embedding(len(dictionary), cfg.decoder_embed_dim, dictionary.pad())
