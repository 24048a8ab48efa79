"""Variants: the architectures of an experiment at each value of tuned options.

A variant contains the options of a training run and its evaluation. fairseq's own parsers parse
them, so that an invalid option raises an error before any run starts.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from fairseq import tasks
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY, BaseFairseqModel
from fairseq.options import get_eval_lm_parser, get_generation_parser, parse_args_and_arch
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY, FairseqTask
from omegaconf import DictConfig

from fairseq_odeformers.checkpoints.best import check_direction, rises
from fairseq_odeformers.criterions.sequence_classification import SequenceClassificationCriterion
from fairseq_odeformers.errors import naming_faults
from fairseq_odeformers.files import sha256
from fairseq_odeformers.options import hyphenate, underscore
from fairseq_odeformers.registry import (
    Kind,
    default_options,
    option_names,
    registered_by,
)
from odeformers import PLUGIN, user_dir
from odeformers.check.command import require
from odeformers.fairseq_options import make_config, raise_errors, training_parser
from odeformers.predict import make_parser
from odeformers.processes import Options, name_options, to_words
from odeformers.sizes import size_options, split_sizes

from .experiment import Experiment
from .results.rows import find_kind

CHOICES = {"optimizer": "optimizer", "lr-scheduler": "lr_scheduler"}  # fairseq's registries
PACKAGES = {"fairseq", PLUGIN}  # any other package is the user's plugin
BLOCKS = ("tokens-per-sample", "sample-break-mode", "add-bos-token")
# Options of a training run that its evaluation repeats: fairseq takes the task from its command
# line, and guesses the languages.
REPEATED = {
    Kind.TRANSLATION: (
        *("source-lang", "target-lang"),
        *("max-source-positions", "max-target-positions", "truncate-source"),
    ),
    Kind.LANGUAGE_MODEL: BLOCKS,
    Kind.MASKED_LM: BLOCKS,
}
# Options of an evaluation that change its memory, but no prediction.
BATCHING = ("batch-size", "max-sentences", "max-tokens")
# Shares such as 10% refer to this number until the updates have been counted.
PROVISIONAL_UPDATES = 1000
BEST_BY, MAXIMIZED = "best-checkpoint-metric", "maximize-best-checkpoint-metric"
# Criterions whose loss has label smoothing, and that log the likelihood without it.
WITH_LIKELIHOOD = (LabelSmoothedCrossEntropyCriterion, SequenceClassificationCriterion)
MIN_WRONG_RATE = 1.0  # for Adam; from this rate on, training diverges
# Suffixes of options that do not change the size of a model and hardly change the time of an
# update.
COST_FREE = ("lr", "dropout", "weight-decay", "clip-norm", "label-smoothing", "warmup-updates")


@dataclass(frozen=True)
class Variant:
    """An architecture at one value of each tuned option, with all options of its runs."""

    architecture: str  # the architecture's name in tables
    task: str
    data: str
    options: Options  # options of fairseq-train, without the seed and the folder
    data_digest: str = ""  # digest of the data's files
    code: str = ""  # digest of the plugin's files that the variant depends on
    tried: Options = field(default_factory=dict)  # the values of tuned options
    evaluate: Options = field(default_factory=dict)  # options of the evaluation
    average: int = 0
    # The splits to evaluate on, each with the file of its references or texts, if any.
    test_sets: dict[str, str | None] = field(default_factory=dict)
    score: dict[str, str] = field(default_factory=dict)  # a recipe's own commands, by split
    bleu_tokenize: str | None = None
    paper: dict[str, float] = field(default_factory=dict)
    cited: dict[str, str] = field(default_factory=dict)  # figures from elsewhere, with sources
    baseline: str = ""
    budget: float | None = None  # minutes per training run

    @property
    def arch(self) -> str:
        return self.options["arch"]

    @property
    def kind(self) -> Kind:
        return find_kind(self.task)

    @property
    def label(self) -> str:
        """The name among all variants, which begins the names of its runs' folders."""
        return self.architecture + name_options(self.tried)

    @property
    def cost_label(self) -> str:
        """The name shared by variants of equal size and equal time per update."""
        tried = {name: v for name, v in self.tried.items() if not name.endswith(COST_FREE)}
        return self.architecture + name_options(tried)

    @property
    def settings(self) -> Options:
        """The options that variants with one estimate share, without the place of the package."""
        evaluate = {f"evaluate {k}": v for k, v in self.evaluate.items() if k not in BATCHING}
        evaluate |= {f"score {split}": line for split, line in self.score.items()}
        evaluate["splits"] = " ".join(sorted(self.test_sets))
        evaluate["bleu-tokenize"] = self.bleu_tokenize
        tuned = dict.fromkeys(self.tried)
        return {"average": str(self.average), **self.options, **evaluate, "user-dir": "", **tuned}

    @property
    def tuned(self) -> str:
        """The values of tuned options as text."""
        return " ".join(f"{name} {value}" for name, value in self.tried.items())

    @property
    def valid_subset(self) -> str:
        """The validation set that chooses the best checkpoint: the first one."""
        return str(self.options.get("valid-subset", "valid")).split(",")[0]

    @property
    def output_suffix(self) -> str:
        """The suffix of the predictions file: a table of classes, or fairseq's output."""
        return "tsv" if self.kind is Kind.CLASSIFICATION else "out"

    def change(self, **changes: Any) -> Variant:
        """Change options, named with underscores; the value None removes an option."""
        options = {**self.options, **{hyphenate(name): v for name, v in changes.items()}}
        return replace(self, options={n: v for n, v in options.items() if v is not None})

    def at(self, option: str, value: str) -> Variant:
        """Return the variant at another value of a tuned option."""
        tried, options = ({**old, option: value} for old in (self.tried, self.options))
        return replace(self, tried=tried, options=options)

    def lasting(self, updates: int) -> Variant:
        """Return the variant with numbers of updates instead of shares of *updates* (``10%``)."""
        return replace(self, options=resolve_shares(self.options, updates))

    @cached_property
    def cfg(self) -> DictConfig:
        """The configuration that ``fairseq-train`` makes from the options."""
        options = {**resolve_shares(self.options, PROVISIONAL_UPDATES), "user-dir": None}
        if options.get("lr-scheduler") == "polynomial_decay" and not (
            options.keys() & {"total-num-update", "max-update"}
        ):
            raise ValueError(
                "--lr-scheduler polynomial_decay: give --total-num-update as well, such as 100%"
            )
        line = training_words(self.data, options)
        cfg = make_config(parse_args_and_arch(training_parser(), line))
        rates = cfg.optimization.lr
        if min(rates) <= 0:
            raise ValueError(f"--lr {options['lr']}: give a rate above 0")
        if str(options.get("optimizer")).startswith("adam") and max(rates) >= MIN_WRONG_RATE:
            raise ValueError(f"--lr {options['lr']}: give Adam a rate below 1, such as 1e-3")
        return cfg

    def check_options(self) -> None:
        """Parse the options as ``fairseq-train`` does, and check their bounds.

        Raises:
            ValueError: an option is invalid.
        """
        cfg, model = self.cfg, ARCH_MODEL_REGISTRY[self.arch]
        if hasattr(model, "check_config"):
            model.check_config(cfg.model)

    def build(self) -> tuple[FairseqTask, BaseFairseqModel]:
        """Build the task and the untrained model of the options."""
        torch.manual_seed(1)
        task = tasks.setup_task(self.cfg.task)
        return task, task.build_model(self.cfg.model)

    def parse_evaluation(self, split: str) -> Any:
        """Parse the options of an evaluation as its program does, as a namespace or a config."""
        evaluate = {"path": "checkpoint", "user-dir": None}
        _, *words = evaluation_words(self, split, **evaluate)
        with naming_faults("evaluate", "is refused"):
            if self.kind is Kind.CLASSIFICATION:
                return raise_errors(make_parser()).parse_args(words[1:])
            translates = self.kind is Kind.TRANSLATION
            parser = raise_errors(get_generation_parser() if translates else get_eval_lm_parser())
            args = parse_args_and_arch(parser, words)
        return convert_namespace_to_omegaconf(args)

    def find_defaults(self) -> Options:
        """Return the values of the model's options that keep their defaults."""
        names = (name for name in default_options(self.arch) if hyphenate(name) not in self.options)
        values = {name: getattr(self.cfg.model, name, None) for name in sorted(names)}
        return {hyphenate(name): str(value) for name, value in values.items() if value is not None}


