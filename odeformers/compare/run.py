"""Runs: a run trains a variant with one seed and evaluates it, in a separate folder.

``run.yaml`` contains everything that determines a run. A command whose settings agree with
``run.yaml`` resumes the run, or leaves it alone if it has finished. A run's steps are training,
averaging, evaluation and scoring. A step is skipped if its product exists, and interrupted training
resumes from the last checkpoint. A run's rows are written last, and only they mark it as
finished. The process that executes a run holds the run's lock.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import submitit
import yaml
from filelock import FileLock, Timeout

from fairseq_odeformers.errors import InputError, explain
from fairseq_odeformers.files import reading, replacing, sha256_once
from fairseq_odeformers.registry import Kind
from odeformers.processes import Options, end_with_parent, python_command, to_words

from .estimate import Estimate
from .experiment import BOARD
from .outcome import AVERAGED, BEST, SCORE, TRAIN_LOG, TRAINED, make_rows
from .results.curves import read_progress
from .results.rows import (
    DIVERGED,
    NOT_EVALUATED,
    RESULTS,
    RUN,
    Row,
    collect_rows,
    find_runs,
    read_rows,
    write_rows,
)
from .variant import Variant, evaluation_words, training_words

LOCK, FAILURE = ".lock", "failed.txt"
# For each kind, the output of an evaluation that is its product; fairseq-eval-lm logs its score.
PRINTED = {Kind.TRANSLATION: "stdout", Kind.LANGUAGE_MODEL: "all"}


# --- steps -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A command of a run."""

    name: str  # name in the table of progress
    words: tuple[str, ...]  # the command line as a user types it
    product: str  # the file, in the folder of the run, that shows that the step is done
    # The output that is the product: "stdout", or "all" including the log; "" if the command
    # itself writes the product.
    printed: str = ""

    def make_product(self, folder: Path) -> None:
        """Run the command, and write its output to the log, except for the product.

        Raises:
            InputError: the command failed, or printed nothing although its output is the product.
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
            message = log.read_bytes()[start:] or output.read_bytes()
            if status and self.printed:
                with open(log, "ab") as rest:  # since the product of a failure is removed
                    rest.write(output.read_bytes())
            if status:
                why = explain_failure(message.decode(errors="replace"), status)
                raise InputError(f"{self.words[0]}: {why}; its log is {log}")
            if self.printed and not output.read_bytes().strip():
                raise InputError(f"{self.words[0]}: it printed no score; its log is {log}")
        product.touch()


# The errors that Python, or a command of fairseq or this package, prints at its end. The first line
# of an error may be empty, or advice may follow it.
ERROR = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception):|(?:\S+ ){,3}?error:)\s*(\S.*)$", re.M)


def explain_failure(output: str, status: int) -> str:
    """Explain why a command failed: by a signal, divergence, its last error or its last line.

    If a loss or a gradient is not finite, fairseq names the layer if it finds it, and often ends
    with the StopIteration of a hook.
    """
    if status < 0:
        memory = ", often for lack of memory" if -status == signal.SIGKILL else ""
        return f"killed by signal {-status}{memory}"
    diverged = re.search(
        r"^FloatingPointError: (gradients are .*|Minimum loss scale.*)", output, re.M
    )
    if diverged is None:
        errors = ERROR.findall(output)
        line = " ".join(errors[-1]) if errors else output.strip().split("\n")[-1]
        return f"{line.strip() or 'no output'} (status {status})"
    layer = re.search(r"(NaN|Inf) detected in output of (\S*), shape", output)
    first = f", {layer[1]} first in the output of {layer[2] or 'the model'}" if layer else ""
    return (
        f"{DIVERGED} ({diverged[1].split('. ')[0]}{first}); lower --lr, or clip with --clip-norm 1"
    )


def make_steps(variant: Variant, seed: int, folder: Path) -> Iterator[Step]:
    """Yield the steps of a run."""
    average, saving = variant.average, {"save-dir": str(folder), "seed": seed}
    saving |= {"log-format": "json", "log-interval": 20}
    # Otherwise, a resumed run would draw other batches than an uninterrupted one.
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


@dataclass(frozen=True, eq=False)
class Run:
    """A run: it trains a variant with one seed, and evaluates it."""

    folder: Path
    estimate: Estimate
    seed: int
    tuning: bool = False  # whether the run only trains, as a candidate of --tune
    command: str = ""  # time when the command that planned the run was started
    begun: str = ""  # time when the run started
    # What makes the scores of each split misleading; added as columns to the split's rows.
    flaws: dict[str, dict[str, float]] = field(default_factory=dict)
    earlier_failure: tuple[int, str] | None = None  # the failure of an earlier command

    @property
    def variant(self) -> Variant:
        return self.estimate.variant

    def __call__(self) -> None:
        """Make all missing products; a launcher calls this method in another process."""
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
                self.fail(explain(error))
                if not isinstance(error, InputError) or error.__cause__:
                    with open(self.folder / TRAIN_LOG, "a", encoding="utf-8") as log:
                        traceback.print_exc(file=log)

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """Return this run, which submitit submits again after preemption, to be resumed."""
        return submitit.helpers.DelayedSubmission(self)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Training, averaging, evaluation and scoring; only training for a candidate."""
        steps = tuple(make_steps(self.variant, self.seed, self.folder))
        return steps[:1] if self.tuning else steps

    @property
    def next_step(self) -> Step | None:
        """The first step that is not done; None if all steps are done."""
        left = (step for step in self.steps if not (self.folder / step.product).exists())
        return next(left, None)

    @property
    def finished(self) -> bool:
        """Whether all steps are done and rows say so; for a candidate, whether it is trained."""
        if self.next_step or not (self.folder / RESULTS).exists():
            return False
        row = read_rows(self.folder / RESULTS)[0]
        return row.trained if self.tuning else not row.state

    def lock(self) -> FileLock:
        """Return the lock of the process that executes the run; only one process can hold it."""
        return FileLock(self.folder / LOCK, timeout=0)

    @property
    def busy(self) -> bool:
        """Whether another process is executing the run."""
        try:
            with self.lock():
                return False
        except Timeout:
            return True

    def check_data(self) -> None:
        """Check before training that the data have not changed."""
        if not (self.folder / TRAINED).exists():
            if sha256_once(Path(self.variant.data)) != self.variant.data_digest:
                raise InputError(
                    f"{self.variant.data} has changed since this comparison started; restore it, "
                    "or give another --out"
                )

    def remove_checkpoints(self) -> None:
        """Remove the checkpoints that only training and averaging need."""
        for path in self.folder.glob("checkpoint*.pt"):
            if path.stem != BEST:
                path.unlink()

    def discard(self) -> None:
        """Remove a candidate's checkpoints, unless another process executes it."""
        with suppress(Timeout), self.lock():
            if self.finished:
                self.remove_checkpoints()

    def start(self) -> None:
        """Make the folder with its ``run.yaml``, unless they exist.

        If another process is executing the run, it has made them.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with suppress(Timeout), self.lock():
            if not (self.folder / RUN).exists():
                write_run(self)

    def fail(self, why: str) -> None:
        """Record why the run failed; this command does not try it again."""
        with replacing(self.folder / FAILURE) as temporary:
            temporary.write_text(f"{why}\n", encoding="utf-8")

    @property
    def failure(self) -> str | None:
        """Why the run ended early; the failure of an earlier command is ignored.

        The file of such a failure stays, since that command may not have read it yet.
        """
        last = read_failure(self.folder)
        return last[1] if last and last != self.earlier_failure else None

    @property
    def diverged(self) -> bool:
        """Whether the loss or gradients became NaN or infinite, as a candidate's may."""
        return DIVERGED in (self.failure or "")

    @property
    def progress(self) -> dict[str, Any]:
        """Progress by the end of the log; see :func:`.read_progress`."""
        return read_progress(self.folder / TRAIN_LOG, self.variant.valid_subset)

    @property
    def updates(self) -> int:
        """The number of updates made so far, according to the log."""
        return self.progress["updates"]

    def make_rows(self, state: str = "") -> list[Row]:
        """Make the rows of the run so far; see :func:`.make_rows`."""
        columns = {"seed": self.seed, "command": self.command, "begun": self.begun}
        return make_rows(self.estimate, self.folder, state, self.flaws, **columns)

    def write_results(self, lack: str) -> None:
        """Write the rows of the run so far, and the comparison's file.

        Args:
            lack: what the run lacks; "" if the run has finished.
        """
        run = read_run(self.folder)  # its rows name the command that started it, not this one
        rows = run.make_rows(lack)
        write_rows(self.folder / RESULTS, rows)
        collect_rows(self.folder.parent)

    def note_unfinished(self) -> None:
        """If the run has ended early, write what it lacks, unless another process executes it."""
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
                lack = f"{self.updates:,} of {self.estimate.updates:,} updates"
            self.write_results(lack)


