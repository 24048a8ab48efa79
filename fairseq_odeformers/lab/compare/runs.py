"""Runs: the trainings of a plan, each with what follows it.

A run has a folder, ``ARCH-seedN``, and steps: training, averaging, prediction, scoring. A step is
skipped if its product exists, and an interrupted training resumes from its last checkpoint, so the
same command finishes what was begun. A lock keeps a second command from the same run.
"""

import glob
import os
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import submitit
from filelock import FileLock, Timeout

from fairseq_odeformers.files import replacing, sha256
from fairseq_odeformers.lab.commands import end_with_parent, python_command
from fairseq_odeformers.models.common.kinds import Kind

from .entry import Entry, evaluation_command, train_options
from .logs import explain_failure
from .plan import Plan
from .recipe import Recipe, count_validation_texts, to_words
from .results import RESULTS, collect_rows, write_rows
from .scores import Facts, make_rows, read_progress

LOCK, FAILURE, LOG = ".lock", "failed.txt", "train.log"
TRAINED, BEST, AVERAGED = "trained", "checkpoint_best", "averaged"
# By kind, where predictions are printed; fairseq-eval-lm logs its score, and logs go to stderr.
PRINTED = {Kind.TRANSLATION: "stdout", Kind.LANGUAGE_MODEL: "stderr"}
SCORE = ".score"  # the suffix of what a recipe's own command prints


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
        product, log = folder / self.product, folder / LOG
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


@dataclass(eq=False)
class Run:
    """A training of an architecture with one seed, and what follows it."""

    name: str
    seed: int
    folder: Path
    steps: tuple[Step, ...]
    updates: int = 0  # of the training
    tuning: bool = False  # it only trains, until the best candidate is known
    data: str = ""
    data_digest: str = ""  # when the comparison was begun
    training_seconds: float = 0.0  # that it may take
    evaluation_seconds: float = 0.0
    facts: Facts | None = None

    def __call__(self) -> None:
        """Make all products that are missing; a fork of ``jobs.py`` calls this, or submitit."""
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

    def write_results(self) -> None:
        """Write the rows of what there is of the run, and the file of the comparison."""
        if self.facts:
            rows = make_rows(self.facts, self.folder, self.unfinished)
            write_rows(self.folder / RESULTS, rows)
            collect_rows(self.folder.parent)

    def lock(self) -> FileLock:
        """The lock of whoever executes it; to enter it raises a Timeout if another process has."""
        return FileLock(self.folder / LOCK, timeout=0)

    def note_unfinished(self) -> None:
        """Write what a run that has ended early lacks, unless another process is executing it."""
        if self.folder.exists() and self.unfinished:
            with suppress(Timeout), self.lock():
                self.write_results()

    def check_data(self) -> None:
        """Check before a training that nobody has replaced the data."""
        if self.data_digest and not (self.folder / TRAINED).exists():
            if sha256(Path(self.data)) != self.data_digest:
                raise ValueError(f"{self.data} has changed since this comparison was begun")

    def remove_checkpoints(self) -> None:
        """Remove the checkpoints that only the training and averaging need."""
        for path in self.folder.glob("checkpoint*.pt"):
            if path.stem != BEST:
                path.unlink()

    def fail(self, reason: str) -> None:
        """Keep why the run has ended; it is not tried again by this command."""
        (self.folder / FAILURE).write_text(f"{reason}\n", encoding="utf-8")

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """The same run again, where it was left: submitit's answer to preemption."""
        return submitit.helpers.DelayedSubmission(self)

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
    def trained_share(self) -> float:
        """The share of its updates that are made, by its log."""
        return read_progress(self.folder / LOG)["updates"] / max(1, self.updates)

    @property
    def finished(self) -> bool:
        return self.next_step is None

    @property
    def unfinished(self) -> str:
        """What is missing of a run that has been begun; "" if nothing is."""
        if self.finished or not self.folder.exists():
            return ""
        if self.failure:
            return f"seed {self.seed} failed: {self.failure}"
        if not (self.folder / TRAINED).exists():
            updates = read_progress(self.folder / LOG)["updates"]
            return f"seed {self.seed}: {updates:,} of {self.updates:,} updates"
        return f"seed {self.seed} is not evaluated"

    @property
    def failure(self) -> str | None:
        path = self.folder / FAILURE
        return path.read_text(encoding="utf-8").strip() if path.exists() else None


