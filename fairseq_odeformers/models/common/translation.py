"""Translators: what all have in common, and models without fairseq's Transformer config."""

from dataclasses import dataclass
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import (
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    FairseqIncrementalDecoder,
)
from fairseq.models.transformer import Embedding
from fairseq.models.transformer.transformer_config import (
    DEFAULT_MAX_SOURCE_POSITIONS,
    DEFAULT_MAX_TARGET_POSITIONS,
)
from fairseq.tasks import FairseqTask
from omegaconf import II, DictConfig
from torch import nn

from fairseq_odeformers.options import flag, option

from .model import BaseModel


class Translator(BaseModel):
    """Mixin for all translators, over fairseq's Transformer config or without it.

    Its output has the ``regularizers`` and ``statistics`` of the encoder as well as the decoder's.
    """

    decoder: nn.Module

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.decoder.register_forward_hook(add_encoder_values, with_kwargs=True)

    def prepare_for_inference_(self, cfg: FairseqConfig) -> None:
        """Check the options of generation; fairseq calls this method before a model generates.

        Raises:
            ValueError: an option asks for attention weights, which the decoder does not return.
        """
        super().prepare_for_inference_(cfg)  # pyright: ignore[reportAttributeAccessIssue]
        for name in ("print_alignment", "replace_unk"):
            value = getattr(cfg.generation, name, None)
            if value not in (None, False) and not returns_attention(self):
                raise ValueError(
                    f"{flag(name)} {value}: this model has no attention weights to align target "
                    "and source; leave the option out"
                )


@torch.no_grad()
def returns_attention(model: Any) -> bool:
    """Return whether a translator returns attention weights, by decoding an empty text."""
    device = next(model.parameters()).device
    source, target = (
        torch.tensor([[side.dictionary.eos()]], device=device)
        for side in (model.encoder, model.decoder)
    )
    _, extra = model(source, torch.tensor([1], device=device), target)
    return extra["attn"] is not None and extra["attn"][0] is not None


def add_encoder_values(decoder: nn.Module, args: tuple, kwargs: dict[str, Any], output: Any) -> Any:
    """Add the values of the encoder to the output of a decoder; this is a forward hook.

    fairseq passes the encoder's dictionary to the decoder, and only returns the decoder's output.
    Regularisers with the same name are added up.
    """
    encoder_out = kwargs.get("encoder_out") or {}
    if not encoder_out.keys() & {"regularizers", "statistics"}:
        return output
    x, extra, *others = output
    regularizers = dict(extra.get("regularizers", {}))
    for name, value in encoder_out.get("regularizers", {}).items():
        regularizers[name] = regularizers.get(name, 0) + value
    statistics = {**encoder_out.get("statistics", {}), **extra.get("statistics", {})}
    return x, {**extra, "regularizers": regularizers, "statistics": statistics}, *others


@dataclass
class TranslationConfig(FairseqDataclass):
    """Options of any decoder and its embeddings."""

    decoder_embed_dim: int = option(
        II("model.encoder_embed_dim"),
        "width of the decoder; it must equal the width of the encoder",
    )
    decoder_ffn_embed_dim: int = option(
        II("model.encoder_ffn_embed_dim"), "inner width of the decoder's FFN"
    )
    decoder_attention_heads: int = option(
        II("model.encoder_attention_heads"), "number of attention heads in the decoder"
    )
    max_source_positions: int = option(
        DEFAULT_MAX_SOURCE_POSITIONS, "maximum number of source tokens"
    )
    max_target_positions: int = option(
        DEFAULT_MAX_TARGET_POSITIONS, "maximum number of target tokens"
    )
    share_all_embeddings: bool = option(
        False, "share encoder, decoder and output embeddings; needs a joined dictionary"
    )
    share_decoder_input_output_embed: bool = option(
        False, "share decoder input and output embeddings"
    )


class TranslationModel(Translator, FairseqEncoderDecoderModel):
    """A translator over any encoder and decoder, without fairseq's Transformer config.

    A subclass sets ``encoder_class`` and ``decoder_class``. Each is constructed from a config
    derived from :class:`TranslationConfig`, a dictionary and an embedding. ``forward`` is inherited
    from fairseq: ``decoder(prev_output_tokens, encoder(src_tokens, ...))``.
    """

    encoder_class: type[FairseqEncoder]
    decoder_class: type[FairseqIncrementalDecoder]

    @classmethod
    def build_model(cls, cfg: DictConfig, task: FairseqTask) -> "TranslationModel":
        """Build a model for the languages of a task.

        Raises:
            ValueError: the widths of encoder and decoder differ, or embeddings are to be shared
                between two different dictionaries; or as in :meth:`check_options`.
        """
        cls.check_options(cfg, task)
        if cfg.encoder_embed_dim != cfg.decoder_embed_dim:
            raise ValueError(
                f"--encoder-embed-dim {cfg.encoder_embed_dim} and --decoder-embed-dim "
                f"{cfg.decoder_embed_dim} differ: the decoder attends to the encoder output "
                "directly; set both to the same width"
            )
        source, target = task.source_dictionary, task.target_dictionary
        encoder_embed = Embedding(len(source), cfg.encoder_embed_dim, source.pad())
        if not cfg.share_all_embeddings:
            decoder_embed = Embedding(len(target), cfg.decoder_embed_dim, target.pad())
        elif source == target:
            decoder_embed = encoder_embed
        else:
            raise ValueError(
                "--share-all-embeddings needs one dictionary, but source and target have two, with "
                f"{len(source)} and {len(target)} symbols; prepare the data with "
                "fairseq-preprocess --joined-dictionary, or choose an --arch and options without it"
            )
        encoder = cls.encoder_class(cfg, source, encoder_embed)
        return cls(encoder, cls.decoder_class(cfg, target, decoder_embed))
