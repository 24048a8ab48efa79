"""Runs: a training with one seed and what follows it, in a folder of its own.

``run.yaml`` has all that determines a run. A folder whose ``run.yaml`` says the same as a command
is done, or resumes; another one is refused. Its steps are training, averaging, evaluation and
scoring. A step is skipped if its product exists, and an interrupted training resumes from its last
checkpoint. A lock keeps a second command from the same run.

``comparison.yaml`` has what all runs of a comparison share; the first command writes it.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import chain
from pathlib import Path

import submitit
import yaml
from filelock import FileLock, Timeout

from fairseq_odeformers.files import find_free_name, reading, replacing, sha256
from fairseq_odeformers.lab.commands import end_with_parent, python_command
from fairseq_odeformers.models.common.kinds import Kind
from fairseq_odeformers.options import name_differences

from .experiment import Experiment, name_options
from .fairness import Planned
from .results import (
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
# By kind, where predictions are printed; fairseq-eval-lm logs its score, and logs go to stderr.
PRINTED = {Kind.TRANSLATION: "stdout", Kind.LANGUAGE_MODEL: "stderr"}
# Options of an evaluation that change no prediction, only the memory that it needs.
BATCHING = ("batch-size", "max-sentences", "max-tokens")


# --- steps -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A command of a run."""

    name: str  # in the table of progress
    words: tuple[str, ...]  # the command line, as a user types it
    product: str  # the file, in the folder of the run, that says that the step is done
    # The stream that is the product, "stdout" or "stderr"; "" if the command writes it itself.
    printed: str = ""

    def make_product(self, folder: Path) -> None:
        """Call the command. What it prints goes to the log, but for the stream that is the product.

        Raises:
            ValueError: it failed, or has printed nothing where that is the product.
        """
        product, log = folder / self.product, folder / TRAIN_LOG
        with replacing(product) if self.printed else nullcontext(os.devnull) as output:
            with open(output, "wb") as file, open(log, "ab") as rest:
                start, command = rest.tell(), python_command(self.words)
                streams = {"stdout": rest, "stderr": rest, self.printed: file}
                status = subprocess.run(
                    command,
                    stdout=streams["stdout"],
                    stderr=streams["stderr"],
                    env={**os.environ, "LOGLEVEL": "INFO"},  # fairseq logs its progress and scores
                    preexec_fn=end_with_parent,
                ).returncode
            logged, printed = log.read_bytes()[start:], Path(output).read_bytes()
            if status and self.printed == "stderr":
                with open(log, "ab") as rest:  # since a product of a failure does not stay
                    rest.write(printed)
                logged = printed
            if status:
                why = explain_failure((logged or printed).decode(errors="replace"))
                raise ValueError(f"{self.words[0]}: {why} (status {status}); its log is {log}")
            if self.printed and not printed.strip():
                raise ValueError(
                    f"{self.words[0]}: it has printed nothing to {self.printed}, where its score "
                    f"is read; what else it printed is in {log}"
                )
        product.touch()

    def count_printed(self, folder: Path) -> int:
        """The number of sentences that fairseq-generate has printed so far."""
        begun = folder.glob(f"{glob.escape(self.product)}.*") if self.printed else ()
        return sum(path.read_bytes().count(b"\nH-") for path in begun)


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
                words = [
                    w.replace("{output}", str(output)) for w in shlex.split(facts.score[split])
                ]
                yield Step("scoring", tuple(words), output.with_suffix(SCORE).name, "stdout")


# --- runs --------------------------------------------------------------------------------------


