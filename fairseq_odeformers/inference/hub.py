"""Trained models from Python: a line loads one, and a line uses it.

    from fairseq_odeformers import load_translator

    translator = load_translator("checkpoint_best.pt", "data-bin", bpe="subword_nmt",
                                 bpe_codes="code").cuda().half()
    translator.translate(["ein mann geht .", "eine frau liest ."], beam=5)

The result is a module of torch, which ``cuda``, ``to``, ``half`` and the like move and convert.
Translators and language models are fairseq's :class:`~fairseq.hub_utils.GeneratorHubInterface`,
which ``from_pretrained`` of their classes returns as well.

All treat texts alike. A text of spaces has an empty result. A text without a symbol of the
dictionary causes a warning, once. A text that is longer than the positions of the model is cut
where the task cuts the data set, as with the options ``truncate_source=True`` of a translator and
``shorten_method="truncate"`` of other models; else it is refused.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import torch
from fairseq import utils
from fairseq.data import Dictionary, data_utils
from fairseq.dataclass.configs import GenerationConfig
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.models import FairseqEncoderDecoderModel, FairseqLanguageModel
from torch import Tensor, nn

from fairseq_odeformers.checkpoints import load, read
from fairseq_odeformers.checkpoints.trained import head_size
from fairseq_odeformers.data.classification import classes_of
from fairseq_odeformers.data.raw_text import add_special_tokens, appends_eos, tokenize
from fairseq_odeformers.files import naming

logger = logging.getLogger(__name__)

CODES = ("code", "bpecodes")  # as fairseq's from_pretrained looks for them
GENERATION_OPTIONS = {
    *(item.name for item in fields(GenerationConfig)),
    *("prefix_allowed_tokens_fn", "inference_step_args"),
}


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
    return make_translator(read_files(checkpoint), data, **options)


def load_language_model(checkpoint, data=None, **options) -> "Generator":
    """A causal language model, with the methods ``score`` and ``sample``.

    For arguments and errors see :func:`load_translator`.
    """
    kind = (FairseqLanguageModel, "a language model")
    return make_generator(read_files(checkpoint), data, options, *kind)


def load_classifier(checkpoint, data=None, **options) -> "Classifier":
    """A classifier; its ``classify(texts)`` returns the class of each text, and probabilities.

    For arguments and errors see :func:`load_translator`; of several checkpoints the probabilities
    are averaged. Classes other than those of the data are an error, too.
    """
    return make_classifier(read_files(checkpoint), data, **options)


def read_files(checkpoint) -> Iterator[tuple[str, dict]]:
    """The path of each of several checkpoints, separated by colons, and what it holds."""
    for path in utils.split_paths(str(checkpoint)):
        yield path, read(path)


def make_classifier(files: Iterable[tuple[str, dict]], data=None, **options) -> "Classifier":
    """See :func:`load_classifier`; for the result of :func:`read_files`."""
    models, task = [], None
    if data is not None:
        options["data"] = str(data)
    for path, state in files:
        if head_size(state) is None:
            raise ValueError(f"{path} is not the checkpoint of a classifier")
        model, task, _ = load(path, options, task, state)
        models.append(model)
    return Classifier(models, task)


def make_translator(files: Iterable[tuple[str, dict]], data=None, **options) -> "Generator":
    """See :func:`load_translator`; for the result of :func:`read_files`."""
    return make_generator(files, data, options, FairseqEncoderDecoderModel, "a translator")


def make_generator(files, data, options: dict, kind: type, name: str) -> "Generator":
    """See :func:`load_translator`; messages call a model of the class *kind* by its *name*."""
    models, task, cfg = [], None, None
    for path, state in files:
        overrides = {**text_options(state["cfg"].task, data), **options}
        model, task, cfg = load(path, overrides, task, state)
        if not isinstance(model, kind):
            raise ValueError(f"{path} is of a {type(model).__name__}, not {name}")
        models.append(model)
    with naming(path, "does not fit its tokenizer or byte pairs"):
        return Generator(cfg, task, models).eval()


def text_options(cfg, data=None) -> dict[str, str]:
    """The options that turn text into tokens of a data set.

    Args:
        cfg: options of the task of a training.
        data: folder with the dictionaries (default: the data set of the training).
    """
    names = {"source_lang", "target_lang"}  # for a tokenizer
    options = {name: value for name in names if (value := getattr(cfg, name, None))}
    if folder := str(data or getattr(cfg, "data", None) or ""):  # the task parity has none
        options |= {"data": folder, **byte_pairs(folder)}
    return options


def byte_pairs(data: str) -> dict[str, str]:
    """fairseq's options for the byte-pair codes beside a data set, if there are any."""
    folder = Path(data)
    for path in (parent / name for parent in (folder, folder.parent) for name in CODES):
        if path.is_file():
            return {"bpe": "subword_nmt", "bpe_codes": str(path)}
    return {}


