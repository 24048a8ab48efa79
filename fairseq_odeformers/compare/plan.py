"""Plans: the models, sizes and commands of a recipe, checked before the first training."""

from __future__ import annotations

import argparse
import itertools
import math
import re
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from fairseq import options, tasks, utils
from fairseq.data import iterators
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import (
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
)
from fairseq.trainer import Trainer

from fairseq_odeformers.files import naming
from fairseq_odeformers.options import did_you_mean

from .recipe import CLASSIFICATION, TRANSLATION, Options, Recipe, command_line, merged

STEPS, ROUNDS = 4, 3  # updates that are timed, and how often, one architecture after the other
TOLERANCE = 0.01  # of the number of parameters


@dataclass(frozen=True)
class Entry:
    """An architecture of a plan.

    Attributes:
        name: in tables and folders.
        arch: as given to ``--arch``.
        options: all options of fairseq-train, the seed and the folder apart.
        parameters: of the model.
        updates: of a training.
        seconds: estimate for a training, on one run's share of this machine.
        note: how its size was chosen.
        budget: minutes of training that have determined the updates.
    """

    name: str
    arch: str
    options: Options
    parameters: int = 0
    updates: int = 0
    seconds: float = 0.0
    note: str = ""
    budget: float | None = None


@dataclass(frozen=True)
class Plan:
    """A recipe whose architectures are built and matched, and where its runs go."""

    recipe: Recipe
    entries: tuple[Entry, ...]
    user_dir: str

    @property
    def splits(self) -> list[str]:
        """The parts of the data that models are evaluated on."""
        if self.recipe.splits is not None:
            return self.recipe.splits
        data, kind = Path(self.recipe.data), self.recipe.kind
        if kind == TRANSLATION:
            pair = f"{self.recipe.train['source-lang']}-{self.recipe.train['target-lang']}"
            paths = data.glob(f"test*.{pair}.{self.recipe.train['target-lang']}.idx")
        elif kind == CLASSIFICATION:
            paths = (data / "label").glob("test*.idx")
        else:
            paths = data.glob("test*.idx")
        return sorted(path.name.split(".")[0] for path in paths) or ["valid"]


def make_plan(
    recipe: Recipe,
    user_dir: str,
    match: bool = True,
    budget: float | None = None,
    planned: Mapping[str, int] | None = None,
) -> Plan:
    """Build and check all that a recipe trains.

    Each architecture's options are parsed as fairseq-train parses them, its model is built, and a
    few updates are made with the data.

    Args:
        user_dir: of fairseq's commands.
        match: choose widths so that each model has as many parameters as the first one.
        budget: minutes of training for each model, in place of the recipe's updates.
        planned: updates that an earlier command has found for this budget, by architecture.

    Raises:
        ValueError: something does not fit; the message begins with the name of the architecture.
    """
    entries: list[Entry] = []
    for name, own in recipe.architectures.items():
        with naming(name, "cannot be trained"):
            entry = make_entry(recipe, name, own, user_dir)
            entry = replace(entry, parameters=parameters_of(recipe, entry))
            if match and entries:
                entry = matched(recipe, entry, entries[0].parameters)
            entries.append(tried(recipe, entry))
    if budget:
        entries = budgeted(recipe, entries, budget, planned or {})
    return Plan(recipe, tuple(entries), user_dir)


def make_entry(recipe: Recipe, name: str, own: Options, user_dir: str) -> Entry:
    """An architecture with the options of the recipe, its updates, and its parameters."""
    own = dict(own)
    arch = own.pop("arch", name)
    if arch not in ARCH_MODEL_REGISTRY:
        remedy = did_you_mean(arch, ARCH_MODEL_REGISTRY) or "odeformers list names them"
        raise ValueError(f"--arch {arch}: no such architecture; {remedy}")
    if recipe.kind == TRANSLATION and hasattr(
        ARCH_MODEL_REGISTRY[arch], "register_classification_head"
    ):
        raise ValueError(f"--arch {arch} is a classifier, and {recipe.data} has sentence pairs")
    known = known_options(recipe, arch)
    sizes = sizes_of(recipe.sizes, {**known, **own})
    shared = {key: value for key, value in recipe.shared.items() if key in known}
    chosen = merged(merged({**sizes, **shared}, recipe.train), own)
    return Entry(name, arch, {"arch": arch, **chosen, "user-dir": user_dir})


def known_options(recipe: Recipe, arch: str) -> Options:
    """The options that fairseq-train has for an architecture, with their defaults."""
    parser = training_parser()
    chosen = {name: recipe.train.get(name) for name in ("task", "criterion")}
    line = [recipe.data, "--arch", arch, *command_line(chosen)]
    args, _ = options.parse_args_and_arch(parser, line, parse_known=True)
    names = (name for action in parser._actions for name in action.option_strings)
    known = {name[2:]: getattr(args, name[2:].replace("-", "_"), None) for name in names}
    config = MODEL_DATACLASS_REGISTRY.get(ARCH_MODEL_NAME_REGISTRY[arch])
    defaults = vars(config()) if config else {}
    return {
        name: defaults.get(name.replace("-", "_"), known[name])
        if known[name] is None
        else known[name]
        for name in known
    }