def read_failure(folder: Path) -> tuple[int, str] | None:
    """Return when (in nanoseconds) and why a folder's run ended early; None if it did not."""
    path = folder / FAILURE
    with suppress(FileNotFoundError):  # another process may remove the file meanwhile
        return path.stat().st_mtime_ns, path.read_text(encoding="utf-8").strip()
    return None


def make_runs(
    estimates: Iterable[Estimate],
    out: Path,
    seeds: Sequence[int],
    tuning: bool = False,
    command: str = "",
    flaws: Mapping[str, dict[str, float]] | None = None,
) -> list[Run]:
    """Make the runs of all variants with all seeds, seed by seed."""
    runs = []
    for seed, estimate in product(seeds, estimates):
        folder = out / f"{estimate.variant.label}-seed{seed}"
        now, failure = datetime.now().isoformat(), read_failure(folder)
        runs.append(Run(folder, estimate, seed, tuning, command, now, dict(flaws or {}), failure))
    return runs


# --- run.yaml ----------------------------------------------------------------------------------

OF_RUN = ("seed", "command", "begun", "flaws")  # further keys of run.yaml


def write_run(run: Run) -> None:
    """Write ``run.yaml``: the fields of the variant, of the estimate, and of the run."""
    estimate = asdict(run.estimate)
    variant, own = estimate.pop("variant"), {name: getattr(run, name) for name in OF_RUN}
    content = {**variant, **estimate, **own}
    write_yaml(run.folder / RUN, content)


