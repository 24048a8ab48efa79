"""Logs that fairseq-train writes with ``--log-format json``."""

import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_odeformers.files import read_lines

TAIL = 20_000  # bytes at the end of a log that tell its progress


def log_stats(line: str, kind: str) -> dict[str, str] | None:
    """The statistics in a line of a log, if they are of this kind.

    A kind is ``train`` (an epoch), ``train_inner`` (some updates), or the name of a validation set.
    """
    match = re.search(rf"\| INFO \| {kind} \| (\{{.*\}})$", line)
    return json.loads(match.group(1)) if match else None


@dataclass
class Training:
    """A training by its log. Where an interrupted one repeats an epoch, the last time counts."""

    parameters: int = 0  # that are trained
    updates: list[int] = field(default_factory=list)  # before each validation
    losses: list[float] = field(default_factory=list)  # of each validation
    metrics: list[float] = field(default_factory=list)  # which choose the best checkpoint
    seconds: list[float] = field(default_factory=list)  # of training, without validating and saving
    train_losses: list[float] = field(default_factory=list)  # of the epochs that end there
    tokens_per_second: float = 0.0  # the median over the lines of the log, or over the epochs

    @property
    def improving(self) -> bool:
        """Whether the last validation was better than all before it."""
        return len(self.losses) > 1 and self.losses[-1] < min(self.losses[:-1])

    @property
    def late_gain(self) -> float:
        """By how much the last quarter of the updates has lowered the loss.

        It is a share of the first loss, since a classifier's last one may be near zero.
        """
        before = float(np.interp(0.75 * self.updates[-1], self.updates, self.losses))
        return (before - self.losses[-1]) / self.losses[0]

    def find_best(self, best: Callable[[Iterable[float]], float] = min) -> int:
        """The number of the validation whose checkpoint is scored: the *best* metric, or loss."""
        if len(self.metrics) < len(self.losses):
            return self.losses.index(min(self.losses))
        return self.metrics.index(best(self.metrics))


def read_training(log: Path, metric: str = "loss") -> Training:
    """A training by its log, which may still grow, or not be there yet."""
    parameters, valid, ends, speeds = 0, {}, {}, []
    for line in read_lines(log) if log.exists() else ():
        if match := re.search(r"num\. shared model params: .*num\. trained: ([\d,]+)", line):
            parameters = int(match[1].replace(",", ""))
        if stats := log_stats(line, "valid"):
            valid[int(stats["valid_num_updates"])] = stats
        if stats := log_stats(line, "train"):
            ends[int(stats["train_num_updates"])] = stats
        if (stats := log_stats(line, "train_inner")) and "wps" in stats:
            speeds.append(float(stats["wps"]))
    # A short training has no lines within its epochs.
    speeds = speeds or [float(end["train_wps"]) for end in ends.values() if "train_wps" in end]
    speed = float(np.median(speeds)) if speeds else 0.0
    if not ends:
        return Training(parameters, tokens_per_second=speed)
    updates, epochs = sorted(valid), sorted(ends)

    def of_valid(name: str) -> list[float]:
        return [float(valid[update][name]) for update in updates if name in valid[update]]

    def of_train(name: str) -> list[float]:
        return [float(ends[end][name]) for end in epochs]

    seconds = np.interp(updates, [0, *epochs], [0, *np.cumsum(of_train("train_train_wall"))])
    train_loss = of_train("train_loss")
    if len(epochs) > 1 and epochs[-1] - epochs[-2] < epochs[0]:  # of the few batches until its end
        train_loss[-1] = train_loss[-2]
    train_losses = np.interp(updates, epochs, train_loss).tolist()
    losses, metrics = of_valid("valid_loss"), of_valid(f"valid_{metric}")
    return Training(parameters, updates, losses, metrics, seconds.tolist(), train_losses, speed)


def read_progress(log: Path) -> dict[str, Any]:
    """The newest epoch, updates, validation loss and updates per second at the end of a log."""
    progress: dict[str, Any] = {"updates": 0}
    if not log.exists():
        return progress
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        lines = file.read().decode(errors="replace").split("\n")
    for line in lines:
        for kind, prefix in (("train_inner", ""), ("valid", "valid_")):
            if stats := log_stats(line, kind):
                progress["updates"] = int(stats[f"{prefix}num_updates"])
                progress["epoch"] = str(stats["epoch"])
                names = {"loss": "valid_loss", "ups": "ups"}
                progress |= {key: stats[name] for key, name in names.items() if name in stats}
    return progress


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


def report_progress(text: str) -> None:
    """Print what begins now, beside the output of a command."""
    print(f"{text} ...", file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """A time such as 1:05:09."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