def make_variants(experiment: Experiment) -> list[Variant]:
    """Make all variants of an experiment, with parsed options.

    A plugin's architectures must pass ``odeformers check``.
    """
    variants = []
    for name in experiment.architectures:
        for values in itertools.product(*experiment.tune.values()):
            tried = dict(zip(experiment.tune, values))
            typed = typed_name(name, experiment.architectures[name])
            called = " ".join([typed, *(f"--tune {key}={value}" for key, value in tried.items())])
            with naming_faults(called, "cannot be trained"):
                variants.append(make_variant(experiment, name, tried))
    of_plugin = {each.architecture: each.arch for each in variants if each.code}
    for name, arch in of_plugin.items() if experiment.check else ():
        _, own = split_sizes({**experiment.architectures[name], "arch": None})
        with naming_faults(name, "cannot be trained"):
            require(arch, *to_words(own), task=experiment.task)
    return variants


def typed_name(name: str, own: Options) -> str:
    """Return an architecture as in ``--archs``: its name in tables, or with options in brackets."""
    options = {key: value for key, value in own.items() if key != "arch"}
    if not options or name != (arch := own.get("arch", name)) + name_options(options):
        return name
    return f"'{arch}[{' '.join(to_words(options))}]'"


def make_variant(experiment: Experiment, name: str, tried: Options) -> Variant:
    """Make the variant of an architecture at some values of tuned options."""
    options = resolve_options(experiment, name, {**experiment.architectures[name], **tried})
    variant = Variant(
        architecture=name,
        task=experiment.task,
        data=experiment.data,
        options=options,
        data_digest=experiment.data_digest,
        code=digest_plugin(experiment, options["arch"]),
        tried=tried,
        evaluate=experiment.evaluate,
        average=experiment.average,
        test_sets=experiment.test_sets,
        score=experiment.score,
        bleu_tokenize=experiment.bleu_tokenize or None,
        paper=experiment.paper.get(name, {}),
        cited={
            column: f"{figure} ({source})"
            for source, figures in experiment.cited.items()
            for column, figure in figures.get(name, {}).items()
        },
        baseline=experiment.baseline,
        budget=experiment.budget,
    )
    variant.check_options()
    return variant


