"""Trained models from Python: a line loads one, and a line uses it.

    from fairseq_odeformers import load_translator

    translator = load_translator("checkpoint_best.pt", "data-bin", bpe="subword_nmt",
                                 bpe_codes="code").cuda().half()
    translator.translate(["ein mann geht .", "eine frau liest ."], beam=5)

What is loaded is a module of torch, which ``cuda``, ``to``, ``half`` and the like move and convert.
Translators and language models are fairseq's own :class:`~fairseq.hub_utils.GeneratorHubInterface`,
which ``from_pretrained`` of their classes returns as well.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from fairseq import utils
from fairseq.data import data_utils
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.models import FairseqEncoderDecoderModel, FairseqLanguageModel
from torch import Tensor, nn

from fairseq_odeformers.data.classification import classes_of
from fairseq_odeformers.data.raw_text import divide, enclose, texts_end
from fairseq_odeformers.inference import loading

# It says of each batch of sentences how it is made.
logging.getLogger("fairseq.tasks.fairseq_task").setLevel(logging.WARNING)

CODES = ("code", "bpecodes")  # as fairseq's from_pretrained looks for them


def load_translator(checkpoint, data=None, **options) -> Generator:
    """A translator, whose ``translate(sentences, beam=5)`` returns a sentence for each.

    Args:
        checkpoint: file, or several separated by colons, which translate together.
        data: folder with the dictionaries (default: that of the training).
        options: of fairseq, such as ``bpe``, ``bpe_codes`` and ``tokenizer``. By default sentences
            are divided by the byte-pair codes that the data's folder, or the one that it is in, has
            as ``code`` or ``bpecodes``, and else are at spaces.

    Raises:
        OSError: a file is not there.
        ValueError: the checkpoint is none, or that of another kind of model.
    """
    return load_generator(checkpoint, data, options, FairseqEncoderDecoderModel, "a translator")


def load_language_model(checkpoint, data=None, **options) -> Generator:
    """A causal language model, whose ``score(sentences)`` returns for each what fairseq's does.

    That is a dictionary with ``score``, the mean log-probability of a token, and
    ``positional_scores``, that of each. ``sample(starts, beam=1)`` goes on with each start of a
    text. Arguments and errors are those of :func:`load_translator`.
    """
    return load_generator(checkpoint, data, options, FairseqLanguageModel, "a language model")


def load_classifier(checkpoint, data=None) -> Classifier:
    """A classifier, whose ``classify(texts)`` returns the class of each and all probabilities.

    Args:
        checkpoint: file, or several separated by colons, whose probabilities are averaged.
        data: folder with the dictionaries (default: that of the training).

    Raises:
        OSError: a file is not there.
        ValueError: the checkpoint is none, or that of another kind of model or of other classes.
    """
    task, models = None, []
    for path in utils.split_paths(str(checkpoint)):
        model, task = loading.load_classifier(path, None if data is None else str(data), task)
        models.append(model)
    return Classifier(models, task)


def load_generator(checkpoint, data, options: dict, kind: type, name: str) -> Generator:
    """What :func:`load_translator` does, for models of a *kind*, which messages call by *name*."""
    task, models = None, []
    for path in utils.split_paths(str(checkpoint)):
        state = loading.read_checkpoint(path)
        folder = data or getattr(state["cfg"].task, "data", None)  # the task parity has none
        found = {"data": str(folder), **byte_pairs(str(folder))} if folder else {}
        for language in ("source_lang", "target_lang"):  # of a tokenizer; fairseq's default is en
            if value := state["cfg"].task.get(language):
                found[language] = value
        model, cfg, task = loading.load_model(path, {**found, **options}, task, state)
        if not isinstance(model, kind):
            raise ValueError(f"{path} is of a {type(model).__name__}, not {name}")
        models.append(model)
    return Generator(cfg, task, models).eval()


def byte_pairs(data: str) -> dict[str, str]:
    """The options for the byte-pair codes beside a data set, if there are any."""
    folder = Path(data)
    for path in (parent / name for parent in (folder, folder.parent) for name in CODES):
        if path.is_file():
            return {"bpe": "subword_nmt", "bpe_codes": str(path)}
    return {}


class Generator(GeneratorHubInterface):
    """fairseq's interface, for any number of sentences."""

    def sample(self, sentences, beam=1, verbose=False, **options):
        """The best continuation or translation of each; see :func:`load_translator`."""
        if isinstance(sentences, str) or len(sentences):
            return super().sample(sentences, beam, verbose, **options)
        return []

    def score(self, sentences, **options):
        """Log-probabilities; see :func:`load_language_model`.

        Raises:
            ValueError: a sentence has no text, so that its mean is of no tokens.
        """
        if not all(map(str.strip, [sentences] if isinstance(sentences, str) else sentences)):
            raise ValueError("'': no text")
        if isinstance(sentences, str) or len(sentences):
            return super().score(sentences, **options)
        return []