def read_run(folder: Path) -> Run:
    """Read a run that :func:`write_run` has written."""
    with reading_yaml(folder / RUN) as content:
        variant = Variant(**pick_fields(content, Variant))
        estimate = Estimate(**{**pick_fields(content, Estimate), "variant": variant})
        return Run(folder, estimate, **{name: content[name] for name in OF_RUN})


def pick_fields(content: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """Pick the keys of a file that are fields of a dataclass."""
    return {item.name: content[item.name] for item in fields(kind) if item.name in content}


@contextmanager
def reading_yaml(path: Path) -> Iterator[dict[str, Any]]:
    """Read a file of this version; errors in the block name the file."""
    with reading(path, "was not written by this version"):
        yield yaml.safe_load(path.read_text(encoding="utf-8"))


def write_yaml(path: Path, content: Mapping[str, Any]) -> None:
    with replacing(path) as temporary:
        temporary.write_text(yaml.safe_dump({**content}, sort_keys=False), encoding="utf-8")


# --- removed files -----------------------------------------------------------------------------


def restore_files(out: Path, order: Iterable[str] = ()) -> None:
    """Make the missing rows, learning curves and predictions of a comparison again.

    The rows of a run whose folder has been removed are dropped.

    Args:
        order: see :func:`.collect_rows`; if given, the rows of all runs are collected again.

    Raises:
        InputError: the folder belongs to a single run.
        FileNotFoundError: the sources of a file are missing too; the message names the remedy.
    """
    if (out / RUN).exists():
        raise InputError(f"{out}: a run; pass the folder of its comparison, {out.resolve().parent}")
    if find_runs(out) and (order or not (out / RESULTS).is_file() or has_lost_runs(out)):
        collect_rows(out, order)
    rows = read_rows(out) if (out / RESULTS).is_file() else []
    for folder in {out / row.run: None for row, _ in find_missing(out, rows)}:
        if (folder / RUN).exists():
            states = [row.state for row in rows if row.run == folder.name]
            read_run(folder).make_rows(states[0])  # writes the curve and the predictions
    for row, path in find_missing(out, rows):
        if not (out / row.run / RUN).exists():
            remedy = "copy the folders of the runs as well"
        elif path.name == Path(row.curve).name:
            remedy = f"and {TRAIN_LOG} is; delete {path.parent}, and repeat the command"
            remedy += " odeformers compare, which trains the run again"
        else:
            remedy = "and what it is made from; repeat the command odeformers compare, which makes"
            remedy += " both"
        raise FileNotFoundError(f"{path} is missing, {remedy}")


def has_lost_runs(out: Path) -> bool:
    """Return whether there are rows of a run whose folder has been removed."""
    return not all((out / row.run).is_dir() for row in read_rows(out))


def find_missing(out: Path, rows: list[Row]) -> Iterator[tuple[Row, Path]]:
    """Yield the files that rows name but that do not exist."""
    for row in rows:
        for name in filter(None, (row.curve, row.predictions)):
            if not (out / name).exists():
                yield row, out / name