@dataclass(eq=False)
class Run:
    """A training of a variant with one seed, and what follows it."""

    folder: Path
    facts: Facts
    tuning: bool = False  # it only trains, until the best candidate is known
    training_seconds: float = 0.0  # that it may take
    evaluation_seconds: float = 0.0

    def __call__(self) -> None:
        """Make all products that are missing; a launcher calls this in another process."""
        try:
            with self.lock():
                self.check_data()
                while step := self.next_step:
                    step.make_product(self.folder)
                if not self.tuning:
                    self.remove_checkpoints()
                self.write_results()
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

    def lock(self) -> FileLock:
        """The lock of whoever executes it; to enter it raises a Timeout if another process has."""
        return FileLock(self.folder / LOCK, timeout=0)

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
            facts = replace(self.facts, begun=datetime.now().isoformat())
            with replacing(self.folder / RUN) as path:
                path.write_text(yaml.safe_dump(asdict(facts), sort_keys=False), encoding="utf-8")

    def write_results(self) -> None:
        """Write the rows of what there is of the run, and the file of the comparison."""
        rows = make_rows(read_facts(self.folder), self.folder, self.unfinished)
        write_rows(self.folder / RESULTS, rows)
        collect_rows(self.folder.parent)

    def note_unfinished(self) -> None:
        """Write what a run that has ended early lacks, unless another process is executing it."""
        if (self.folder / RUN).exists() and self.unfinished:
            with suppress(Timeout), self.lock():
                self.write_results()

    def fail(self, reason: str) -> None:
        """Keep why the run has ended; it is not tried again by this command."""
        (self.folder / FAILURE).write_text(f"{reason}\n", encoding="utf-8")

    @property
    def failure(self) -> str | None:
        path = self.folder / FAILURE
        return path.read_text(encoding="utf-8").strip() if path.exists() else None

    @property
    def busy(self) -> bool:
        """Whether another process is executing it."""
        try:
            with self.lock():
                return False
        except Timeout:
            return True

    @property
    def next_step(self) -> Step | None:
        """The first step that is not done; None if all are."""
        left = (step for step in self.steps if not (self.folder / step.product).exists())
        return next(left, None)

    @property
    def finished(self) -> bool:
        return self.next_step is None

    @property
    def trained_share(self) -> float:
        """The share of its updates that are made, by its log."""
        if (self.folder / TRAINED).exists():
            return 1.0
        return read_progress(self.folder / TRAIN_LOG)["updates"] / max(1, self.facts.updates)

    @property
    def unfinished(self) -> str:
        """What is missing of a run that has been begun; "" if nothing is."""
        if self.finished or not self.folder.exists():
            return ""
        if self.failure:
            return f"failed: {self.failure}"
        if not (self.folder / TRAINED).exists():
            updates = read_progress(self.folder / TRAIN_LOG)["updates"]
            return f"{updates:,} of {self.facts.updates:,} updates"
        return "not evaluated"


def read_facts(folder: Path) -> Facts:
    """The facts of a run, of its ``run.yaml``."""
    path = folder / RUN
    with reading(path, f"is no {RUN} of this version"):
        return Facts(**yaml.safe_load(path.read_text(encoding="utf-8")))


def make_runs(
    every: Iterable[Facts], out: Path, seeds: Sequence[int], planned: Iterable[Planned] = ()
) -> list[Run]:
    """Runs of all facts with all seeds; those of the first seed come first.

    Args:
        planned: tells how long their trainings may take.
    """
    times = {p.variant.label: (p.training_seconds, p.evaluation_seconds) for p in planned}
    runs = []
    for seed in seeds:
        for facts in every:
            label = facts.architecture + name_options(facts.tried)
            run = Run(out / f"{label}-seed{seed}", replace(facts, seed=seed))
            run.training_seconds, run.evaluation_seconds = times.get(label, (0.0, 0.0))
            runs.append(run)
    return runs


def make_facts(planned: Planned, shared: Shared, command: str, environment: str) -> Facts:
    """What is known of the runs of a variant before they begin."""
    experiment, variant = planned.variant.experiment, planned.variant
    return Facts(
        architecture=variant.name,
        seed=shared.seed,
        task=experiment.task,
        data=experiment.data,
        data_digest=shared.data_digest,
        code=variant.code,
        options=variant.options,
        tried=variant.tried,
        evaluate=experiment.evaluate,
        average=experiment.average,
        test_sets=experiment.test_sets,
        score=experiment.score,
        bleu_tokenize=experiment.bleu_tokenize,
        paper=experiment.paper.get(variant.name, {}),
        parameters=planned.trial.parameters,
        budget=experiment.budget,
        updates=planned.updates,
        epoch_updates=planned.trial.epoch_updates,
        size=variant.size,
        defaults=variant.defaults,
        baseline=shared.baseline,
        environment=environment,
        command=command,
        validation_texts=experiment.validation_texts,
    )


# --- what runs share ---------------------------------------------------------------------------


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

    @classmethod
    def of(cls, experiment: Experiment, data_digest: str) -> Shared:
        """What the runs of an experiment share, before the baseline has been built."""
        limits = ("max-epoch", "max-update")
        effort = {name: experiment.train[name] for name in limits if name in experiment.train}
        if experiment.budget:
            effort = {"budget": clock(60 * experiment.budget)}
        return cls(
            data=experiment.data,
            data_digest=data_digest,
            task=experiment.task,
            tune=" ".join(sorted(experiment.tune)),
            effort={name: str(value) for name, value in effort.items()},
            baseline=experiment.baseline or next(iter(experiment.architectures)),
            seed=experiment.seeds[0],
        )


def read_shared(out: Path) -> Shared | None:
    """What the runs in a folder share; None if none has begun.

    Raises:
        ValueError: an earlier version has begun it.
    """
    check_version(out)
    path = out / COMPARISON
    if not path.exists():
        return None
    with reading(path, f"is no {COMPARISON} of this version"):
        return Shared(**yaml.safe_load(path.read_text(encoding="utf-8")))