class TooLong(ValueError):
    """A text has more tokens than the model has positions, and is not cut."""


@lru_cache
def warn_once(message: str) -> None:
    logger.warning(message)


def check_known(dictionary: Dictionary, symbols: Sequence[int] | Tensor) -> None:
    """Warn of a text without a symbol of the dictionary, at most once for each dictionary."""
    if len(symbols) and all(symbol == dictionary.unk() for symbol in symbols):
        first = " ".join(dictionary.symbols[dictionary.nspecial :][:8])
        warn_once(
            "a text has no symbol of the dictionary, so that its result says nothing; give texts "
            f"as the data set has them, such as {first}"
        )


def cuts(cfg) -> bool:
    """Whether the options of a task cut the long texts of a data set."""
    shorten = getattr(cfg, "shorten_method", "none")
    return shorten != "none" or getattr(cfg, "truncate_source", False)


def fit(tokens: Tensor, longest: int, cut: bool, dictionary: Dictionary, ending: int = 0) -> Tensor:
    """Tokens (T); if there are more than *longest*, the first of them and the last *ending*.

    Raises:
        TooLong: there are more, and *cut* is false.
    """
    if len(tokens) <= longest:
        return tokens
    if not cut:
        raise TooLong(
            f"{dictionary.string(tokens[:40])[:40]!r}... has {len(tokens)} tokens, more than "
            f"{longest}, the longest that the model takes; cut it, or use --truncate (in Python "
            "see the options of the loader)"
        )
    return torch.cat([tokens[: longest - ending], tokens[len(tokens) - ending :]])


def for_texts(use: Callable[[list[str]], list], texts: str | Sequence[str], empty: Callable):
    """What *use* makes of a text or of each of several, and ``empty()`` where there is no text."""
    if isinstance(texts, str):
        return for_texts(use, [texts], empty)[0]
    given = [text for text in texts if text.strip()]
    found = iter(use(given) if given else [])
    return [next(found) if text.strip() else empty() for text in texts]


class Generator(GeneratorHubInterface):
    """fairseq's interface, which treats texts as all of this project's do."""

    def translate(self, sentences, beam=5, verbose=False, **options):
        """The best translation of a sentence, or a list of those of several.

        Args:
            sentences: a text, or several, as the data set had them before byte pairs.
            beam: number of hypotheses that are kept.
            verbose: log sentences, hypotheses and scores.
            options: those of ``fairseq-generate``, such as ``max_len_a`` and ``max_len_b`` (the
                most tokens of a translation are ``max_len_a`` times those of the sentence, and
                ``max_len_b``), ``min_len``, ``lenpen``, ``unkpen``, ``no_repeat_ngram_size``,
                ``sampling`` with ``sampling_topk`` or ``sampling_topp``, ``temperature`` and
                ``diverse_beam_groups``.

        Raises:
            TypeError: there is no such option.
            ValueError: *beam* is below 1; or a sentence is too long (:class:`TooLong`).
        """
        use = partial(super().translate, beam=beam, verbose=verbose, **options)
        return for_texts(use, sentences, str)

    def sample(self, sentences, beam=1, verbose=False, **options):
        """The best continuation of a text, or a list of those of several; a text may be empty.

        Arguments and errors are those of :meth:`translate`. With ``sampling=True`` tokens are
        drawn, instead of the most probable ones.
        """
        if isinstance(sentences, str) or len(sentences):
            return super().sample(sentences, beam, verbose, **options)
        return []

    def score(self, sentences, **options):
        """The log-probabilities of a text, or a list of those of several.

        Args:
            sentences: a text, or several.
            options: ``replace_newline_with_eos=True`` makes the end of a sentence of each "\\n".

        Returns:
            A dictionary: ``tokens`` (T); ``positional_scores`` (T), the logarithm of the
            probability of each token after those before it; and ``score``, their mean. It is empty
            for an empty text.

        Raises:
            TypeError, ValueError: see :meth:`translate`.
        """
        return for_texts(partial(super().score, **options), sentences, dict)

    def generate(self, tokenized_sentences, beam=5, verbose=False, **options):
        """fairseq's method for tokens, which the others use; for errors see :meth:`translate`."""
        if beam < 1:
            raise ValueError(f"beam {beam}: give at least 1")
        for name in options.keys() - GENERATION_OPTIONS:
            raise TypeError(f"there is no option {name} of generation")
        if torch.is_tensor(tokenized_sentences) and tokenized_sentences.dim() == 1:
            return self.generate([tokenized_sentences], beam, verbose, **options)[0]
        longest = self.max_positions
        longest = longest[0] if isinstance(longest, tuple) else longest
        for tokens in tokenized_sentences:
            check_known(self.src_dict, tokens[:-1])
        cut = cuts(self.cfg.task)
        fitting = [fit(tokens, longest, cut, self.src_dict, 1) for tokens in tokenized_sentences]
        return super().generate(fitting, beam, verbose, **options)