class Classification(NamedTuple):
    """The likeliest class of a text, and the probability of each class."""

    label: str
    probabilities: dict[str, float]


class Classifier(nn.Module):
    """One or several classifiers of the same classes, and the text of their data set.

    Attributes:
        classes: their names.
    """

    def __init__(self, models, task):
        super().__init__()
        self.models = nn.ModuleList(models).eval()
        self.task = task
        self.ends = texts_end(task)
        self.classes = classes_of(task)

    @torch.no_grad()
    def classify(self, texts, batch_size: int = 32):
        """The class of each text and the probabilities of all classes.

        Args:
            texts: a text, or a sequence of texts; of pairs, each is a pair of texts. A text is
                divided as the data set is, and cut where its task cuts.
            batch_size: texts that are classified at a time, those of about the same length.

        Returns:
            A :class:`Classification`, or a list of them in the order of the texts.

        Raises:
            ValueError: *batch_size* is below 1; or as :meth:`encode`.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size {batch_size}: give at least 1")
        if isinstance(texts, str):
            return self.classify([texts], batch_size)[0]
        inputs = [self.encode(text) for text in texts]
        order = sorted(range(len(inputs)), key=lambda index: len(inputs[index][0]))
        found: list = [None] * len(inputs)
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            net_input = self.collate([inputs[index] for index in batch])
            for index, row in zip(batch, mean_probabilities(self.models, self.task, net_input)):
                shares = dict(zip(self.classes, row.tolist()))
                found[index] = Classification(max(shares, key=shares.get), shares)
        return found

    def encode(self, text: str | Sequence[str]) -> list[Tensor]:
        """The tokens (T) of a text, or of each of a pair.

        Raises:
            ValueError: as :meth:`symbols`; a text has more than the model has positions, or is
                given for a pair, or the reverse.
        """
        pair = [text] if isinstance(text, str) else list(text)
        dictionary, separator = self.task.source_dictionary, None
        towers = getattr(self.task, "towers", 1)
        if len(pair) == 2 and towers == 1:
            separator = getattr(self.task.cfg, "separator_token", None)
        if len(pair) != towers and separator is None:
            kinds = {1: "a text alone", 2: "a pair of texts"}
            raise ValueError(f"{text!r}: the model classifies {kinds[towers]}")
        encoded = []
        for number, part in enumerate(pair):
            ids = self.symbols(part)
            encoded.append(
                torch.tensor([separator, *ids, *([dictionary.eos()] if self.ends else [])])
                if number and separator is not None
                else enclose(self.task, ids, self.ends)
            )
        if separator is not None:
            encoded = [torch.cat(encoded)]
        longest = min(self.task.max_positions(), *(m.max_positions() for m in self.models))
        cuts = getattr(self.task.cfg, "shorten_method", "none") != "none"
        if hasattr(self.task, "towers") or cuts:
            encoded = [tokens[:longest] for tokens in encoded]
        for tokens in encoded:
            if len(tokens) > longest:
                raise ValueError(
                    f"{text[:40]!r}... has {len(tokens)} tokens, more than {longest}, the "
                    "--max-positions of the training"
                )
        return encoded

    def symbols(self, text: str) -> list[int]:
        """The numbers of the symbols of a text, without what a task puts before and behind.

        Raises:
            ValueError: there are none, or none that the dictionary knows.
        """
        dictionary = self.task.source_dictionary
        ids = [dictionary.index(symbol) for symbol in divide(self.task, text)[0]]
        if not ids:
            raise ValueError(f"{text!r}: no text")
        if set(ids) == {dictionary.unk()}:
            raise ValueError(
                f"{text[:40]!r}: none of its symbols is in the dictionary of "
                f"{getattr(self.task.cfg, 'data', 'the task')}; give texts as that data set "
                f"has them, such as {' '.join(dictionary.symbols[dictionary.nspecial :][:8])}"
            )
        return ids

    def collate(self, inputs: list[list[Tensor]]) -> dict[str, Tensor]:
        """The arguments of the models for texts (B), or pairs of them."""
        device = next(self.parameters()).device
        padding = self.task.source_dictionary.pad()
        net_input = {}
        for suffix, tokens in zip(("", "1"), zip(*inputs)):
            lengths = torch.tensor([len(text) for text in tokens], device=device)
            batch = data_utils.collate_tokens(tokens, padding).to(device)
            net_input.update({f"src_tokens{suffix}": batch, f"src_lengths{suffix}": lengths})
        return net_input


def mean_probabilities(models, task, net_input: dict[str, Tensor]) -> Tensor:
    """Probabilities of the classes (B, K), averaged over the models."""
    name = task.cfg.classification_head_name
    outputs = (m(**net_input, features_only=True, classification_head_name=name) for m in models)
    each = [m.get_normalized_probs(out, log_probs=False) for m, out in zip(models, outputs)]
    return torch.stack(each).mean(0)