def sizes_of(sizes: dict[str, int], known: Options) -> Options:
    """The options of an architecture for the sizes of a recipe, where it has them.

    A decoder whose option follows the encoder's is left to it.
    """
    found: Options = {}
    for side in ("encoder", "decoder"):
        for size, value in sizes.items():
            if size == "layers" and f"{side}-blocks" in known:
                blocks = str(known[f"{side}-blocks"])  # the decoder's may be those of the encoder
                found[f"{side}-depth"] = value // max(1, int(blocks) if blocks.isdigit() else 1)
            found[f"{side}-{size}"] = value
    if "embed-dim" in sizes and "decoder-input-dim" in known:
        found["decoder-input-dim"] = found["decoder-output-dim"] = sizes["embed-dim"]
    return {
        name: value
        for name, value in found.items()
        if name in known
        and not (name.startswith("decoder") and str(known[name]).startswith("${model.encoder"))
    }


def train_options(recipe: Recipe, entry: Entry, **more: object) -> list[str]:
    """The arguments of fairseq-train; *more* has ``seed`` and ``save_dir``."""
    return [recipe.data, *command_line({**entry.options, **more})]


def configuration(recipe: Recipe, entry: Entry):
    """What fairseq-train makes of the options.

    Raises:
        ValueError: an option is unknown, or has a value that it cannot have.
    """
    known_updates = replace(entry, options=scheduled(entry.options, entry.updates or 1000))
    # The plugins are imported already; those of a comparison get their folder once it is planned.
    line = train_options(recipe, known_updates, **{"user-dir": None})
    args = options.parse_args_and_arch(training_parser(), line)
    return convert_namespace_to_omegaconf(args)


def training_parser() -> argparse.ArgumentParser:
    """The parser of fairseq-train, whose errors are exceptions."""
    parser = options.get_training_parser()

    def refuse(message):
        raise ValueError(message)

    parser.error = refuse
    return parser


def build(recipe: Recipe, entry: Entry):
    """The configuration, the task and the model of an architecture."""
    cfg = configuration(recipe, entry)
    torch.manual_seed(1)
    task = tasks.setup_task(cfg.task)
    return cfg, task, task.build_model(cfg.model)


def parameters_of(recipe: Recipe, entry: Entry) -> int:
    """The number of parameters of the model."""
    _, _, model = build(recipe, entry)
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


WIDTHS = ("ffn-embed-dim", "embed-dim")  # the first of them that an architecture has is chosen


def matched(recipe: Recipe, entry: Entry, target: int) -> Entry:
    """An architecture with the inner width, or the width, that makes a number of parameters.

    The number grows with the width, so that its neighbours are found by the secant, and then the
    width by steps of the smallest size that the model accepts.
    """
    if abs(entry.parameters - target) <= TOLERANCE * target:
        return entry
    known = known_options(recipe, entry.arch)
    for size in WIDTHS:
        names = [f"{side}-{size}" for side in ("encoder", "decoder") if f"{side}-{size}" in known]
        if names:
            break
    else:
        return replace(entry, note="has no width to choose")
    step = 2 if size == "ffn-embed-dim" else width_step(entry, known)
    start = int(entry.options.get(names[0], known[names[0]]))

    def sized(width: int) -> Entry:
        changed = {**entry.options, **dict.fromkeys(names, width)}
        if size == "embed-dim" and "decoder-input-dim" in known:
            changed |= dict.fromkeys(("decoder-input-dim", "decoder-output-dim"), width)
        changed_entry = replace(entry, options=changed, note=f"{names[0]} {start} -> {width}")
        return replace(changed_entry, parameters=parameters_of(recipe, changed_entry))

    tried = {start: entry}
    width = start
    for _ in range(12):
        ratio = target / tried[width].parameters
        others = [w for w in tried if w != width]
        if others:
            other = min(others, key=lambda w: abs(tried[w].parameters - target))
            slope = (tried[width].parameters - tried[other].parameters) / (width - other)
            guess = width + (target - tried[width].parameters) / slope
        else:
            guess = width * ratio
        guess = max(step, round(guess / step) * step)
        if guess in tried:
            break
        tried[guess] = sized(guess)
        width = min(tried, key=lambda w: abs(tried[w].parameters - target))
    return tried[width]


def width_step(entry: Entry, known: dict[str, str]) -> int:
    """A width of which this is a divisor fits the heads and the halves of a model."""
    heads = (f"{side}-attention-heads" for side in ("encoder", "decoder"))
    numbers = (entry.options.get(name, known.get(name)) for name in heads)
    return math.lcm(8, *(int(number) for number in numbers if str(number).isdigit()))


