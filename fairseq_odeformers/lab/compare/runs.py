"""Runs: a training with one seed and what follows it, in a folder of its own.

``run.yaml`` has all that determines a run. A folder whose ``run.yaml`` says the same as a command
is done, or resumes; another one is refused. Its steps are training, averaging, evaluation and
scoring. A step is skipped if its product exists, and an interrupted training resumes from its last
checkpoint. Its rows are written last: a run has finished if they say that it lacks nothing. A lock
keeps a second command from the same run.

``comparison.yaml`` has what all runs of a comparison share; the first command writes it.
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

from fairseq_odeformers.files import find_free_name, reading, replacing, sha256
from fairseq_odeformers.lab.commands import end_with_parent, python_command
from fairseq_odeformers.models.common.kinds import Kind
from fairseq_odeformers.options import name_differences

from .experiment import Experiment, name_options
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
from .scores import AVERAGED, BEST, SCORE, TRAIN_LOG, TRAINED, Facts, make_rows, read_progress
from .variant import evaluation_words, training_words

LOCK, FAILURE, COMPARISON = ".lock", "failed.txt", "comparison.yaml"
# By kind, what a product is of what an evaluation prints; fairseq-eval-lm logs its score.
PRINTED = {Kind.TRANSLATION: "stdout", Kind.LANGUAGE_MODEL: "all"}
# Options of an evaluation that change no prediction, only the memory that it needs.
BATCHING = ("batch-size", "max-sentences", "max-tokens")


def label_of(facts: Facts) -> str:
    """The name of a variant, with which the folders of its runs begin."""
    return facts.architecture + name_options(facts.tried)


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


def make_steps(facts: Facts, folder: Path) -> Iterator[Step]:
    """The steps of a run."""
    saving: Options = {"save-dir": str(folder), "seed": facts.seed}
    saving |= {"log-format": "json", "log-interval": 20}
    # Without it, a resumed training has other batches than one that was not interrupted.
    saving["update-epoch-batch-itr"] = "True"
    by = "update" if facts.options.get("save-interval-updates") else "epoch"
    if facts.average:
        saving["keep-interval-updates" if by == "update" else "keep-last-epochs"] = facts.average
    if by == "update" or not facts.average:
        saving["no-epoch-checkpoints"] = True
    words = training_words(facts.data, facts.options, **saving)
    yield Step("training", ("fairseq-train", *words), TRAINED)
    checkpoints = [BEST]
    if facts.average:
        checkpoints.append(AVERAGED)
        output = folder / f"{AVERAGED}.pt"
        options = {"checkpoint-dir": folder, "by": by, "last": facts.average, "output": output}
        yield Step("averaging", ("odeformers", "average", *to_words(options)), output.name)
    for checkpoint in checkpoints:
        for split in facts.test_sets:
            output = folder / f"{checkpoint}.{split}.{facts.output_suffix}"
            evaluate = {"path": folder / f"{checkpoint}.pt", **facts.evaluate}
            if facts.kind is Kind.CLASSIFICATION:
                evaluate["output"] = output
            words = evaluation_words(facts.kind, facts.data, facts.options, split, evaluate)
            yield Step("predicting", tuple(words), output.name, PRINTED.get(facts.kind, ""))
            if split in facts.score:
                line = shlex.split(facts.score[split])
                words = [word.replace("{output}", str(output)) for word in line]
                yield Step("scoring", tuple(words), output.with_suffix(SCORE).name, "stdout")


# --- runs --------------------------------------------------------------------------------------


@dataclass(eq=False)
class Run:
    """A training of a variant with one seed, and what follows it."""

    folder: Path
    facts: Facts
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
            self.fail(str(error))

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """The same run again, where it was left: submitit's answer to preemption."""
        return submitit.helpers.DelayedSubmission(self)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Training, averaging, evaluation and scoring; of a candidate, the first."""
        steps = tuple(make_steps(self.facts, self.folder))
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
        return all(row.trained if self.tuning else not row.state for row in rows)

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
            if sha256(Path(self.facts.data)) != self.facts.data_digest:
                raise ValueError(f"{self.facts.data} has changed since this comparison was begun")

    def remove_checkpoints(self) -> None:
        """Remove the checkpoints that only the training and averaging need."""
        for path in self.folder.glob("checkpoint*.pt"):
            if path.stem != BEST:
                path.unlink()

    def begin(self) -> None:
        """Make the folder with its ``run.yaml``, unless they are there; a failure is forgotten."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / FAILURE).unlink(missing_ok=True)
        if not (self.folder / RUN).exists():
            write_yaml(self.folder / RUN, replace(self.facts, begun=datetime.now().isoformat()))

    def fail(self, reason: str) -> None:
        """Keep why the run has ended; it is not tried again by this command."""
        (self.folder / FAILURE).write_text(f"{reason}\n", encoding="utf-8")

    @property
    def failure(self) -> str | None:
        path = self.folder / FAILURE
        return path.read_text(encoding="utf-8").strip() if path.exists() else None

    @property
    def progress(self) -> dict[str, Any]:
        """What the end of its log tells; see :func:`.read_progress`."""
        return read_progress(self.folder / TRAIN_LOG, self.facts.valid_subset)

    @property
    def updates(self) -> int:
        """How many updates are made, by its log."""
        return self.progress["updates"]

    def write_results(self, lack: str) -> None:
        """Write the rows of what there is of the run, and the file of the comparison.

        Args:
            lack: what the run lacks; "" if it has finished.
        """
        rows = make_rows(read_yaml(self.folder / RUN, Facts), self.folder, lack)
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
                lack = f"{self.updates:,} of {self.facts.updates:,} updates"
            self.write_results(lack)


