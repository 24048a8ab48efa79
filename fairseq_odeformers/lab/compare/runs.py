"""Runs: a training with one seed and what follows it, in a folder of its own.

``run.yaml`` has all that determines a run. A folder whose ``run.yaml`` says the same as a command
is done, or resumes; another one is refused. Its steps are training, averaging, evaluation and
scoring. A step is skipped if its product exists, and an interrupted training resumes from its last
checkpoint. Its rows are written last: a run has finished if they say that it lacks nothing. A lock
keeps a second command from the same run.

``comparison.yaml`` has what all runs of a comparison share; the command that begins the first one
writes it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import submitit
import yaml
from filelock import FileLock, Timeout

from fairseq_odeformers.files import find_free_name, reading, reason, replacing, sha256
from fairseq_odeformers.lab.commands import end_with_parent, python_command
from fairseq_odeformers.models.common.kinds import Kind
from fairseq_odeformers.options import name_differences

from .experiment import Experiment, Shared
from .results import (
    NOT_EVALUATED,
    RESULTS,
    RUN,
    Options,
    check_version,
    choose_settings,
    clock,
    collect_rows,
    read_rows,
    to_words,
    write_rows,
)
from .scores import AVERAGED, BEST, SCORE, TRAIN_LOG, TRAINED, make_rows, read_progress
from .variant import Variant, evaluation_words, training_words

LOCK, FAILURE, COMPARISON = ".lock", "failed.txt", "comparison.yaml"
PREDICTING = "predicting"  # the steps whose outputs are scored
MOST_NAMED = 5  # differences in a message
# By kind, what a product is of what an evaluation prints; fairseq-eval-lm logs its score.
PRINTED = {Kind.TRANSLATION: "stdout", Kind.LANGUAGE_MODEL: "all"}
# Options of an evaluation that change no prediction, only the memory that it needs.
BATCHING = ("batch-size", "max-sentences", "max-tokens")


# --- steps -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A command of a run."""

    name: str  # in the table of progress
    words: tuple[str, ...]  # the command line, as a user types it
    product: str  # the file, in the folder of the run, that says that the step is done
    # What is printed and is the product: "stdout", or "all" that is printed or logged; "" if the
    # command writes the product itself.
    printed: str = ""

    def make_product(self, folder: Path) -> None:
        """Call the command. What it prints goes to the log, but for what is the product.

        Raises:
            ValueError: it failed, or has printed nothing where that is the product.
        """
        product, log = folder / self.product, folder / TRAIN_LOG
        with replacing(product) if self.printed else nullcontext(Path(os.devnull)) as output:
            with open(output, "wb") as file, open(log, "ab") as rest:
                start = rest.tell()
                status = subprocess.run(
                    python_command(self.words),
                    stdout=file if self.printed else rest,
                    stderr=subprocess.STDOUT if self.printed == "all" else rest,
                    env={**os.environ, "LOGLEVEL": "INFO"},  # fairseq logs its progress and scores
                    preexec_fn=end_with_parent,
                ).returncode
            told = log.read_bytes()[start:] or output.read_bytes()
            if status and self.printed:
                with open(log, "ab") as rest:  # since a product of a failure does not stay
                    rest.write(output.read_bytes())
            if status:
                why = explain_failure(told.decode(errors="replace"))
                raise ValueError(f"{self.words[0]}: {why} (status {status}); its log is {log}")
            if self.printed and not output.read_bytes().strip():
                raise ValueError(
                    f"{self.words[0]}: it has printed nothing, where its score is read; its log is "
                    f"{log}"
                )
        product.touch()


def explain_failure(output: str) -> str:
    """Why a command failed, by what it printed: that a training diverged, or else the last line.

    When a loss or a gradient is not finite, fairseq names the layer if it finds it, and often ends
    with the StopIteration of a hook.
    """
    diverged = re.search(
        r"^FloatingPointError: (gradients are .*|Minimum loss scale.*)", output, re.M
    )
    if diverged is None:
        return output.strip().split("\n")[-1] or "no output"
    layer = re.search(r"(NaN|Inf) detected in output of (\S*), shape", output)
    first = f", {layer[1]} first in the output of {layer[2] or 'the model'}" if layer else ""
    return (
        f"the loss or the gradients became NaN or infinite ({diverged[1].split('. ')[0]}{first}); "
        "lower --lr, or clip with --clip-norm 1"
    )