def make_runs(plan: Plan, out: Path, seeds: Sequence[int] = ()) -> list[Run]:
    """The runs of a plan with its seeds, or some of them; all runs of the first seed come first."""
    return [
        Run(
            name=entry.name,
            seed=seed,
            folder=folder,
            steps=tuple(make_steps(plan, entry, seed, folder)),
            updates=entry.updates,
            data=plan.recipe.data,
            data_digest=plan.data_digest,
            training_seconds=entry.training_seconds,
            evaluation_seconds=entry.evaluation_seconds,
            facts=make_facts(plan, entry, seed, number),
        )
        for seed in seeds or plan.recipe.seeds
        for number, entry in enumerate(plan.entries)
        for folder in [out / entry.folder(seed)]
    ]


def make_facts(plan: Plan, entry: Entry, seed: int, number: int) -> Facts:
    """What is known of a run before it begins."""
    recipe = plan.recipe
    return Facts(
        architecture=entry.name,
        seed=seed,
        task=recipe.task,
        data=recipe.data,
        options=entry.options,
        tried=entry.tried,
        evaluate=recipe.evaluate,
        average=recipe.average or 0,
        test_sets=plan.test_sets or {},
        score=recipe.score,
        bleu_tokenize=recipe.bleu_tokenize,
        paper=recipe.paper.get(entry.name, {}),
        parameters=entry.parameters,
        budget=entry.budget,
        updates=entry.updates,
        epoch_updates=entry.epoch_updates,
        size=entry.note,
        baseline=plan.entries[0].name,
        environment=", ".join(f"{name} {value}" for name, value in plan.environment.items()),
        begun=f"{number:03}",
        validation_texts=count_validation_texts(recipe) or None,
    )


def make_steps(plan: Plan, entry: Entry, seed: int, folder: Path) -> Iterator[Step]:
    """The steps of a run."""
    recipe = plan.recipe
    saving = {"save-dir": str(folder), "seed": seed, "log-format": "json", "log-interval": 20}
    # Without it, a resumed training has other batches than one that was not interrupted.
    saving["update-epoch-batch-itr"] = "True"
    by = "update" if entry.options.get("save-interval-updates") else "epoch"
    if recipe.average:
        saving["keep-interval-updates" if by == "update" else "keep-last-epochs"] = recipe.average
    if by == "update" or not recipe.average:
        saving["no-epoch-checkpoints"] = True
    words = ("fairseq-train", *train_options(recipe, entry, **saving))
    yield Step("training", words, TRAINED)
    checkpoints = [BEST]
    if recipe.average:
        checkpoints.append(AVERAGED)
        output = folder / f"{AVERAGED}.pt"
        options = {"checkpoint-dir": folder, "by": by, "last": recipe.average, "output": output}
        words = ("odeformers", "average", *to_words(options))
        yield Step("averaging", words, output.name)
    for checkpoint in checkpoints:
        for split in plan.test_sets or ():
            yield make_prediction(recipe, entry, folder, checkpoint, split)
            if split in recipe.score:
                output = folder / prediction_name(recipe, checkpoint, split)
                words = shlex.split(recipe.score[split])
                words = tuple(word.replace("{output}", str(output)) for word in words)
                yield Step("scoring", words, output.with_suffix(SCORE).name, "stdout")


def prediction_name(recipe: Recipe, checkpoint: str, split: str) -> str:
    """The file of the predictions on a split: a table of classes, or what fairseq prints."""
    return f"{checkpoint}.{split}.{'tsv' if recipe.kind is Kind.CLASSIFICATION else 'out'}"


def make_prediction(
    recipe: Recipe, entry: Entry, folder: Path, checkpoint: str, split: str
) -> Step:
    """The step that predicts a split."""
    product, path = prediction_name(recipe, checkpoint, split), folder / f"{checkpoint}.pt"
    options = {"output": folder / product} if recipe.kind is Kind.CLASSIFICATION else {}
    words = evaluation_command(recipe, entry, split, path=path, **options)
    return Step("predicting", tuple(words), product, PRINTED.get(recipe.kind, ""))