def make_runs(every: Iterable[Facts], out: Path, seeds: Sequence[int]) -> list[Run]:
    """Runs of all facts with all seeds; those of the first seed come first."""
    return [
        Run(out / f"{label_of(facts)}-seed{seed}", replace(facts, seed=seed))
        for seed in seeds
        for facts in every
    ]


# --- continuing --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shared:
    """What all runs of a comparison share."""

    data: str
    data_digest: str
    task: str
    tune: str  # names of tuned options
    effort: Options  # a budget, or where trainings end
    baseline: str  # the architecture that others are compared with
    seed: int  # that options are tuned with
    parameters: int = 0  # of the baseline


def read_yaml(path: Path, kind: type) -> Any:
    """The value of a dataclass that :func:`write_yaml` has written."""
    with reading(path, f"is no {path.name} of this version"):
        return kind(**yaml.safe_load(path.read_text(encoding="utf-8")))


def write_yaml(path: Path, value: Any) -> None:
    with replacing(path) as temporary:
        temporary.write_text(yaml.safe_dump(asdict(value), sort_keys=False), encoding="utf-8")


def read_begun(out: Path) -> dict[Path, Facts]:
    """The folders of all runs that have been begun, each with its facts."""
    return {path.parent: read_yaml(path, Facts) for path in sorted(out.glob(f"*/{RUN}"))}


def share(experiment: Experiment, out: Path) -> Shared:
    """What the runs of an experiment share, before its trials.

    Of the first command in a folder, the baseline and the seed stay.

    Raises:
        ValueError: it is not what the runs in the folder share.
    """
    limits = ("max-epoch", "max-update")
    effort = {name: experiment.train[name] for name in limits if name in experiment.train}
    if experiment.budget:
        effort = {"budget": clock(60 * experiment.budget)}
    now = Shared(
        data=experiment.data,
        data_digest=sha256(Path(experiment.data)),
        task=experiment.task,
        tune=" ".join(sorted(experiment.tune)),
        effort={name: str(value) for name, value in effort.items()},
        baseline=experiment.baseline or next(iter(experiment.architectures)),
        seed=experiment.seeds[0],
    )
    check_version(out)
    if not (out / COMPARISON).exists():
        return now
    kept = read_yaml(out / COMPARISON, Shared)
    names = ["data", "task", "tune", *(["baseline"] if experiment.baseline else [])]
    then, asked = ({k: getattr(each, k) for k in names} | each.effort for each in (kept, now))
    if kept.data == now.data and kept.data_digest != now.data_digest:
        raise ValueError(
            f"{kept.data} has other files than when {out} was begun; give another folder, such as "
            f"--out {find_free_name(out)}"
        )
    if changes := find_changes(then, asked):
        told = ", ".join(dict.fromkeys(facts.architecture for facts in read_begun(out).values()))
        refuse(out, f"{told}: {', '.join(changes)}")
    return kept