def make_steps(variant: Variant, folder: Path) -> Iterator[Step]:
    """The steps of a run."""
    average, saving = variant.average, {"save-dir": str(folder), "seed": variant.seed}
    saving |= {"log-format": "json", "log-interval": 20}
    # Without it, a resumed training has other batches than one that was not interrupted.
    saving["update-epoch-batch-itr"] = "True"
    by = "update" if variant.options.get("save-interval-updates") else "epoch"
    if average:
        saving["keep-interval-updates" if by == "update" else "keep-last-epochs"] = average
    if by == "update" or not average:
        saving["no-epoch-checkpoints"] = True
    words = training_words(variant.data, variant.options, **saving)
    yield Step("training", ("fairseq-train", *words), TRAINED)
    if average:
        output = folder / f"{AVERAGED}.pt"
        options = {"checkpoint-dir": folder, "by": by, "last": average, "output": output}
        yield Step("averaging", ("odeformers", "average", *to_words(options)), output.name)
    for checkpoint in (BEST, AVERAGED) if average else (BEST,):
        for split in variant.test_sets:
            output = folder / f"{checkpoint}.{split}.{variant.output_suffix}"
            place: Options = {"path": folder / f"{checkpoint}.pt"}
            if variant.kind is Kind.CLASSIFICATION:
                place["output"] = output
            words = evaluation_words(variant, split, **place)
            yield Step(PREDICTING, tuple(words), output.name, PRINTED.get(variant.kind, ""))
            if split in variant.score:
                line = shlex.split(variant.score[split])
                words = [word.replace("{output}", str(output)) for word in line]
                yield Step("scoring", tuple(words), output.with_suffix(SCORE).name, "stdout")


# --- runs --------------------------------------------------------------------------------------


@dataclass(eq=False)
class Run:
    """A training of a variant with one seed, and what follows it."""

    folder: Path
    variant: Variant
    tuning: bool = False  # it only trains, until the best candidate is known

    def __call__(self) -> None:
        """Make all products that are missing; a launcher calls this in another process."""
        try:
            with self.lock():
                self.check_data()
                while step := self.next_step:
                    step.make_product(self.folder)
                if not self.tuning:
                    self.remove_checkpoints()
                self.write_results(NOT_EVALUATED if self.tuning else "")
        except Timeout:
            return  # busy
        except Exception as error:
            self.fail(reason(error))

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """The same run again, where it was left: submitit's answer to preemption."""
        return submitit.helpers.DelayedSubmission(self)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Training, averaging, evaluation and scoring; of a candidate, the first."""
        steps = tuple(make_steps(self.variant, self.folder))
        return steps[:1] if self.tuning else steps

    @property
    def next_step(self) -> Step | None:
        """The first step that is not done; None if all are."""
        left = (step for step in self.steps if not (self.folder / step.product).exists())
        return next(left, None)

    @property
    def finished(self) -> bool:
        """Whether all is done and its rows say so; of a candidate, whether it is trained."""
        if self.next_step or not (self.folder / RESULTS).exists():
            return False
        rows = read_rows(self.folder / RESULTS)
        if self.tuning:
            return all(row.trained for row in rows)
        # An earlier version wrote rows without a state for a candidate before its evaluation.
        scored = {row.place for row in rows if row.metric}
        outputs = sum(step.name == PREDICTING for step in self.steps)
        return len(scored) >= outputs and not any(row.state for row in rows)

    def lock(self) -> FileLock:
        """The lock of whoever executes it; to enter it raises a Timeout if another process has."""
        return FileLock(self.folder / LOCK, timeout=0)

    @property
    def busy(self) -> bool:
        """Whether another process is executing it."""
        try:
            with self.lock():
                return False
        except Timeout:
            return True

    def check_data(self) -> None:
        """Check before a training that nobody has replaced the data."""
        if not (self.folder / TRAINED).exists():
            if sha256(Path(self.variant.data)) != self.variant.data_digest:
                raise ValueError(f"{self.variant.data} has changed since this comparison was begun")

    def remove_checkpoints(self) -> None:
        """Remove the checkpoints that only the training and averaging need."""
        for path in self.folder.glob("checkpoint*.pt"):
            if path.stem != BEST:
                path.unlink()

    def discard(self) -> None:
        """Remove them where a candidate is not the best, unless another process executes it."""
        with suppress(Timeout), self.lock():
            if self.finished:
                self.remove_checkpoints()

    def begin(self) -> None:
        """Make the folder with its ``run.yaml``, unless they are there; a failure is forgotten."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / FAILURE).unlink(missing_ok=True)
        if not (self.folder / RUN).exists():
            write_yaml(self.folder / RUN, replace(self.variant, begun=datetime.now().isoformat()))

    def fail(self, why: str) -> None:
        """Keep why the run has ended; it is not tried again by this command."""
        with replacing(self.folder / FAILURE) as temporary:
            temporary.write_text(f"{why}\n", encoding="utf-8")

    @property
    def failure(self) -> str | None:
        path = self.folder / FAILURE
        return path.read_text(encoding="utf-8").strip() if path.exists() else None

    @property
    def progress(self) -> dict[str, Any]:
        """What the end of its log tells; see :func:`.read_progress`."""
        return read_progress(self.folder / TRAIN_LOG, self.variant.valid_subset)

    @property
    def updates(self) -> int:
        """How many updates are made, by its log."""
        return self.progress["updates"]

    def write_results(self, lack: str) -> None:
        """Write the rows of what there is of the run, and the file of the comparison.

        Args:
            lack: what the run lacks; "" if it has finished.
        """
        rows = make_rows(read_yaml(self.folder / RUN, Variant), self.folder, lack)
        write_rows(self.folder / RESULTS, rows)
        collect_rows(self.folder.parent)

    def note_unfinished(self) -> None:
        """Write what a run that has ended early lacks, unless another process is executing it."""
        if not (self.folder / RUN).exists():
            return
        with suppress(Timeout), self.lock():
            if self.finished:
                return
            if (self.folder / TRAINED).exists():
                lack = f"{NOT_EVALUATED}: {self.failure}" if self.failure else NOT_EVALUATED
            elif self.failure:
                lack = f"failed: {self.failure}"
            else:
                lack = f"{self.updates:,} of {self.variant.updates:,} updates"
            self.write_results(lack)