class Classification(NamedTuple):
    """The most probable class of a text, and the probability of each; nothing if it is empty."""

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

    def classify(self, texts, batch_size: int = 32):
        """The class of each text and the probabilities of all classes.

        Args:
            texts: a text, or a sequence of texts; a model of pairs takes pairs of texts. They are
                tokenized as the data set is.
            batch_size: number of texts, of similar length, that are classified together.

        Returns:
            A :class:`Classification`, or a list of them; for errors see :meth:`encode`.
        """
        if isinstance(texts, str):
            return self.classify([texts], batch_size)[0]
        return self.classify_tokens([self.encode(text) for text in texts], batch_size)

    @torch.no_grad()
    def classify_tokens(self, inputs: list[list[Tensor]], batch_size: int) -> list[Classification]:
        """See :meth:`classify`; for what :meth:`encode` makes of each text."""
        if batch_size < 1:
            raise ValueError(f"batch_size {batch_size}: give at least 1")
        found = [Classification("", {}) for _ in inputs]
        given = [index for index, tokens in enumerate(inputs) if tokens]
        order = sorted(given, key=lambda index: len(inputs[index][0]))
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            net_input = self.collate([inputs[index] for index in batch])
            for index, row in zip(batch, mean_probabilities(self.models, self.task, net_input)):
                shares = dict(zip(self.classes, row.tolist()))
                found[index] = Classification(max(shares, key=lambda name: shares[name]), shares)
        return found

    def encode(self, text: str | Sequence[str]) -> list[Tensor]:
        """The tokens (T) of a text or a joined pair, or of each text of a pair; none of no text.

        Raises:
            TooLong: a text is longer than the model's positions, and the task does not cut it.
            ValueError: a text is given where the model takes pairs, or the reverse.
        """
        pair = [text] if isinstance(text, str) else list(text)
        towers = getattr(self.task, "towers", 1)
        joined = len(pair) == 2 and towers == 1
        separator = getattr(self.task.cfg, "separator_token", None)
        if len(pair) != towers and not (joined and separator is not None):
            kinds = {1: "a text alone", 2: "a pair of texts"}
            raise ValueError(f"{text!r}: the model classifies {kinds[towers]}")
        dictionary = self.task.source_dictionary
        ids = [list(map(dictionary.index, tokenize(self.task, part)[0])) for part in pair]
        if not all(ids):
            return []
        for symbols in ids:
            check_known(dictionary, symbols)
        if joined:
            eos = [dictionary.eos()] if self.appends_eos else []
            ids = [[*ids[0], *eos, separator, *ids[1]]]
        positions = [m.max_positions() for m in self.models]  # pyright: ignore[reportCallIssue]
        longest = min(self.task.max_positions(), *positions)
        encoded = (add_special_tokens(self.task, part, self.appends_eos) for part in ids)
        cut = cuts(self.task.cfg) or hasattr(self.task, "towers")
        return [fit(tokens, longest, cut, dictionary) for tokens in encoded]

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