def resolve_options(experiment: Experiment, name: str, own: Options) -> Options:
    """Return all options of an architecture, including the experiment's options.

    A shared option is left out if the model does not have or support it.
    """
    arch = own.get("arch", name)
    shared = {key: value for key, value in experiment.shared.items() if supports(arch, key)}
    neutral, chosen = split_sizes({**experiment.train, **own})
    sizes, given = (
        {underscore(key): value for key, value in options.items()}
        for options in (experiment.sizes, chosen)
    )
    sizes = size_options(arch, {**sizes, **neutral}, given)
    options = {"arch": arch, **{hyphenate(key): size for key, size in sizes.items()}, **shared}
    options |= {**chosen, "user-dir": experiment.plugin or str(user_dir().resolve())}
    for key in find_replaced(experiment, options, own):
        del options[key]
    options |= choose_best_by(options)
    return {
        key: value.replace("{arch}", arch) if isinstance(value, str) else value
        for key, value in options.items()
        if value is not None
    }


def find_replaced(experiment: Experiment, options: Options, own: Options) -> set[str]:
    """Find the recipe's options of an optimizer, schedule or metric that another one replaces.

    Args:
        own: options of one architecture, and tuned options.
    """
    same_metric = options.get(BEST_BY) == experiment.train_of_recipe.get(BEST_BY)
    replaced = set() if same_metric else {MAXIMIZED}
    for choice, registry in CHOICES.items():
        then, now = experiment.train_of_recipe.get(choice), options.get(choice)
        if then and now != then:
            configs = REGISTRIES[registry]["dataclass_registry"]
            of_then, of_now = (
                {hyphenate(item.name) for item in fields(configs[name])}
                if name in configs
                else set()
                for name in (then, now)
            )
            replaced |= of_then - of_now - {"lr"}
    inherited = experiment.train_of_recipe.keys() - experiment.typed - own.keys()
    return replaced & inherited & options.keys()