def make_runs(
    variants: Iterable[Variant], out: Path, seeds: Sequence[int], tuning: bool = False
) -> list[Run]:
    """Runs of all variants with all seeds; those of the first seed come first."""
    return [
        Run(out / f"{variant.label}-seed{seed}", replace(variant, seed=seed), tuning)
        for seed in seeds
        for variant in variants
    ]


def tuning_runs(variants: Iterable[Variant], out: Path, seed: int) -> list[Run]:
    """The trainings of all candidates, with the seed that options are tuned with."""
    return make_runs([each for each in variants if each.tried], out, [seed], tuning=True)


def best_runs(variants: Sequence[Variant], out: Path, seed: int, seeds: Sequence[int]) -> list[Run]:
    """Runs with all seeds of one variant of each architecture: its best so far, or its first.

    The best one has the best validation with the seed that options are tuned with, also among
    candidates of earlier commands.
    """
    known = {(each.architecture, each.tuned): each for each in variants}
    first = {name: tuned for name, tuned in reversed(known)}
    place, trainings = variants[0].options.get("user-dir"), []
    for folder, kept in read_begun(out).items():
        # The package or plugin may have been elsewhere.
        known.setdefault((kept.architecture, kept.tuned), kept.change(user_dir=place))
        if (folder / RESULTS).exists():
            trainings.append(read_rows(folder / RESULTS)[0])
    best = {**first, **choose_settings(trainings, seed)}
    names = dict.fromkeys(each.architecture for each in variants)
    return make_runs([known[name, best[name]] for name in names], out, seeds)


# --- continuing --------------------------------------------------------------------------------


def share(experiment: Experiment, out: Path) -> Shared:
    """What the runs of an experiment share, before its trials.

    The baseline, if no other one is asked for, and the seed are those of the first command in a
    folder.

    Raises:
        ValueError: the folder has something else than comparisons of this version.
    """
    check_version(out)
    ours = (COMPARISON, f"*/{COMPARISON}", f"*/*/{COMPARISON}", f"*/{RUN}")
    others = any(not path.name.startswith(".") for path in out.glob("*"))
    if others and not any(any(out.glob(pattern)) for pattern in ours):
        raise ValueError(
            f"--out {out}: it has files that are not of a comparison; give a new folder, such as "
            f"--out {find_free_name(out)}"
        )
    kept = read_shared(out)
    limits = ("max-epoch", "max-update")
    effort = {name: str(value) for name, value in experiment.train.items() if name in limits}
    return Shared(
        data=experiment.data,
        data_digest=sha256(Path(experiment.data)),
        task=experiment.task,
        tune=" ".join(sorted(experiment.tune)),
        effort={"budget": clock(60 * experiment.budget)} if experiment.budget else effort,
        baseline=experiment.baseline
        or (kept.baseline if kept else next(iter(experiment.architectures))),
        seed=kept.seed if kept else experiment.seeds[0],
    )


