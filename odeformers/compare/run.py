"""Runs: a training with one seed and what follows it, in a folder of its own.

``run.yaml`` has all that determines a run. A folder whose ``run.yaml`` says the same as a command
is done, or resumes. Its steps are training, averaging, evaluation and scoring. A step is skipped if
its product exists, and an interrupted training resumes from its last checkpoint. Its rows are
written last: a run has finished if they say that it lacks nothing. Whoever executes it holds its
lock.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import submitit
import yaml
from filelock import FileLock, Timeout

from fairseq_odeformers.files import reading, reason, replacing, sha256
from fairseq_odeformers.registry import Kind
from odeformers.commands import Options, end_with_parent, python_command, to_words

from .experiment import BOARD
from .results.curves import read_progress
from .results.rows import NOT_EVALUATED, RESULTS, RUN, collect_rows, read_rows, write_rows
from .results.scores import AVERAGED, BEST, SCORE, TRAIN_LOG, TRAINED, make_rows
from .variant import Variant, evaluation_words, training_words

LOCK, FAILURE = ".lock", "failed.txt"
# By kind, what a product is of what an evaluation prints; fairseq-eval-lm logs its score.
PRINTED = {Kind.TRANSLATION: "stdout", Kind.LANGUAGE_MODEL: "all"}


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
    if board := variant.options.get(BOARD):
        saving[BOARD] = str(Path(board, folder.name))
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
            yield Step("predicting", tuple(words), output.name, PRINTED.get(variant.kind, ""))
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
    earlier_failure: tuple[int, str] | None = None  # of another command, before this one began

    def __call__(self) -> None:
        """Make all products that are missing; a launcher calls this in another process."""
        with suppress(Timeout), self.lock():
            try:
                self.check_data()
                while step := self.next_step:
                    step.make_product(self.folder)
                if not self.tuning:
                    self.remove_checkpoints()
                self.write_results(NOT_EVALUATED if self.tuning else "")
                (self.folder / FAILURE).unlink(missing_ok=True)
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
        row = read_rows(self.folder / RESULTS)[0]
        return row.trained if self.tuning else not row.state

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
        """Make the folder with its ``run.yaml``, unless they are there.

        Another process that is executing the run has done so. A failure until now is passed over;
        its file stays, since the command that it is of may not have looked at it yet.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self.earlier_failure = self.last_failure
        with suppress(Timeout), self.lock():
            if not (self.folder / RUN).exists():
                begun = datetime.now().isoformat()
                write_yaml(self.folder / RUN, replace(self.variant, begun=begun))

    def fail(self, why: str) -> None:
        """Keep why the run has ended; it is not tried again by this command."""
        with replacing(self.folder / FAILURE) as temporary:
            temporary.write_text(f"{why}\n", encoding="utf-8")

    @property
    def failure(self) -> str | None:
        """Why it has ended early since this command began it."""
        last = self.last_failure
        return last[1] if last and last != self.earlier_failure else None

    @property
    def last_failure(self) -> tuple[int, str] | None:
        """When it has ended early, in nanoseconds, and why."""
        path = self.folder / FAILURE
        with suppress(FileNotFoundError):  # it may be removed meanwhile
            return path.stat().st_mtime_ns, path.read_text(encoding="utf-8").strip()
        return None

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
        begun = replace(read_yaml(self.folder / RUN, Variant), flaws=self.variant.flaws)
        rows = make_rows(begun, self.folder, lack)
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
    """Runs of all variants with all seeds, seed by seed."""
    return [
        Run(out / f"{variant.label}-seed{seed}", replace(variant, seed=seed), tuning)
        for seed in seeds
        for variant in variants
    ]


# --- run.yaml ----------------------------------------------------------------------------------


def read_yaml(path: Path, kind: type) -> Any:
    """What :func:`write_yaml` has written of a dataclass; fields that are gone are left out."""
    with reading(path, f"is no {path.name} of this version"):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        known = (item.name for item in fields(kind) if item.name in content)
        return kind(**{name: content[name] for name in known})


def write_yaml(path: Path, value: Any) -> None:
    with replacing(path) as temporary:
        temporary.write_text(yaml.safe_dump(asdict(value), sort_keys=False), encoding="utf-8")
