"""Translators and language models, as fairseq's interface to them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import partial
from numbers import Real
from typing import Any

import torch
from fairseq.dataclass.configs import GenerationConfig
from fairseq.hub_utils import GeneratorHubInterface
from torch import Tensor

from fairseq_odeformers.errors import InputError, did_you_mean
from fairseq_odeformers.registry import Kind, kinds_of
from fairseq_odeformers.text.moses import RawPairs

from .run import BOUNDS, describe_bounds, is_in_bounds
from .texts import (
    apply_to_texts,
    check_text,
    check_texts,
    check_whole,
    truncate,
    warn_of_unknown,
)

DEFAULTS = {item.name: item.default for item in fields(GenerationConfig)}
GENERATION_OPTIONS = {*DEFAULTS, "prefix_allowed_tokens_fn", "inference_step_args"}
OTHER_NAMES = {  # the names of these options in transformers, and fairseq's names
    "do_sample": "sampling",
    "length_penalty": "lenpen",
    "max_length": "max_len_b",
    "max_new_tokens": "max_len_b",
    "num_beams": "beam",
    "top_k": "sampling_topk",
    "top_p": "sampling_topp",
}


class Generator(GeneratorHubInterface):
    """fairseq's interface to generation, with the rules of ``texts`` for empty and long texts.

    fairseq's ``translate`` calls ``sample``, which calls ``generate``; this class overrides all
    three.

    Attributes:
        raw: how raw text is tokenised and detokenised; None if sentences are tokens.
    """

    raw: RawPairs | None = None

    @property
    def is_language_model(self) -> bool:
        """Whether the model is a language model, not a translator."""
        return Kind.LANGUAGE_MODEL in kinds_of(type(self.models[0]))

    def translate(
        self, sentences: str | Iterable[str], beam: int = 5, verbose: bool = False, **options: Any
    ) -> Any:
        """Return the best translation of a sentence, or a list of the best for several sentences.

        Args:
            sentences: one sentence or several, in the form that the data set has before the split
                into subwords, or as raw text if the translator was loaded with ``tokenized=False``.
            beam: beam size.
            verbose: whether to log sentences, hypotheses and scores.
            options: options of ``fairseq-generate``, such as ``max_len_a`` and ``max_len_b`` (a
                translation has at most ``max_len_a`` n + ``max_len_b`` tokens, where n is the
                number of tokens of the longest sentence of its batch), ``min_len``, ``lenpen``,
                ``unkpen``, ``no_repeat_ngram_size``, ``sampling`` with ``sampling_topk`` or
                ``sampling_topp``, ``temperature`` and ``diverse_beam_groups``.

        Raises:
            TypeError: the model is a language model, an option does not exist, or *sentences* are
                not texts.
            ValueError: *beam* is not a positive integer, *nbest* is not 1, or a sentence is
                :class:`TooLong`.
        """
        if self.is_language_model:
            raise TypeError(
                "translate is for translators; this model is a language model; use sample or score"
            )
        translate = partial(super().translate, beam=beam, verbose=verbose, **options)
        return apply_to_texts(translate, sentences, str)

    def tokenize(self, sentence: str) -> str:
        """Tokenise a text; ``encode`` begins with this."""
        text = check_text(sentence)
        return super().tokenize(self.raw.tokenize(text) if self.raw else text)

    def detokenize(self, sentence: str) -> str:
        """Detokenise a text; ``decode`` ends with this."""
        sentence = super().detokenize(sentence)
        return self.raw.detokenize(sentence) if self.raw else sentence

    def sample(
        self, sentences: str | Iterable[str], beam: int = 1, verbose: bool = False, **options: Any
    ) -> Any:
        """Return a text with its most probable continuation, or a list of them for several texts.

        Texts may be empty. For arguments and errors, see :meth:`translate`. With
        ``sampling=True``, the continuation is random.
        """
        if isinstance(sentences, str):
            return super().sample(sentences, beam, verbose, **options)
        texts = check_texts(sentences)
        return super().sample(texts, beam, verbose, **options) if texts else []

    def score(self, sentences: str | Iterable[str], **options: Any) -> Any:
        """Return the log-probabilities of a text, or a list of them for several texts.

        Args:
            sentences: one text or several.
            options: ``replace_newline_with_eos=True`` turns each "\\n" into an end of sentence.

        Returns:
            A dictionary with ``tokens`` (T); ``positional_scores`` (T), the log-probability of each
            token given the tokens before it; and ``score``, the mean of these scores. The
            dictionary is empty for an empty text.

        Raises:
            TypeError: the model is a translator; or see :meth:`translate`.
            ValueError: see :meth:`translate`.
        """
        if not self.is_language_model:
            raise TypeError(
                "score is for language models; this model is a translator; use translate"
            )
        return apply_to_texts(partial(super().score, **options), sentences, dict)

    def generate(
        self,
        tokenized_sentences: Tensor | Sequence[Tensor],
        beam: int = 5,
        verbose: bool = False,
        **options: Any,
    ) -> Any:
        """Return the best results for the tokens of each text; for errors, see :meth:`translate`.

        Args:
            tokenized_sentences: results of ``encode``, one for each text.
            beam: beam size, and the number of results for each text.
            verbose, options: see :meth:`translate`.

        Returns:
            For each text, a list of dictionaries, the best first. Their entries are ``tokens`` (T),
            which end with ``</s>``; ``positional_scores`` (T), their log-probabilities; ``score``,
            the sum of these divided by T to the power of ``lenpen``; ``attention`` (S, T) to the S
            source tokens, which may be empty; and ``alignment``, which is empty in most models.
        """
        if not all(map(torch.is_tensor, tokenized_sentences)):
            raise TypeError("generate: give tensors of tokens; translate and sample take texts")
        check_whole("beam", beam)
        if (nbest := options.get("nbest", 1)) != 1:
            raise InputError(
                f"nbest {nbest!r}: translate and sample return the best text; "
                f"generate([model.encode(text)], beam=N)[0] has the tokens of the N best"
            )
        for name, value in options.items():
            kind = type(DEFAULTS.get(name))
            if kind is bool and not isinstance(value, bool):
                raise InputError(f"{name} {value!r}: give True or False")
            real = isinstance(value, Real) and value == value  # not nan
            real = real and value not in (-math.inf, math.inf)
            if kind in (int, float) and not real:
                raise InputError(f"{name} {value!r}: give a number")
            if name in BOUNDS and not is_in_bounds(name, value):
                raise InputError(f"{name} {value!r}: give a number {describe_bounds(name)}")
        for name in options.keys() - GENERATION_OPTIONS:
            otherwise = "fairseq-generate --help names them"
            accepted = sorted(GENERATION_OPTIONS - {"nbest"})
            remedy = did_you_mean(OTHER_NAMES.get(name, name), accepted, otherwise)
            raise TypeError(f"there is no option {name} of generation; {remedy}")
        if torch.is_tensor(tokenized_sentences) and tokenized_sentences.dim() == 1:
            return self.generate([tokenized_sentences], beam, verbose, **options)[0]
        sentences = [self.fit(tokens) for tokens in tokenized_sentences]
        try:
            return super().generate(sentences, beam, verbose, **options)
        except AssertionError as error:  # raised by fairseq for options that are out of bounds
            values = " ".join(f"{name} {value!r}" for name, value in options.items())
            raise InputError(f"{values}: {error}") from error
        except RuntimeError as error:
            if "multinomial" not in str(error):
                raise
            raise InputError(
                f"temperature {options.get('temperature', 1)!r}: all symbols that may follow have "
                "probability 0; give a higher temperature, or sampling=False for the most probable"
            ) from error

    def fit(self, tokens: Tensor, place: str = "a text") -> Tensor:
        """Truncate a sentence (T) to what all models accept, if allowed, and keep its ``</s>``.

        fairseq also rejects a sentence with more tokens than the ``--max-tokens`` of the training
        run.

        Args:
            place: place of the sentence, for the warning about unknown symbols.
        """
        warn_of_unknown(self.src_dict, tokens[:-1], place)
        positions = self.max_positions  # a language model has one number, not source and target
        longest = positions[0] if isinstance(positions, tuple) else positions
        limit, most = "the longest that the model takes", self.cfg.dataset.max_tokens
        if most and most < longest:
            longest, limit = most, "the --max-tokens of the training run"
        return truncate(tokens, longest, self.cfg.task, self.src_dict, ending=1, limit=limit)
