"""Classifiers for raw text."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq.data import data_utils
from torch import Tensor, nn

from fairseq_odeformers.data.classification import classes_of
from fairseq_odeformers.errors import InputError
from fairseq_odeformers.text.raw_text import add_special_tokens, appends_eos, tokenize

from .texts import check_texts, check_whole, cut, truncate, warn_of_unknown


class Classification(NamedTuple):
    """The most probable class of a text, and the probabilities of all classes by name.

    A blank text has the label "" and no probabilities.
    """

    label: str
    probabilities: dict[str, float]


class Classifier(nn.Module):
    """One or several classifiers with the same classes, and the task of their data set.

    Attributes:
        classes: names of the classes.
        longest: maximum number of tokens of a text that all models accept.
        towers: number of texts that are encoded separately and classified together.
        separator: token between two texts that are encoded as one, or None.
        pairs: whether the texts of the data set are pairs.
    """

    def __init__(self, models, task):
        super().__init__()
        self.models = nn.ModuleList(models).eval()
        self.task = task
        self.appends_eos = appends_eos(task)
        self.classes = classes_of(task)
        self.longest = min(task.max_positions(), *(model.max_positions() for model in models))
        self.towers = getattr(task, "towers", 1)
        self.separator = getattr(task.cfg, "separator_token", None)
        joined = self.separator is not None and Path(task.cfg.data or "", "input1").is_dir()
        self.pairs = self.towers == 2 or joined

    def classify(self, texts: str | Iterable[str | Sequence[str]], batch_size: int = 32) -> Any:
        """Return the class of each text and the probabilities of all classes.

        Args:
            texts: a text, or a sequence of texts, such as a list or a Series of pandas; a model of
                pairs takes pairs of texts. They are tokenised as the data set was.
            batch_size: number of texts, of similar length, that are classified together.

        Returns:
            A :class:`Classification`, or a list of them; for errors, see :meth:`encode`.
        """
        if isinstance(batch_size, str):
            raise TypeError(
                f"batch_size {cut(repr(batch_size))}: give a whole number from 1; give a pair of "
                "texts as classify([(first, second)]), several texts as classify([first, second])"
            )
        if isinstance(texts, str):
            return self.classify([texts], batch_size)[0]
        inputs = [*map(self.encode, check_texts(texts, pairs=True))]
        return self.classify_tokens(inputs, batch_size)

    @torch.no_grad()
    def classify_tokens(self, inputs: list[list[Tensor]], batch_size: int) -> list[Classification]:
        """Classify the tokens of each text, as :meth:`encode` returns them."""
        check_whole("batch_size", batch_size)
        results = [Classification("", {}) for _ in inputs]
        texts = [index for index, tokens in enumerate(inputs) if tokens]
        order = sorted(texts, key=lambda index: len(inputs[index][0]))
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            net_input = self.collate([inputs[index] for index in batch])
            for index, row in zip(batch, average_probabilities(self.models, self.task, net_input)):
                shares = dict(zip(self.classes, row.tolist()))
                results[index] = Classification(max(shares, key=lambda name: shares[name]), shares)
        return results

    def encode(self, text: str | Sequence[str], place: str = "a text") -> list[Tensor]:
        """Encode a text or a joined pair as tokens (T), or each text of a pair.

        In the task's data set, the same text has the same tokens. The list is empty if a text is
        blank.

        Args:
            place: place of the text, for warnings about unknown symbols and truncation.

        Raises:
            TooLong: a text is longer than a model's positions, and the task does not truncate it.
            TypeError, InputError: see :meth:`split`.
        """
        dictionary = self.task.source_dictionary
        tokenized = [tokenize(self.task, part) for part in self.split(text)]
        parts = [[*map(dictionary.index, symbols)] for symbols, _ in tokenized]
        if not all(parts):
            return []
        for symbols, (_, texts) in zip(parts, tokenized):
            warn_of_unknown(dictionary, symbols, place, texts)
        if len(parts) > self.towers:
            parts = [self.join(*parts)]
        cfg, always = self.task.cfg, hasattr(self.task, "towers")
        encoded = (add_special_tokens(self.task, part, self.appends_eos) for part in parts)
        return [
            truncate(tokens, self.longest, cfg, dictionary, always=always, place=place)
            for tokens in encoded
        ]

    def split(self, text: str | Sequence[str]) -> list[str]:
        """Split an input into its texts: one, or two for a model of pairs.

        Raises:
            TypeError: the argument is neither a text nor a sequence; see :func:`.check_texts`.
            InputError: the model takes more or fewer texts.
        """
        parts = check_texts([text] if isinstance(text, str) else text)
        joins = len(parts) == 2 and self.towers == 1 and self.separator is not None
        if len(parts) != self.towers and not joins:
            advice = {
                1: "single texts; pass one str per text",
                2: "pairs of texts; pass each pair as (first, second)",
            }
            raise InputError(f"{cut(repr(text))}: the model classifies {advice[self.towers]}")
        return parts

    def join(self, first: list[int], second: list[int]) -> list[int]:
        """Join the tokens of a pair that one encoder reads, as fairseq's task does."""
        assert self.separator is not None
        end = [self.task.source_dictionary.eos()] if self.appends_eos else []
        return [*first, *end, self.separator, *second]

    def collate(self, inputs: list[list[Tensor]]) -> dict[str, Tensor]:
        """Collate texts (B), or pairs of texts, to the arguments of the models."""
        device = next(self.parameters()).device
        padding = self.task.source_dictionary.pad()
        net_input = {}
        for suffix, texts in zip(("", "1"), zip(*inputs)):
            lengths = torch.tensor([len(tokens) for tokens in texts], device=device)
            batch = data_utils.collate_tokens(texts, padding).to(device)
            net_input.update({f"src_tokens{suffix}": batch, f"src_lengths{suffix}": lengths})
        return net_input


def average_probabilities(models, task, net_input: dict[str, Tensor]) -> Tensor:
    """Return the probabilities of the classes (B, K), averaged over the models."""
    name = task.cfg.classification_head_name
    outputs = (m(**net_input, features_only=True, classification_head_name=name) for m in models)
    probs = [m.get_normalized_probs(out, log_probs=False) for m, out in zip(models, outputs)]
    return torch.stack(probs).mean(0)