def choose_best_by(options: Options) -> Options:
    """Choose the metric that chooses the best checkpoint, and its direction.

    By default, runs whose losses include label smoothing or regularisers are compared by the
    negative log-likelihood of the validation set, which has the same meaning for all of them.

    Raises:
        ValueError: the options contradict each other, see :func:`.check_direction`, or do not say
            whether the highest or the lowest value of the metric is the best.
    """
    criterion = CRITERION_REGISTRY.get(options.get("criterion"), type(None))
    default = "nll_loss" if issubclass(criterion, WITH_LIKELIHOOD) else "loss"
    metric = str(options.get(BEST_BY) or default)
    maximize = options.get(MAXIMIZED)
    if str(maximize).lower() == "false":
        maximize = False
    if maximize is None and rises(metric) is None:
        raise ValueError(
            f"--{BEST_BY} {metric}: no known metric; correct the name, or give --{MAXIMIZED} if "
            f"its highest value is the best, or --{MAXIMIZED} false if its lowest value is"
        )
    chosen: Options = {} if metric == "loss" else {BEST_BY: metric}
    return {**chosen, MAXIMIZED: check_direction(metric, maximize) or None}


def supports(arch: str, option: str) -> bool:
    """Return whether an architecture has an option and supports it."""
    unsupported = getattr(ARCH_MODEL_REGISTRY[arch], "unsupported", {})
    name = option_names(arch).get(hyphenate(option))
    return name is not None and name not in unsupported


def digest_plugin(experiment: Experiment, arch: str) -> str:
    """Return a digest of the plugin's files if it defines the architecture, task or criterion."""
    parts = [ARCH_MODEL_REGISTRY[arch], TASK_REGISTRY.get(experiment.task)]
    parts += [CRITERION_REGISTRY.get(experiment.train.get("criterion"))]
    packages = {part.__module__.partition(".")[0] for part in parts if part}
    packages.add(registered_by(arch))
    if experiment.plugin is None or packages <= PACKAGES:
        return ""
    folder = Path(experiment.plugin)
    digests = (f"{p.relative_to(folder)} {sha256(p)}\n" for p in sorted(folder.rglob("*.py")))
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def resolve_shares(options: Options, updates: int) -> Options:
    """Replace shares of a training run in options, such as ``10%``, by numbers of updates."""
    return {
        name: max(1, round(float(value[:-1]) / 100 * updates))
        if isinstance(value, str) and re.fullmatch(r"[\d.]+%", value)
        else value
        for name, value in options.items()
    }


# --- words -------------------------------------------------------------------------------------


def training_words(data: str, options: Options, **more: object) -> list[str]:
    """Return the words after ``fairseq-train``; *more* contains ``seed`` and ``save-dir``.

    By default, fairseq leaves up to seven examples out of every validation, and starts a process
    per epoch that reads batches. These processes linger, and torch occasionally waits five seconds
    for each.
    """
    fixed = {"required-batch-size-multiple": 1, "num-workers": 0}
    return [data, *to_words({**fixed, **options, **more})]


def evaluation_words(variant: Variant, split: str, **more: object) -> list[str]:
    """Return the command that predicts a split; *more* contains the ``path`` of the checkpoint."""
    options, evaluate = variant.options, {**variant.evaluate, **more}
    words: Options = {"user-dir": options.get("user-dir")}
    if variant.kind is Kind.CLASSIFICATION:
        words |= {"split": split, **evaluate}
        return ["odeformers", "predict", variant.data, *to_words(words)]
    program = "fairseq-generate" if variant.kind is Kind.TRANSLATION else "fairseq-eval-lm"
    words |= {name: options[name] for name in REPEATED[variant.kind] if name in options}
    # With its default of 8, fairseq leaves out up to seven examples.
    words |= {"gen-subset": split, "required-batch-size-multiple": 1}
    if variant.kind is Kind.LANGUAGE_MODEL:
        words["output-word-probs"] = True
    return [program, variant.data, *to_words({**words, **evaluate})]