def begin(runs: Iterable[Run], shared: Shared, out: Path) -> None:
    """Make the folders of runs, unless they are there.

    Of commands that begin at the same time, the second one is compared with the first.

    Raises:
        ValueError: see :func:`check_begun`.
    """
    out.mkdir(parents=True, exist_ok=True)
    with FileLock(out / f".{COMPARISON}.lock"):
        check_begun(shared, [run.variant for run in runs], out)
        if not read_shared(out):
            write_yaml(out / COMPARISON, shared)
        for run in runs:
            run.begin()


def check_begun(shared: Shared, variants: Iterable[Variant], out: Path) -> None:
    """Check that what has begun in a folder was begun with the same settings.

    Variants that cost the same differ in the values of tuned options alone.

    Raises:
        ValueError: it was not; the message has what differs, and the folders to delete if that is
            enough.
    """
    begun, asked = read_begun(out), {variant.cost: variant for variant in variants}
    general: tuple[str, ...] = ()
    if kept := read_shared(out):
        general = find_changes(common_settings(kept), common_settings(shared))
        if kept.data == shared.data and kept.data_digest != shared.data_digest:
            general += (f"the files of {kept.data} have changed",)
    told: dict[str, dict[str, None]] = {}  # architectures, by what has changed
    folders = []
    for folder, variant in begun.items():
        now = asked.get(variant.cost, variant)
        changes = general + find_changes(settings(variant), settings(now))
        # Earlier versions kept none of a plugin that has only a preset.
        if variant.code and variant.code != now.code:
            changes += ("the files of its plugin have changed",)
        if changes:
            folders.append(str(folder))
            named = ", ".join(list(dict.fromkeys(changes))[:MOST_NAMED])
            told.setdefault(named, {})[variant.architecture] = None
    if told:
        differences = "; ".join(f"{', '.join(names)}: {what}" for what, names in told.items())
        delete = "" if general else f"delete {' '.join(folders)} to train anew, or "
        raise ValueError(
            f"{out} was begun with other settings ({differences}); {delete}give another folder, "
            f"such as --out {find_free_name(out)}"
        )


def common_settings(shared: Shared) -> Options:
    """What commands that share a folder have in common."""
    tune = f"{shared.tune} by seed {shared.seed}" if shared.tune else ""
    names = {"data": shared.data, "task": shared.task, "tune": tune, "baseline": shared.baseline}
    return {**names, **shared.effort}


def settings(variant: Variant) -> Options:
    """What variants that cost the same have in common, but for where the package is."""
    evaluate = {f"evaluate {k}": v for k, v in variant.evaluate.items() if k not in BATCHING}
    evaluate |= {f"score {split}": line for split, line in variant.score.items()}
    evaluate["splits"] = " ".join(sorted(variant.test_sets))
    evaluate["bleu-tokenize"] = variant.bleu_tokenize
    tuned = dict.fromkeys(variant.tried)
    return {"average": str(variant.average), **variant.options, **evaluate, "user-dir": "", **tuned}


def find_changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """What has changed of some options, which are compared as they are typed."""

    def show(value: object) -> str:
        words = to_words({"option": value})
        return words[-1] if len(words) > 1 else "set" if words else ""

    return name_differences(
        {name: (show(then.get(name)), show(now.get(name))) for name in {**then, **now}}
    )


# --- files -------------------------------------------------------------------------------------


def read_yaml(path: Path, kind: type) -> Any:
    """The value of a dataclass that :func:`write_yaml` has written."""
    with reading(path, f"is no {path.name} of this version"):
        return kind(**yaml.safe_load(path.read_text(encoding="utf-8")))


def write_yaml(path: Path, value: Any) -> None:
    with replacing(path) as temporary:
        temporary.write_text(yaml.safe_dump(asdict(value), sort_keys=False), encoding="utf-8")


def read_shared(out: Path) -> Shared | None:
    """What all runs that have been begun in a folder share; None if none has been."""
    path = out / COMPARISON
    return read_yaml(path, Shared) if path.exists() and any(out.glob(f"*/{RUN}")) else None


def read_begun(out: Path) -> dict[Path, Variant]:
    """The folders of all runs that have been begun, each with what determines it."""
    return {path.parent: read_yaml(path, Variant) for path in sorted(out.glob(f"*/{RUN}"))}
