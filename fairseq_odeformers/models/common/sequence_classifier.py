"""The base of all classifiers: an encoder with pooling and heads, for texts or pairs of texts."""

import logging
from argparse import Namespace
from dataclasses import dataclass
from typing import Any, Optional

import torch
import torch.nn.functional as F
from fairseq.dataclass import FairseqDataclass
from fairseq.models import FairseqEncoder, FairseqEncoderModel
from fairseq.models.transformer import Embedding
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn

from fairseq_odeformers.modules.classification_head import POOLING, ClassificationHead
from fairseq_odeformers.modules.intensity_embedding import IntensityEmbedding
from fairseq_odeformers.options import option
from fairseq_odeformers.registry import Kind

from .model import BaseModel

logger = logging.getLogger(__name__)


@dataclass
class SequenceClassifierConfig(FairseqDataclass):
    """Options of the pooling and the classification heads."""

    pooling: str = option(
        "mean",
        "pooling over the tokens of a text: mean, max, or first (the state of the first token)",
        choices=tuple(POOLING),
    )
    pooled_layer_norm: bool = option(True, "apply LayerNorm to the pooled states")
    classifier_hidden_layers: int = option(
        0,
        "number of ReLU layers before the last layer of the classification head",
        at_least=0,
        at_most=1000,
    )
    classifier_hidden_dim: Optional[int] = option(
        None,
        "width of the ReLU layers in the classification head (default: the encoder's width)",
        at_least=1,
        at_most=65_536,
    )
    pair_encoding: str = option(
        "separate",
        "encoding of the two texts of a pair in --lra-task retrieval: separate encodes each text "
        "and combines them in the head; joined encodes both as one text",
        choices=("separate", "joined"),
    )
    max_positions: Optional[int] = option(
        None, "maximum number of tokens per text (default: the task's)"
    )


