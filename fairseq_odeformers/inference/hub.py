"""Trained models from Python: a line loads one, and a line uses it.

    from fairseq_odeformers import load_translator

    translator = load_translator("checkpoint_best.pt", "data-bin", bpe="subword_nmt",
                                 bpe_codes="code").cuda().half()
    translator.translate(["ein mann geht .", "eine frau liest ."], beam=5)

The result is a module of torch, which ``cuda``, ``to``, ``half`` and the like move and convert.
Translators and language models are fairseq's :class:`~fairseq.hub_utils.GeneratorHubInterface`,
which ``from_pretrained`` of their classes returns as well.
"""

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
from fairseq_odeformers.data.raw_text import add_special_tokens, appends_eos, tokenize
from fairseq_odeformers.inference import loading

CODES = ("code", "bpecodes")  # as fairseq's from_pretrained looks for them


def load_translator(checkpoint, data=None, **options) -> "Generator":
    """A translator; its ``translate(sentences, beam=5)`` returns a translation of each sentence.

    Args:
        checkpoint: file, or several separated by colons, which translate together.
        data: folder with the dictionaries (default: the data set of the training).
        options: of fairseq, such as ``bpe``, ``bpe_codes`` and ``tokenizer``. By default sentences
            are split at spaces, and into byte pairs if the folder of the data, or the one above,
            has their codes as ``code`` or ``bpecodes``.

    Raises:
        OSError: a file is not there.
        ValueError: it is not a checkpoint, or one of another kind of model.
    """
    return load_generator(checkpoint, data, options, FairseqEncoderDecoderModel, "a translator")


def load_language_model(checkpoint, data=None, **options) -> "Generator":
    """A causal language model, with the methods ``score`` and ``sample``.

    ``score(sentences)`` returns fairseq's dictionary for each sentence: ``positional_scores`` are
    the log-probabilities of its tokens, and ``score`` is their mean. ``sample(starts, beam=1)``
    returns a continuation of each start. For arguments and errors see :func:`load_translator`.
    """
    return load_generator(checkpoint, data, options, FairseqLanguageModel, "a language model")


def load_classifier(checkpoint, data=None) -> "Classifier":
    """A classifier; its ``classify(texts)`` returns the class of each text, and probabilities.

    Args:
        checkpoint: file, or several separated by colons, whose probabilities are averaged.
        data: folder with the dictionaries (default: the data set of the training).

    Raises:
        OSError: a file is not there.
        ValueError: it is not a checkpoint, or one of another kind of model or of other classes.
    """
    task, models = None, []
    for path in utils.split_paths(str(checkpoint)):
        model, task = loading.load_classifier(path, None if data is None else str(data), task)
        models.append(model)
    return Classifier(models, task)


def load_generator(checkpoint, data, options: dict, kind: type, name: str) -> "Generator":
    """See :func:`load_translator`; messages call a model of the class *kind* by its *name*."""
    task, models = None, []
    for path in utils.split_paths(str(checkpoint)):
        state = loading.read_checkpoint(path)
        trained = state["cfg"].task
        folder = data or getattr(trained, "data", None)  # the task parity has none
        found = {"data": str(folder), **byte_pairs(str(folder))} if folder else {}
        for language in ("source_lang", "target_lang"):  # for a tokenizer
            if value := trained.get(language):
                found[language] = value
        model, cfg, task = loading.load_model(path, {**found, **options}, task, state)
        if not isinstance(model, kind):
            raise ValueError(f"{path} is of a {type(model).__name__}, not {name}")
        models.append(model)
    return Generator(cfg, task, models).eval()


def byte_pairs(data: str) -> dict[str, str]:
    """fairseq's options for the byte-pair codes beside a data set, if there are any."""
    folder = Path(data)
    for path in (parent / name for parent in (folder, folder.parent) for name in CODES):
        if path.is_file():
            return {"bpe": "subword_nmt", "bpe_codes": str(path)}
    return {}


class Generator(GeneratorHubInterface):
    """fairseq's interface, which also takes an empty list of sentences."""

    def sample(self, sentences, beam=1, verbose=False, **options):
        """The best continuation or translation of each; see :func:`load_translator`."""
        if isinstance(sentences, str) or len(sentences):
            return super().sample(sentences, beam, verbose, **options)
        return []

    def score(self, sentences, **options):
        """Log-probabilities; see :func:`load_language_model`.

        Raises:
            ValueError: a sentence has no text, so that there is no mean.
        """
        if not all(map(str.strip, [sentences] if isinstance(sentences, str) else sentences)):
            raise ValueError("'': no text")
        if isinstance(sentences, str) or len(sentences):
            return super().score(sentences, **options)
        return []


class Classification(NamedTuple):
    """The most probable class of a text, and the probability of each class."""

    label: str
    probabilities: dict[str, float]


class Classifier(nn.Module):
    """One or several classifiers of the same classes, and the task of their data set.

    Attributes:
        classes: their names.
    """

    def __init__(self, models, task):
        super().__init__()
        self.models = nn.ModuleList(models).eval()
        self.task = task
        self.appends_eos = appends_eos(task)
        self.classes = classes_of(task)

    @torch.no_grad()
    def classify(self, texts, batch_size: int = 32):
        """The class of each text and the probabilities of all classes.

        Args:
            texts: a text, or a sequence of texts; a model of pairs takes pairs of texts. They are
                tokenized as the data set is, and cut where its task cuts.
            batch_size: number of texts, of similar length, that are classified together.

        Returns:
            A :class:`Classification`, or a list of them in the order of the texts.

        Raises:
            ValueError: *batch_size* is below 1; or see :meth:`encode`.
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
        """The tokens (T) of a text or a joined pair, or of each text of a pair apart.

        Raises:
            ValueError: see :meth:`symbols`; a text is longer than the model's positions; a text is
                given where the model takes pairs, or the reverse.
        """
        pair = [text] if isinstance(text, str) else list(text)
        towers = getattr(self.task, "towers", 1)
        joined = len(pair) == 2 and towers == 1
        separator = getattr(self.task.cfg, "separator_token", None)
        if len(pair) != towers and not (joined and separator is not None):
            kinds = {1: "a text alone", 2: "a pair of texts"}
            raise ValueError(f"{text!r}: the model classifies {kinds[towers]}")
        ids = [self.symbols(part) for part in pair]
        if joined:
            eos = [self.task.source_dictionary.eos()] if self.appends_eos else []
            ids = [[*ids[0], *eos, separator, *ids[1]]]
        encoded = [add_special_tokens(self.task, part, self.appends_eos) for part in ids]
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
        """The numbers of the symbols of a text, without special tokens.

        Raises:
            ValueError: there are none, or none that the dictionary knows.
        """
        dictionary = self.task.source_dictionary
        ids = [dictionary.index(symbol) for symbol in tokenize(self.task, text)[0]]
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