def write_shared(out: Path, shared: Shared) -> Shared:
    """Keep what runs share, unless another command has meanwhile; returns what is kept."""
    out.mkdir(parents=True, exist_ok=True)
    with FileLock(out / f".{COMPARISON}.lock"):
        kept = read_shared(out)
        if kept is None:
            with replacing(out / COMPARISON) as path:
                path.write_text(yaml.safe_dump(asdict(shared), sort_keys=False), encoding="utf-8")
    return kept or shared


def check_shared(experiment: Experiment, shared: Shared, out: Path) -> Shared:
    """Check that an experiment shares what the runs in a folder do, before its trials.

    Returns:
        what the runs share: of the first command, the baseline and the seed stay.
    """
    kept = read_shared(out)
    if kept is None:
        return shared
    if experiment.baseline is None:
        shared = replace(shared, baseline=kept.baseline)
    names = ("data", "task", "tune", "baseline")
    settings = ({k: getattr(each, k) for k in names} | each.effort for each in (kept, shared))
    then, now = settings
    begun = list(dict.fromkeys(facts.architecture for _, facts in read_begun(out)))
    changes = name_differences({k: (then.get(k, ""), now.get(k, "")) for k in {**then, **now}})
    free = find_free_name(out)
    if changes:
        raise ValueError(
            f"{out} was begun with other settings ({', '.join(begun)}: {', '.join(changes)}); give "
            f"another folder, such as --out {free}"
        )
    if kept.data_digest != shared.data_digest:
        raise ValueError(
            f"{kept.data} has other files than when {out} was begun; give another folder, such as "
            f"--out {free}"
        )
    return kept


def read_begun(out: Path) -> Iterator[tuple[Path, Facts]]:
    """The folders of all runs that have been begun, each with its facts."""
    for path in sorted(out.glob(f"*/{RUN}")):
        yield path.parent, read_facts(path.parent)


def check_begun(every: Iterable[Facts], out: Path) -> None:
    """Check that runs of the same variants, with any seed, were begun with the same settings.

    Raises:
        ValueError: one was not; the message has the folders to delete.
    """
    asked = {facts.architecture + name_options(facts.tried): facts for facts in every}
    folders: dict[tuple[str, ...], list[Path]] = {}  # by what has changed
    names: dict[tuple[str, ...], dict[str, None]] = {}
    for folder, kept in read_begun(out):
        now = asked.get(kept.architecture + name_options(kept.tried))
        if now and (changes := name_changes(kept, now)):
            folders.setdefault(changes, []).append(folder)
            names.setdefault(changes, {})[kept.architecture] = None
    if folders:
        told = (f"{', '.join(names[changes])}: {', '.join(changes)}" for changes in folders)
        remove = " ".join(map(str, chain.from_iterable(folders.values())))
        raise ValueError(
            f"{out} was begun with other settings ({'; '.join(told)}); delete {remove} to train "
            f"anew, or give another folder, such as --out {find_free_name(out)}"
        )


def name_changes(kept: Facts, asked: Facts) -> tuple[str, ...]:
    """The settings of a run that a command would change."""
    if kept.code != asked.code:
        return ("the files of its plugin have changed",)
    then, now = (
        {"average": str(facts.average), **facts.options, "user-dir": ""}
        | {f"evaluate {k}": v for k, v in facts.evaluate.items() if k not in BATCHING}
        for facts in (kept, asked)
    )
    return name_differences(
        {name: (show(then.get(name)), show(now.get(name))) for name in {**now, **then}}
    )


def show(value: object) -> str:
    """The value of an option as it is typed; "" if the option is left out."""
    words = to_words({"option": value})
    return words[-1] if len(words) > 1 else "set" * len(words)


# --- tuning ------------------------------------------------------------------------------------


def choose_facts(every: Sequence[Facts], out: Path) -> list[Facts]:
    """The facts of one candidate for each architecture: its best so far, or else its first.

    The best one has the best validation with the seed that options are tuned with, also among
    candidates of earlier commands.
    """
    names = dict.fromkeys(facts.architecture for facts in every)
    begun = [(folder, facts) for folder, facts in read_begun(out) if facts.architecture in names]
    files = [folder / RESULTS for folder, _ in begun]
    rows = [r for path in files if path.exists() for r in read_rows(path) if not r.metric]
    settings = choose_settings(rows).settings
    chosen = []
    for name in names:
        tuned = settings.get(name)
        of_name = [
            facts for facts in (*every, *(f for _, f in begun)) if facts.architecture == name
        ]
        chosen.append(next((f for f in of_name if f.tuned == tuned), of_name[0]))
    return chosen