class SequenceClassifier(BaseModel, FairseqEncoderModel):
    """A classifier: pooling and heads over any encoder, with the interface of fairseq's RoBERTa.

    A subclass sets ``encoder_class`` and is registered with a config that derives from
    :class:`SequenceClassifierConfig` and has the option ``encoder_embed_dim``. The tasks that train
    it register a head for their classes. ``sentence_prediction`` joins the texts of a pair with a
    separator; ``long_range_arena`` passes them separately (see ``pair_encoding``).

    The encoder is a fairseq encoder, constructed from the config (with ``max_source_positions``), a
    dictionary and an embedding. The embedding is an ``embedding_class``, constructed from the
    number of symbols, the width and the index of padding. If the task has ``pixel_values``, the
    embedding maps the intensities of pixels instead.

    The encoder returns a dictionary with ``encoder_out`` and ``encoder_padding_mask``, as fairseq's
    Transformer does. The dictionary may also have the entries ``regularizers`` and ``statistics``,
    dictionaries of tensors (B) with one value per text. Criterions add weighted regularisers to the
    loss, and only log statistics.
    """

    kinds = (Kind.CLASSIFICATION,)
    encoder_class: type[FairseqEncoder]
    embedding_class = staticmethod(Embedding)

    def __init__(self, cfg: DictConfig, encoder: FairseqEncoder, towers: int = 1):
        super().__init__(encoder)
        # fairseq's sentence_prediction criterion reads RoBERTa's options from this attribute.
        self.args = Namespace(**cfg)  # pyright: ignore[reportCallIssue]
        self.towers = towers
        self.joins = cfg.pair_encoding == "joined"
        self.pool = POOLING[cfg.pooling]
        self.classification_heads = nn.ModuleDict()

    @classmethod
    def build_model(cls, cfg: DictConfig, task: FairseqTask) -> "SequenceClassifier":
        """Build a classifier for the texts of a task; the task registers heads, as in fairseq.

        ``encoder_class`` is constructed from the options, the dictionary, and an embedding of
        tokens (or pixels) with the width :meth:`embedding_dim`.

        Raises:
            ValueError: as in :meth:`check_options`.
        """
        cls.check_options(cfg, task)
        positions = task.max_positions() if cfg.max_positions is None else cfg.max_positions
        joined = getattr(task, "towers", 1) if cfg.pair_encoding == "joined" else 1
        cfg = OmegaConf.create({**cfg, "max_source_positions": joined * positions})
        dictionary, width = task.source_dictionary, cls.embedding_dim(cfg)
        if getattr(task, "pixel_values", False):
            embed_tokens = IntensityEmbedding(dictionary, width)
        else:
            embed_tokens = cls.embedding_class(len(dictionary), width, dictionary.pad())
        encoder = cls.encoder_class(cfg, dictionary, embed_tokens)
        return cls(cfg, encoder, getattr(task, "towers", 1))

    @classmethod
    def embedding_dim(cls, cfg: DictConfig) -> int:
        """Return the width of the embedding, by default the encoder's."""
        return cfg.encoder_embed_dim

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        src_tokens1: Tensor | None = None,
        src_lengths1: Tensor | None = None,
        features_only: bool = True,
        classification_head_name: str | None = None,
    ) -> tuple[Tensor, dict[str, dict[str, Tensor]]]:
        """Compute the scores of K classes.

        Args:
            src_tokens, src_lengths: texts (B, T) and their lengths (B).
            src_tokens1, src_lengths1: second texts of pairs (B, S) and their lengths (B).
            features_only: ignored; RoBERTa uses it to omit its language model head.
            classification_head_name: name of a registered head.

        Returns:
            Scores (B, K), or the states (B, T, C) if no head is named; and the dictionaries
            ``regularizers`` and ``statistics`` of tensors (B), one value per text or pair.
        """
        if self.joins and src_tokens1 is not None:
            src_tokens, src_lengths = self.join(src_tokens, src_tokens1)
            src_tokens1 = None
        states, padding_mask, extra = self.encode(src_tokens, src_lengths)
        if classification_head_name is None:
            return states, extra
        towers = [self.pool(states, padding_mask)]
        if src_tokens1 is not None:
            states, padding_mask, extra1 = self.encode(src_tokens1, src_lengths1)
            towers.append(self.pool(states, padding_mask))
            extra = {
                kind: {name: value + extra1[kind][name] for name, value in values.items()}
                for kind, values in extra.items()
            }
        return self.classification_heads[classification_head_name](*towers), extra

    def join(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Join pairs (B, T) and (B, S) to tokens (B, T + S), padded at the end, and lengths (B)."""
        tokens = torch.cat([first, second], 1)
        padding = tokens.eq(self.encoder.dictionary.pad()).int()
        order = padding.argsort(dim=1, stable=True)
        return tokens.gather(1, order), (1 - padding).sum(1)

    def max_positions(self) -> int:
        """Return the maximum length of a text, or of each text if the two of a pair are joined."""
        positions = super().max_positions()
        return positions // 2 if self.joins and self.towers == 2 else positions

    def encode(
        self, src_tokens: Tensor, src_lengths: Tensor | None
    ) -> tuple[Tensor, Tensor, dict[str, dict[str, Tensor]]]:
        """Return the states (B, T, C) of texts, their padding mask (B, T), and a dictionary.

        The dictionary contains the dictionaries ``regularizers`` and ``statistics`` of tensors (B).
        """
        out = self.encoder(src_tokens, src_lengths)
        states, padding_mask = (out[name][0] for name in ("encoder_out", "encoder_padding_mask"))
        extra = {kind: out.get(kind, {}) for kind in ("regularizers", "statistics")}
        return states.transpose(0, 1), padding_mask, extra

    def register_classification_head(self, name: str, num_classes: int, **unused: Any) -> None:
        """Add a head for *num_classes* classes, or replace the head of this name.

        Raises:
            ValueError: a torch module cannot have this name.
        """
        if "." in name or not name:
            raise ValueError(f"--classification-head-name {name}: choose a name without a dot")
        self.classification_heads[name] = ClassificationHead(
            self.args.encoder_embed_dim,
            num_classes,
            self.args.pooled_layer_norm,
            self.args.classifier_hidden_layers,
            1 if self.joins else self.towers,
            self.args.classifier_hidden_dim,
        )

    def get_normalized_probs(
        self, net_output: tuple[Tensor, dict], log_probs: bool, sample: dict | None = None
    ) -> Tensor:
        """Return the probabilities of the classes (B, K), or their logarithms, in float32."""
        normalize = F.log_softmax if log_probs else F.softmax
        return normalize(net_output[0].float(), dim=-1)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Drop the heads of a checkpoint that do not fit; these heads keep their initial values.

        This way, an encoder trained on one task can initialise another (``--finetune-from-model``).
        """
        super().upgrade_state_dict_named(state_dict, name)
        prefix = f"{name}.classification_heads." if name else "classification_heads."
        saved = {key: state_dict.pop(key) for key in [*state_dict] if key.startswith(prefix)}
        for head, module in self.classification_heads.items():
            start = f"{prefix}{head}."
            initial = module.state_dict(prefix=start)
            values = {key: saved.pop(key) for key in [*saved] if key.startswith(start)}
            if {k: v.shape for k, v in values.items()} != {k: v.shape for k, v in initial.items()}:
                logger.warning(
                    f"{start[:-1]} is not in the checkpoint or has different shapes there; it "
                    "keeps its initial values"
                )
                values = initial
            state_dict.update(values)
        for key in saved:
            logger.warning(f"ignoring {key} in the checkpoint: the model has no such head")
