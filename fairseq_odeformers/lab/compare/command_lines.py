"""The command lines of a run, and what fairseq makes of them while a plan is made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.options import get_eval_lm_parser, get_generation_parser, parse_args_and_arch
from omegaconf import DictConfig

from fairseq_odeformers.files import naming
from fairseq_odeformers.inference.predict import make_parser
from fairseq_odeformers.lab.parsers import raise_errors, training_parser
from fairseq_odeformers.models.common.kinds import Kind

from .entry import Entry, resolve_shares
from .recipe import Options, Recipe, to_words

BLOCKS = ("tokens-per-sample", "sample-break-mode", "add-bos-token")
# Options of a training that an evaluation repeats: fairseq takes the task from its command line,
# and guesses the languages.
REPEATED = {
    Kind.TRANSLATION: (
        *("source-lang", "target-lang"),
        *("max-source-positions", "max-target-positions", "truncate-source"),
    ),
    Kind.LANGUAGE_MODEL: BLOCKS,
    Kind.MASKED_LM: BLOCKS,
}
# A share such as 10% is taken of these until the trial has counted the updates.
PROVISIONAL_UPDATES = 1000
# Where a plan is made, plugins are imported already; the folder that joins them is written later.
IMPORTED: Options = {"user-dir": None}


def train_options(recipe: Recipe, entry: Entry, **more: object) -> list[str]:
    """The arguments of fairseq-train; *more* has ``seed`` and ``save-dir``.

    By default fairseq leaves up to seven examples out of every validation.
    """
    options = {"required-batch-size-multiple": 1, **entry.options, **more}
    return [recipe.data, *to_words(options)]


def evaluation_command(recipe: Recipe, entry: Entry, split: str, **more: object) -> list[str]:
    """The command that predicts a split, word by word; *more* has the checkpoint's ``path``."""
    options: Options = {"user-dir": recipe.train.get("user-dir"), **more}
    if recipe.kind is Kind.CLASSIFICATION:
        options |= {"split": split, **recipe.evaluate}
        return ["odeformers", "predict", recipe.data, *to_words(options)]
    program = "fairseq-generate" if recipe.kind is Kind.TRANSLATION else "fairseq-eval-lm"
    names = REPEATED[recipe.kind]
    options |= {name: entry.options[name] for name in names if name in entry.options}
    # With its default of 8, fairseq leaves out up to seven examples.
    options |= {"gen-subset": split, "required-batch-size-multiple": 1, **recipe.evaluate}
    return [program, recipe.data, *to_words(options)]


def parse_training(recipe: Recipe, entry: Entry) -> DictConfig:
    """The configuration that ``fairseq-train`` makes of the options of an architecture."""
    options = resolve_shares(entry.options, entry.updates or PROVISIONAL_UPDATES)
    line = train_options(recipe, replace(entry, options=options), **IMPORTED)
    return convert_namespace_to_omegaconf(parse_args_and_arch(training_parser(), line))


def parse_evaluation(recipe: Recipe, entry: Entry, split: str) -> Any:
    """What the program of an evaluation makes of its command: a namespace, or fairseq's config.

    Raises:
        ValueError: an option under ``evaluate`` is wrong.
    """
    more = {"path": "checkpoint", **IMPORTED}
    program, *words = evaluation_command(recipe, entry, split, **more)
    with naming("evaluate", "is refused"):
        if program == "odeformers":
            return raise_errors(make_parser()).parse_args(words[1:])
        translates = recipe.kind is Kind.TRANSLATION
        parser = raise_errors(get_generation_parser() if translates else get_eval_lm_parser())
        args = parse_args_and_arch(parser, words)
    return convert_namespace_to_omegaconf(args)
