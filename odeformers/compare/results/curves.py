"""The files of a run that its rows name: learning curves, predictions and likelihoods.

A learning curve is read from the log of fairseq-train.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import read_lines, reading, write_csv
from odeformers.processes import log_stats

CPU, CLOCK = "cpu", "clock"  # the seconds that training.py adds to the statistics of an epoch


@dataclass(frozen=True)
class Curve:
    """A learning curve: the results of each validation of a training run."""

    updates: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # cost of training up to each validation
    loss: list[float] = field(default_factory=list)
    metric: list[float] = field(default_factory=list)  # the metric that chooses the best checkpoint
    train_loss: list[float] = field(default_factory=list)
    best: int = 0  # the number of the validation whose checkpoint is scored

    @property
    def late_gain(self) -> float:
        """How much the last quarter of the updates lowered the loss; 0 if it did not.

        The unit is the first loss, since a classifier's last loss may be near zero.
        """
        if self.loss[-1] >= min(self.loss[:-1], default=-np.inf):
            return 0.0
        before = float(np.interp(0.75 * self.updates[-1], self.updates, self.loss))
        return (before - self.loss[-1]) / self.loss[0]


def write_curve(path: Path, curve: Curve) -> None:
    best = [number == curve.best for number in range(len(curve.updates))]
    write_columns(path, {**asdict(curve), "best": best})


def read_curve(path: Path) -> Curve:
    """Read a learning curve that :func:`write_curve` has written."""
    with reading(path):
        columns = read_columns(path)
        best, updates = columns.pop("best").index("True"), [*map(int, columns.pop("updates"))]
        values = {name: [*map(float, cells)] for name, cells in columns.items()}
        return Curve(updates, **values, best=best)


@dataclass(frozen=True)
class Predictions:
    """The outputs of a model for the texts of a split, in their order."""

    source: list[str]  # the texts that were translated or classified
    reference: list[str]  # the published translation, or the class
    output: list[str]
    probability: list[float]  # probability of the right class; empty for translations


def write_predictions(path: Path, predictions: Predictions) -> None:
    numbers = range(len(predictions.output))
    shares = predictions.probability or [""] * len(numbers)
    write_columns(path, {"id": numbers, **asdict(predictions), "probability": shares})


def read_predictions(path: Path, count: int | None = None) -> Predictions:
    """Read predictions for *count* texts that :func:`write_predictions` has written."""
    with reading(path):
        columns = read_columns(path)
        texts = [columns[name] for name in ("source", "reference", "output")]
        shares = [float(cell) for cell in columns["probability"] if cell]
        if len(texts[0]) != (count or len(texts[0])) or len(shares) not in (0, len(texts[0])):
            raise InputError(f"{path} has no predictions of {count} texts; it is damaged")
        return Predictions(*texts, probability=shares)


@dataclass(frozen=True)
class Likelihoods:
    """A language model's likelihoods of texts, or of blocks of texts.

    Attributes:
        tokens: number of tokens of each text.
        nll: sum of their negative log-likelihoods, in nats.
    """

    tokens: np.ndarray
    nll: np.ndarray

    @property
    def perplexity(self) -> float:
        return math.exp(self.nll.sum() / self.tokens.sum())


def write_likelihoods(path: Path, likelihoods: Likelihoods) -> None:
    nll = [round(value, 6) for value in likelihoods.nll.tolist()]
    write_columns(path, {"tokens": likelihoods.tokens.tolist(), "nll": nll})


def read_likelihoods(path: Path) -> Likelihoods:
    """Read likelihoods that :func:`write_likelihoods` has written."""
    with reading(path):
        columns = read_columns(path)
        return Likelihoods(
            np.array([*map(int, columns["tokens"])]), np.array(columns["nll"], float)
        )


def write_columns(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    write_csv(path, [dict(zip(columns, row)) for row in zip(*columns.values())])


def read_columns(path: Path) -> dict[str, list[str]]:
    """Read the cells of a table with a header, by column."""
    csv.field_size_limit(1 << 30)  # a text may be long
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    if any(None in row or None in row.values() for row in rows):
        raise InputError(f"{path} has lines of other lengths than its header; it is damaged")
    return {name: [row[name] for row in rows] for name in rows[0]}


# --- logs of fairseq-train with --log-format json ------------------------------------------------

TAIL = 20_000  # bytes at the end of a log that show its progress
SAVED = re.compile(r"Preparing to save checkpoint for epoch \d+ @ (\d+) updates")
SAVED_BEST = re.compile(r"Best checkpoint @ (\d+) updates")  # the plugin's; earlier logs have none


def read_log(
    path: Path, metric: str = "loss", maximize: bool = False, subset: str = "valid"
) -> tuple[Curve, dict[str, Any]]:
    """Read the learning curve of a log up to the last validation, and columns of its row.

    If an interrupted training run repeats an epoch, the last repetition counts.

    Args:
        path: path of the log, which may still grow or not exist yet.
        metric: metric of validations that chooses the best checkpoint; the loss replaces it if a
            validation lacks it.
        subset: name of the validation set.
    """
    valid, ends, saved, best_at = {}, {}, set(), None
    for line in read_lines(path) if path.exists() else ():
        if match := SAVED.search(line):
            saved.add(int(match[1]))
        if match := SAVED_BEST.search(line):
            best_at = int(match[1])
        if stats := log_stats(line, subset):
            valid[int(stats[f"{subset}_num_updates"])] = stats
        if stats := log_stats(line, "train"):
            ends[int(stats["train_num_updates"])] = stats
    if not ends or not valid:
        return Curve(), {}
    updates, epochs = sorted(valid), sorted(ends)

    def of_train(name: str) -> np.ndarray:
        return np.array([float(ends[end].get(f"train_{name}", math.nan)) for end in epochs])

    def of_valid(name: str) -> list[float]:
        return [float(valid[update].get(f"{subset}_{name}", math.nan)) for update in updates]

    def until_validations(of_epochs: np.ndarray) -> np.ndarray:
        return np.interp(updates, [0, *epochs], [0, *np.cumsum(of_epochs)])

    def in_all(name: str) -> bool:
        return all(f"{subset}_{name}" in stats for stats in valid.values())

    if not in_all(metric):
        metric, maximize = "loss", False
    loss = "nll_loss" if metric != "loss" and in_all("nll_loss") else "loss"
    cpu, tokens = map(until_validations, (of_train(CPU), of_train("wpb") * np.diff([0, *epochs])))
    known = bool(np.isfinite(cpu[-1]))  # NaN if a GPU trained
    clock = of_train(CLOCK)  # missing in fairseq-train's own log
    clock = until_validations(np.where(np.isfinite(clock), clock, of_train("train_wall")))
    train_loss = of_train(loss)
    if len(epochs) > 1 and epochs[-1] - epochs[-2] < epochs[0]:  # few batches
        train_loss[-1] = train_loss[-2]
    train_losses = np.interp(updates, epochs, train_loss).tolist()
    values, sign = of_valid(metric), 1 if maximize else -1
    ranks = [sign * v if math.isfinite(v) else -math.inf for v in values]
    if saved.intersection(updates):  # a validation without a checkpoint cannot be the best
        ranks = [rank if at in saved else -math.inf for at, rank in zip(updates, ranks)]
    best = len(ranks) - 1 - int(np.argmax(ranks[::-1]))  # fairseq keeps the last of equal values
    if best_at in updates:
        best = updates.index(best_at)
    seconds = (cpu if known else clock).tolist()
    return Curve(updates, seconds, of_valid(loss), values, train_losses, best), {
        "updates": updates[-1],
        "seconds": float(clock[-1]),
        "cpu_seconds": float(cpu[-1]) if known else None,
        "tokens": float(tokens[-1]) if np.isfinite(tokens[-1]) else None,
        "validated": metric,
        "maximized": maximize,
        "validation": values[best],
    }


def read_progress(path: Path, subset: str = "valid") -> dict[str, Any]:
    """Read the newest epoch, updates, validation loss and updates per second from a log's end.

    Args:
        subset: name of the validation set.
    """
    progress: dict[str, Any] = {"updates": 0}
    if path.exists():
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL))
            lines = file.read().decode(errors="replace").split("\n")
        for line in lines:
            for kind, prefix in (("train_inner", ""), (subset, f"{subset}_")):
                if stats := log_stats(line, kind):
                    shown = {"epoch": "epoch", "loss": f"{subset}_loss", "ups": "ups"}
                    progress |= {key: str(stats[n]) for key, n in shown.items() if n in stats}
                    progress["updates"] = int(stats[f"{prefix}num_updates"])
    return progress