def tried(recipe: Recipe, entry: Entry) -> Entry:
    """An architecture with its updates, its schedule, and the time that a few updates promise.

    The updates are fairseq's own, so that options of the optimizer, of precision and of accumulated
    gradients are tried with the model.
    """
    cfg, task, model = build(recipe, entry)
    start = cfg.checkpoint.finetune_from_model
    if start and not Path(start).is_file():
        raise ValueError(f"--finetune-from-model {start}: no such checkpoint; train it first")
    for subset in (cfg.dataset.train_subset, *cfg.dataset.valid_subset.split(",")):
        task.load_dataset(subset, combine=False, epoch=1)
    batches = task.get_batch_iterator(
        task.dataset(cfg.dataset.train_subset),
        max_tokens=cfg.dataset.max_tokens,
        max_sentences=cfg.dataset.batch_size,
        max_positions=utils.resolve_max_positions(task.max_positions(), model.max_positions()),
        ignore_invalid_inputs=True,
        required_batch_size_multiple=cfg.dataset.required_batch_size_multiple,
    ).next_epoch_itr(shuffle=True)
    per_epoch = -(-len(batches) // cfg.optimization.update_freq[0])
    updates = updates_of(cfg, per_epoch)
    if not updates:
        raise ValueError(f"{recipe.data}: no training example is short enough for the model")
    saved = updates // (cfg.checkpoint.save_interval_updates or per_epoch)
    if recipe.average > saved:
        raise ValueError(
            f"average {recipe.average}: {updates} updates leave {saved} checkpoints; give more "
            f"updates, or --average {saved}"
        )
    trainer = Trainer(cfg, task, model, task.build_criterion(cfg.criterion))
    groups = iterators.GroupedIterator(batches, cfg.optimization.update_freq[0])
    seconds = []
    for samples in itertools.islice(groups, STEPS):
        start = time.perf_counter()
        trainer.train_step(samples)
        if trainer.cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    # The first update allocates memory and the optimizer's state.
    seconds = statistics.median(seconds[1:] or seconds)
    entry = replace(entry, updates=updates, seconds=seconds * updates)
    return replace(entry, options=scheduled(entry.options, updates))


def budgeted(
    recipe: Recipe, entries: Sequence[Entry], minutes: float, planned: Mapping[str, int]
) -> list[Entry]:
    """Architectures whose trainings all take so many minutes, by updates measured in turn.

    Each schedule is that of the recipe, stretched or shortened to end with the training. Updates
    are counted, not time, so that a training can be resumed and repeated; the report has the time
    that it took.

    Args:
        planned: the updates of trainings that an earlier command has begun, by architecture.

    Raises:
        ValueError: the learning rate does not fall to zero, or the time is not enough.
    """
    seconds = {entry.name: [entry.seconds / entry.updates] for entry in entries}
    for _ in range(ROUNDS - 1):
        for entry in entries:
            if entry.name not in planned:
                again = tried(recipe, entry)
                seconds[entry.name].append(again.seconds / again.updates)
    return [
        stretched(recipe, entry, minutes, planned.get(entry.name), seconds[entry.name])
        for entry in entries
    ]


def stretched(
    recipe: Recipe, entry: Entry, minutes: float, updates: int | None, seconds: list[float]
) -> Entry:
    """An architecture whose training takes so many minutes.

    Args:
        updates: of the training, if they are planned already.
        seconds: of an update, several measurements.
    """
    with naming(entry.name, "cannot be trained"):
        if entry.options.get("lr-scheduler") != "polynomial_decay":
            raise ValueError(
                "--budget: the rate must fall to zero; add --lr-scheduler polynomial_decay "
                "--total-num-update 100% --warmup-updates 10%"
            )
        update = statistics.median(seconds)
        updates = updates or int(minutes * 60 / update)
        if updates < 1:
            raise ValueError(f"--budget: an update takes {update:.1f} seconds; give more time")
        share = updates / entry.updates
        changes = {
            name: max(1, round(int(entry.options.get(name, 0)) * share))
            for name in ("warmup-updates", "total-num-update")
        }
        changes |= {"max-update": updates}
        options = merged(entry.options, {**changes, "max-epoch": None})
        entry = tried(recipe, replace(entry, options=options))
        return replace(entry, seconds=minutes * 60, budget=minutes)


def scheduled(given: Options, updates: int) -> Options:
    """Options in which shares, such as ``10%``, are numbers of updates."""
    return {
        name: max(1, round(float(value[:-1]) / 100 * updates))
        if isinstance(value, str) and re.fullmatch(r"[\d.]+%", value)
        else value
        for name, value in given.items()
    }


def updates_of(cfg, per_epoch: int) -> int:
    """The updates of a training, which has so many an epoch."""
    limits = (cfg.optimization.max_epoch * per_epoch, cfg.optimization.max_update)
    return min((limit for limit in limits if limit), default=0)