def write_shared(out: Path, shared: Shared) -> None:
    """Keep what runs share, unless another command has meanwhile."""
    out.mkdir(parents=True, exist_ok=True)
    with FileLock(out / f".{COMPARISON}.lock"):
        if not (out / COMPARISON).exists():
            write_yaml(out / COMPARISON, shared)


def check_begun(every: Iterable[Facts], out: Path) -> None:
    """Check that runs of the same variants, with any seed, were begun with the same settings.

    Raises:
        ValueError: one was not; the message has the folders to delete.
    """
    asked, folders = {label_of(facts): facts for facts in every}, []
    told: dict[str, dict[str, None]] = {}  # architectures, by what has changed
    for folder, kept in read_begun(out).items():
        now = asked.get(label_of(kept), kept)
        changes = find_changes(settings(kept), settings(now))
        changes = changes if kept.code == now.code else ("the files of its plugin have changed",)
        if changes:
            folders.append(str(folder))
            told.setdefault(", ".join(changes), {})[kept.architecture] = None
    if folders:
        differences = "; ".join(f"{', '.join(names)}: {what}" for what, names in told.items())
        refuse(out, differences, f"delete {' '.join(folders)} to train anew, or ")


def refuse(out: Path, told: str, remedy: str = "") -> None:
    """Refuse a command that differs from what has begun a folder."""
    raise ValueError(
        f"{out} was begun with other settings ({told}); {remedy}give another folder, such as --out "
        f"{find_free_name(out)}"
    )


def settings(facts: Facts) -> Options:
    """All that the runs of a variant have in common, but where the package is."""
    evaluate = {f"evaluate {k}": v for k, v in facts.evaluate.items() if k not in BATCHING}
    evaluate |= {f"score {split}": line for split, line in facts.score.items()}
    evaluate |= {"splits": " ".join(sorted(facts.test_sets)), "bleu-tokenize": facts.bleu_tokenize}
    return {"average": str(facts.average), **facts.options, "user-dir": "", **evaluate}


def find_changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """What has changed of some options, which are compared as they are typed."""

    def show(value: object) -> str:
        words = to_words({"option": value})
        return words[-1] if len(words) > 1 else "set" if words else ""

    return name_differences(
        {name: (show(then.get(name)), show(now.get(name))) for name in {**then, **now}}
    )


# --- tuning ------------------------------------------------------------------------------------


def choose_facts(every: Sequence[Facts], out: Path) -> list[Facts]:
    """The facts of one candidate for each architecture: its best so far, or else its first.

    The best one has the best validation with the seed that options are tuned with, also among
    candidates of earlier commands.
    """
    names, begun = dict.fromkeys(facts.architecture for facts in every), read_begun(out)
    files = [path / RESULTS for path, facts in begun.items() if facts.architecture in names]
    rows = [r for path in files if path.exists() for r in read_rows(path) if not r.metric]
    tuned = choose_settings(rows).settings
    chosen = []
    for name in names:
        known = [facts for facts in (*every, *begun.values()) if facts.architecture == name]
        best = (facts for facts in known if facts.tuned == tuned.get(name))
        chosen.append(next(best, known[0]))
    return chosen
