"""Plans: the models of a recipe, with their sizes and updates, tried before the first training."""

from __future__ import annotations

import argparse
import itertools
import math
import re
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
import yaml
from fairseq import options, tasks
from fairseq.data import iterators
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import (
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
)
from fairseq.trainer import Trainer

from fairseq_odeformers.files import naming, replacing, sha256
from fairseq_odeformers.models.common.kinds import check_kind
from fairseq_odeformers.models.common.sizes import size_options
from fairseq_odeformers.options import did_you_mean, flag

from .recipe import Options, Recipe, checked, command_line, merged

PLAN = "plan.yaml"
STEPS, ROUNDS = 4, 3  # updates that are timed, and how often, one architecture after the other
TOLERANCE = 0.01  # of the number of parameters
WIDTHS = ("ffn-embed-dim", "embed-dim")  # the first of them that an architecture has is chosen


@dataclass(frozen=True)
class Entry:
    """An architecture of a plan."""

    name: str  # in tables and folders
    options: Options  # of fairseq-train, the seed and the folder apart
    parameters: int = 0
    updates: int = 0  # of a training
    seconds: float = 0.0  # that a training may take, on one run's share of this machine
    note: str = ""  # how its size was chosen
    budget: float | None = None  # minutes that have determined the updates


@dataclass(frozen=True)
class Plan:
    """A recipe whose architectures are built and matched."""

    recipe: Recipe
    entries: tuple[Entry, ...]
    digest: str = ""  # of the files of the data


def save_plan(plan: Plan, out: Path) -> None:
    """Keep a plan beside its runs, with the architectures and seeds of earlier commands."""
    earlier = load_plan(out) if (out / PLAN).is_file() else replace(plan, entries=())
    if plan.recipe.data == earlier.recipe.data and earlier.digest not in ("", plan.digest):
        raise ValueError(
            f"{plan.recipe.data} has other files than when {out} was begun; give another --out"
        )
    entries = {entry.name: entry for entry in plan.entries}
    for entry in earlier.entries:
        own = {"data": plan.recipe.data, "average": plan.recipe.average}
        own |= entries.setdefault(entry.name, entry).options
        kept = {"data": earlier.recipe.data, "average": earlier.recipe.average, **entry.options}
        differs = [
            name
            for name in {**own, **kept}
            if command_line({name: own.get(name)}) != command_line({name: kept.get(name)})
        ]
        if differs:
            raise ValueError(
                f"{out} was begun with other settings ({entry.name}: {', '.join(differs)}); "
                "give these another --out"
            )
    seeds = sorted({*earlier.recipe.seeds, *plan.recipe.seeds})
    plan = replace(plan, recipe=replace(plan.recipe, seeds=seeds), entries=(*entries.values(),))
    out.mkdir(parents=True, exist_ok=True)
    with replacing(out / PLAN) as path:
        path.write_text(yaml.safe_dump(asdict(plan), sort_keys=False), encoding="utf-8")


def load_plan(out: Path) -> Plan:
    """The plan that :func:`save_plan` has kept."""
    path = out / PLAN
    if not path.is_file():
        raise ValueError(f"{out} is not a folder of odeformers compare: it has no {PLAN}")
    with naming(path, f"is not a {PLAN} of odeformers compare"):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        entries = tuple(checked(Entry, entry, str(path)) for entry in content["entries"])
        recipe = checked(Recipe, content["recipe"], str(path))
        return Plan(recipe, entries, content.get("digest", ""))


def make_plan(
    recipe: Recipe,
    match: bool = True,
    budget: float | None = None,
    planned: Mapping[str, int] | None = None,
) -> Plan:
    """Build and check all models of a recipe.

    Each architecture's options are parsed as fairseq-train parses them, its model is built, and a
    few updates are made with the data.

    Args:
        match: choose widths so that each model has as many parameters as the first one.
        budget, planned: see :func:`budgeted`.
    """
    entries: list[Entry] = []
    for name, own in recipe.architectures.items():
        with naming(name, "cannot be trained"):
            entry = counted(recipe, make_entry(recipe, name, own))
            if match and entries:
                entry = matched(recipe, entry, entries[0].parameters)
            entries.append(tried(recipe, entry))
    if budget:
        entries = budgeted(recipe, entries, budget, planned or {})
    data = Path(recipe.data)
    return Plan(recipe, tuple(entries), sha256(data) if data.is_dir() else "")


