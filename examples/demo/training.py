"""Training that ends when the model is good."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from zipfile import is_zipfile

from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from progress import ProgressLine, clock

from fairseq_odeformers.compare.runs import log_stats, stream
from fairseq_odeformers.files import fingerprints, replacing

# Turns that a thread of GNU's OpenMP waits for another one before it sleeps. By default these are
# 300,000, in which it keeps the core from that other one where a third process is busy.
SPINS = "3000"


@dataclass(frozen=True)
class Outcome:
    """How a training ended.

    Attributes:
        seconds: of all its calls.
        bleu: of the last validation.
        target: BLEU that was to be reached.
        minutes: that it could take.
    """

    updates: int
    seconds: float
    bleu: float
    target: float
    minutes: float

    def __str__(self):
        text = (
            f"{self.updates} updates in {clock(self.seconds)}, BLEU of validation {self.bleu:.1f}"
        )
        if self.bleu >= self.target:
            return text
        return (
            f"ended by the clock before it was good: {text} of {self.target:g}; "
            f"with more than --minutes {self.minutes:g} it goes on"
        )


def train(command: list[str], data: Path, checkpoints: Path, args: Namespace) -> Outcome:
    """Run *command* until the BLEU of validation is ``args.target_bleu`` or time is up.

    It goes on from what *checkpoints* has of the same training, also of one that ended with less
    time or at a lower target.
    """
    recipe = json.dumps({"command": command, "data": fingerprints(sorted(data.glob("*.bin")))})
    begun, ended = checkpoints / "begun.json", checkpoints / "ended.json"
    if not (begun.exists() and begun.read_text() == recipe):
        shutil.rmtree(checkpoints, ignore_errors=True)
        checkpoints.mkdir(parents=True)
        begun.write_text(recipe)
    if ended.exists():
        outcome = Outcome(**json.loads(ended.read_text()))
        timed_out = outcome.bleu < outcome.target
        if outcome.bleu >= args.target_bleu or timed_out and outcome.minutes >= args.minutes:
            print(f"{checkpoints} is up to date")
            return outcome

    earlier = training_time(checkpoints)
    command = [*command, "--stop-time-hours", f"{args.minutes / 60:.6f}"]
    progress = ProgressLine()
    updates = seconds = bleu = 0
    validation = "not validated yet"
    with closing(run(command, checkpoints / "train.log")) as lines:
        for line in lines:
            if stats := log_stats(line, "train_inner"):
                updates, seconds = int(stats["num_updates"]), earlier + float(stats["wall"])
                progress.show(
                    f"update {updates}, perplexity {stats['ppl']}; {validation}; "
                    f"{time_left(updates, seconds, args)}"
                )
            elif stats := log_stats(line, "valid"):
                bleu = float(stats["valid_bleu"])
                validation = f"validation {stats['valid_ppl']}, BLEU {bleu:.1f}"
            elif "| Saved checkpoint " in line and bleu >= args.target_bleu:
                break  # fairseq says so when all files of the checkpoint are complete
    progress.end()
    outcome = Outcome(updates, seconds, bleu, args.target_bleu, args.minutes)
    with replacing(ended) as path:
        path.write_text(json.dumps(asdict(outcome)))
    return outcome


def training_time(checkpoints: Path) -> float:
    """Seconds of training that the last checkpoint has behind it, if there is one.

    An interruption may have left it incomplete. The best one, written before it, then takes its
    place.
    """
    best, last = (checkpoints / f"checkpoint_{name}.pt" for name in ("best", "last"))
    if not is_zipfile(last):
        last.unlink(missing_ok=True)
        if not is_zipfile(best):
            return 0
        shutil.copy(best, last)
    return load_checkpoint_to_cpu(str(last))["extra_state"]["previous_training_time"]


def time_left(updates: int, seconds: float, args: Namespace) -> str:
    """An estimate from the number of updates that are usual, and beyond it the bound."""
    bound = 60 * args.minutes - seconds
    estimate = (args.recipe.usual_updates / updates - 1) * seconds
    if 0 < estimate < bound:
        return f"about {clock(estimate)} left"
    return f"at most {clock(bound)} left"


def run(command: list[str], log: Path) -> Iterator[str]:
    """Print and run *command*; append its output to *log* and yield it line by line."""
    print(f"$ {shlex.join(command)}")
    with open(log, "a", encoding="utf-8") as file:
        spins = os.environ.get("GOMP_SPINCOUNT", SPINS)
        yield from stream(command, file, GOMP_SPINCOUNT=spins)
