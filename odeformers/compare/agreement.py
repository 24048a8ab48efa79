"""Agreement between a command and the folder that it continues.

``comparison.yaml`` contains what all runs of a comparison share; the command that begins the first
run writes it. A command that differs from it, or from the ``run.yaml`` of a run that has begun,
raises an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairseq_odeformers.files import find_free_name
from odeformers.arguments import name_differences
from odeformers.commands import Options, to_words

from .experiment import Experiment
from .numbers import clock
from .results.rows import TUNING_SEED, find_tuning_seed
from .run import Run
from .variant import BEST_BY, Variant
from .yaml_files import pick_fields, reading_yaml

COMPARISON = "comparison.yaml"
MOST_NAMED = 5  # maximum number of differences in a message
# Options of an evaluation that only change the memory that it needs, and no prediction.
BATCHING = ("batch-size", "max-sentences", "max-tokens")


@dataclass(frozen=True)
class Shared:
    """The settings of all runs of a comparison."""

    data: str
    data_digest: str
    task: str
    tune: str  # names of tuned options
    effort: Options  # a budget, or where trainings end
    baseline: str  # the architecture that others are compared with


def share(experiment: Experiment) -> Shared:
    limits = ("max-epoch", "max-update")
    effort = {name: str(value) for name, value in experiment.train.items() if name in limits}
    return Shared(
        data=experiment.data,
        data_digest=experiment.data_digest,
        task=experiment.task,
        tune=" ".join(sorted(experiment.tune)),
        effort={"budget": clock(60 * experiment.budget)} if experiment.budget else effort,
        baseline=experiment.baseline,
    )


def join(experiment: Experiment, out: Path, begun: Mapping[Path, Run]) -> Experiment:
    """Adapt an experiment to the folder that it continues, before its trials.

    The first command in the folder determines the seed that tunes, and the baseline unless another
    one is requested.

    Raises:
        ValueError: the folder contains something other than comparisons of this version, or its
            comparison has other data, another task, effort or baseline, or other tuned options.
    """
    ours = (COMPARISON, f"*/{COMPARISON}", f"*/*/{COMPARISON}")
    others = any(not path.name.startswith(".") for path in out.glob("*"))
    if others and not any(any(out.glob(pattern)) for pattern in ours):
        raise ValueError(
            f"--out {out}: it has files, but no {COMPARISON}; give a new folder, such as "
            f"--out {find_free_name(out)}"
        )
    if not begun:
        if experiment.tune and TUNING_SEED in experiment.seeds:
            seeds = " ".join(map(str, experiment.seeds))
            raise ValueError(f"--seeds {seeds}: seed {TUNING_SEED} tunes; give others")
        baseline = experiment.baseline or next(iter(experiment.architectures))
        return replace(experiment, baseline=baseline, tuning_seed=TUNING_SEED)
    with reading_yaml(out / COMPARISON) as content:
        kept = Shared(**pick_fields(content, Shared))
    seed = find_tuning_seed(begun.values())
    train = experiment.train
    if all(BEST_BY not in run.variant.options for run in begun.values()):
        train = {BEST_BY: "loss", **train}  # the default of earlier versions, of all its runs
    baseline = experiment.baseline or kept.baseline
    joined = replace(experiment, train=train, baseline=baseline, tuning_seed=seed)
    then, now = (
        {**dict(data=s.data, task=s.task, tune=s.tune, baseline=s.baseline), **s.effort}
        for s in (kept, share(joined))
    )
    changes = find_changes(then, now)
    if kept.data == joined.data and kept.data_digest != joined.data_digest:
        changes += (f"the files of {kept.data} have changed",)
    if changes:
        raise ValueError(explain_changes(out, ", ".join(changes)))
    return joined


def check_settings(begun: Mapping[Path, Run], variants: Iterable[Variant], out: Path) -> None:
    """Check that the runs that have begun have the requested settings.

    Variants that share a trial differ only in the values of tuned options.

    Raises:
        ValueError: settings differ; the message names them, and the folders to delete.
    """
    asked = {variant.trial_label: variant for variant in variants}
    changed: dict[str, dict[str, None]] = {}  # the architectures, by what has changed
    folders = []
    for folder, run in begun.items():
        variant = run.variant
        now = asked.get(variant.trial_label, variant)
        changes = find_changes(settings(variant), settings(now))
        if variant.code != now.code:
            changes += ("the files of its plugin have changed",)
        if changes:
            folders.append(str(folder))
            changed.setdefault(", ".join(changes[:MOST_NAMED]), {})[variant.architecture] = None
    if changed:
        differences = "; ".join(f"{', '.join(names)}: {what}" for what, names in changed.items())
        remedy = f"delete {' '.join(folders)} to train again, or "
        raise ValueError(explain_changes(out, differences, remedy))


def settings(variant: Variant) -> Options:
    """Return the options that variants of one trial share, without the place of the package."""
    evaluate = {f"evaluate {k}": v for k, v in variant.evaluate.items() if k not in BATCHING}
    evaluate |= {f"score {split}": line for split, line in variant.score.items()}
    evaluate["splits"] = " ".join(sorted(variant.test_sets))
    evaluate["bleu-tokenize"] = variant.bleu_tokenize
    tuned = dict.fromkeys(variant.tried)
    return {"average": str(variant.average), **variant.options, **evaluate, "user-dir": "", **tuned}


def find_changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Describe the changes of options, which are compared as they are typed."""

    def show(value: object) -> str:
        words = to_words({"option": value})
        return words[-1] if len(words) > 1 else "set" if words else ""

    return name_differences(
        {name: (show(then.get(name)), show(now.get(name))) for name in {**then, **now}}
    )


def explain_changes(out: Path, changes: str, remedy: str = "") -> str:
    return (
        f"{out} was begun with other settings ({changes}); {remedy}give another folder, such as "
        f"--out {find_free_name(out)}"
    )