def make_entry(recipe: Recipe, name: str, own: Options) -> Entry:
    """An architecture with the options of the recipe."""
    arch = own.get("arch", name)
    if arch not in ARCH_MODEL_REGISTRY:
        remedy = did_you_mean(arch, ARCH_MODEL_REGISTRY) or "odeformers list names them"
        raise ValueError(
            f"--arch {arch}: no such architecture; {remedy} (--user-dir finds your own)"
        )
    check_kind(arch, recipe.train.get("task", "translation"))
    known = known_options(recipe, arch)
    given = {**recipe.train, **own}
    shared = {key: value for key, value in recipe.shared.items() if key in known}
    sizes = {name.replace("-", "_"): size for name, size in recipe.sizes.items()}
    names = {name.replace("-", "_"): value for name, value in given.items()}
    sized = {flag(n)[2:]: value for n, value in size_options(arch, sizes, names).items()}
    chosen = {"arch": arch, **sized, **shared, **given}
    chosen = {
        key: value.replace("{arch}", arch) if isinstance(value, str) else value
        for key, value in chosen.items()
        if value is not None
    }
    return Entry(name, chosen)


def known_options(recipe: Recipe, arch: str) -> Options:
    """The options that fairseq-train has for an architecture, with their defaults."""
    parser = training_parser()
    chosen = {name: recipe.train.get(name) for name in ("task", "criterion")}
    line = [recipe.data, "--arch", arch, *command_line(chosen)]
    args, _ = options.parse_args_and_arch(parser, line, parse_known=True)
    config = MODEL_DATACLASS_REGISTRY.get(ARCH_MODEL_NAME_REGISTRY[arch])
    values = vars(config()) if config else {}
    values |= {name: value for name, value in vars(args).items() if value is not None}
    names = (name[2:] for action in parser._actions for name in action.option_strings)
    return {name: values.get(name.replace("-", "_")) for name in names}


def train_options(recipe: Recipe, entry: Entry, **more: object) -> list[str]:
    """The arguments of fairseq-train; *more* has ``seed`` and ``save_dir``."""
    return [recipe.data, *command_line({**entry.options, **more})]


def training_parser() -> argparse.ArgumentParser:
    """The parser of fairseq-train, whose errors are exceptions."""
    parser = options.get_training_parser()

    def refuse(message):
        raise ValueError(message)

    parser.error = refuse
    return parser


def build(recipe: Recipe, entry: Entry):
    """The configuration that fairseq-train makes of the options, the task and the model."""
    known_updates = replace(entry, options=scheduled(entry.options, entry.updates or 1000))
    # The plugins are imported already; those of a comparison get their folder once it is planned.
    line = train_options(recipe, known_updates, **{"user-dir": None})
    args = options.parse_args_and_arch(training_parser(), line)
    cfg = convert_namespace_to_omegaconf(args)
    torch.manual_seed(1)
    task = tasks.setup_task(cfg.task)
    return cfg, task, task.build_model(cfg.model)


def counted(recipe: Recipe, entry: Entry) -> Entry:
    """An architecture with the number of its parameters."""
    _, _, model = build(recipe, entry)
    trained = (parameter for parameter in model.parameters() if parameter.requires_grad)
    return replace(entry, parameters=sum(parameter.numel() for parameter in trained))


def matched(recipe: Recipe, entry: Entry, target: int) -> Entry:
    """An architecture with the inner width, or the width, that makes a number of parameters.

    The number grows with the width, which the secant finds in steps that the model accepts.
    """
    if abs(entry.parameters - target) <= TOLERANCE * target:
        return entry
    known = known_options(recipe, entry.options["arch"])
    for size in WIDTHS:
        names = [f"{side}-{size}" for side in ("encoder", "decoder") if f"{side}-{size}" in known]
        if names:
            break
    else:
        return replace(entry, note="has no width to choose")
    step = 2
    if size == "embed-dim":
        # Its multiples fit the heads, and the halves of a model.
        given = {**known, **entry.options}
        heads = (str(given.get(f"{side}-attention-heads")) for side in ("encoder", "decoder"))
        step = math.lcm(8, *(int(number) for number in heads if number.isdigit()))
        if "decoder-input-dim" in known:
            names += ["decoder-input-dim", "decoder-output-dim"]
    start = int(entry.options.get(names[0], known[names[0]]))
    found = {start: entry}
    slope = entry.parameters / start
    while True:
        width = min(found, key=lambda width: abs(found[width].parameters - target))
        guess = width + (target - found[width].parameters) / slope
        guess = max(step, round(guess / step) * step)
        if guess in found:
            return found[width]
        options = {**entry.options, **dict.fromkeys(names, guess)}
        note = f"{names[0]} {start} -> {guess}"
        found[guess] = counted(recipe, replace(entry, options=options, note=note))
        slope = (found[guess].parameters - found[width].parameters) / (guess - width)
        if slope <= 0:
            return replace(entry, note=f"{names[0]} does not change its size")


def tried(recipe: Recipe, entry: Entry) -> Entry:
    """An architecture with its updates, its schedule, and the time that a few updates promise.

    The updates are fairseq's own, so that options of the optimizer, of precision and of accumulated
    gradients are tried with the model.
    """
    cfg, task, model = build(recipe, entry)
    start = cfg.checkpoint.finetune_from_model
    if start and not Path(start).is_file():
        raise ValueError(f"--finetune-from-model {start}: no such checkpoint; train it first")
    # Processes and threads that read batches would outlive the trial.
    cfg.dataset.num_workers = cfg.dataset.data_buffer_size = 0
    trainer = Trainer(cfg, task, model, task.build_criterion(cfg.criterion))
    try:
        batches = trainer.get_train_iterator(epoch=1).next_epoch_itr()
    except IndexError as error:  # fairseq's, where it leaves all examples out
        raise ValueError(
            f"{recipe.data}: no training example fits; check --max-tokens and --max-positions"
        ) from error
    for subset in cfg.dataset.valid_subset.split(","):
        task.load_dataset(subset, combine=False, epoch=1)
    accumulated = cfg.optimization.update_freq[0]
    per_epoch = -(-len(batches) // accumulated)
    limits = (cfg.optimization.max_epoch * per_epoch, cfg.optimization.max_update)
    updates = min((limit for limit in limits if limit > 0), default=0)
    if not updates:
        raise ValueError("the training has no end; give --max-epoch or --max-update")
    saved = updates // (cfg.checkpoint.save_interval_updates or per_epoch)
    if not 0 <= recipe.average <= saved:
        raise ValueError(
            f"average {recipe.average}: {updates} updates leave {saved} checkpoints; give from 0 "
            "to as many, or more updates"
        )
    seconds = []
    for samples in itertools.islice(iterators.GroupedIterator(batches, accumulated), STEPS):
        begin = time.perf_counter()
        trainer.train_step(samples)
        if trainer.cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    # The first update allocates memory and the optimizer's state.
    update = statistics.median(seconds[1:] or seconds)
    options = scheduled(entry.options, updates)
    return replace(entry, options=options, updates=updates, seconds=update * updates)


def budgeted(
    recipe: Recipe, entries: Sequence[Entry], minutes: float, planned: Mapping[str, int]
) -> list[Entry]:
    """Architectures whose trainings all take so many minutes, by updates measured in turn.

    Each schedule is that of the recipe, stretched or shortened to end with the training. Updates
    are counted, not time, so that a training can be resumed and repeated; those of trainings that
    an earlier command has begun are *planned*. The report has the time that a training took.
    """
    measured = {entry.name: [entry.seconds / entry.updates] for entry in entries}
    for _ in range(ROUNDS - 1):
        for entry in entries:
            if entry.name not in planned:
                measured[entry.name].append(tried(recipe, entry).seconds / entry.updates)
    found = []
    for entry in entries:
        with naming(entry.name, "cannot be trained"):
            update = statistics.median(measured[entry.name])
            updates = planned.get(entry.name) or int(minutes * 60 / update)
            if updates < 1:
                raise ValueError(f"--budget: an update takes {update:.1f} seconds; give more time")
            entry = tried(recipe, stretched(entry, updates))
            found.append(replace(entry, seconds=minutes * 60, budget=minutes))
    return found


def stretched(entry: Entry, updates: int) -> Entry:
    """An architecture whose schedule ends after so many updates."""
    if entry.options.get("lr-scheduler") != "polynomial_decay":
        raise ValueError(
            "--budget: the rate must fall to zero; add --lr-scheduler polynomial_decay "
            "--total-num-update 100% --warmup-updates 10%"
        )
    changes: Options = {"max-update": updates, "max-epoch": None}
    for name in ("warmup-updates", "total-num-update"):
        given = int(entry.options.get(name, 0))
        changes[name] = max(1, round(given * updates / entry.updates))
    return replace(entry, options=merged(entry.options, changes))


def scheduled(given: Options, updates: int) -> Options:
    """Options in which shares, such as ``10%``, are numbers of updates."""
    return {
        name: max(1, round(float(value[:-1]) / 100 * updates))
        if isinstance(value, str) and re.fullmatch(r"[\d.]+%", value)
        else value
        for name, value in given.items()
    }
