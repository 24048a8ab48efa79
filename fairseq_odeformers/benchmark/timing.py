"""Time steps in turn, and write down what comes of it."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

import torch

from fairseq_odeformers.files import replacing

Step = Callable[[], object]
COLUMNS = {"what", "unit", "length", "layers", "model", "value", "ratio"}  # that are read again


def measure(steps: Mapping[str, Step], rounds: int, device: str = "cpu") -> dict[str, list[float]]:
    """Milliseconds of each step in each round; the steps take turns, and a first round is left out.

    A ratio of times of one round compares neighbours in time, whatever else the machine does.
    """
    times: dict[str, list[float]] = {name: [] for name in steps}
    for counted in [False] + [True] * rounds:
        for name, step in steps.items():
            elapsed = _milliseconds(step, device)
            if counted:
                times[name].append(elapsed)
    return times


def _milliseconds(step: Step, device: str) -> float:
    if device != "cuda":
        start = time.perf_counter()
        step()
        return (time.perf_counter() - start) * 1e3
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    step()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


@dataclass(frozen=True)
class Row:
    """A line of the table; ratios are of the first model's figure to this one's, round by round."""

    what: str
    length: int
    layers: int
    model: str
    parameters: int
    value: float
    unit: str
    tokens_per_second: float | None
    ratio: float
    lowest_ratio: float
    highest_ratio: float

    def __str__(self):
        rate = "" if self.tokens_per_second is None else f"{self.tokens_per_second:,.0f}"
        return (
            f"| {self.length} | {self.layers} | {self.model} | {self.parameters:,} | "
            f"{self.value:.1f} | {rate} | "
            f"{self.ratio:.2f} ({self.lowest_ratio:.2f}-{self.highest_ratio:.2f}) |"
        )


def header(baseline: str, unit: str) -> str:
    """The head of the table of :class:`Row`."""
    return (
        f"| length | layers | model | parameters | {unit} | tokens/s | x {baseline} (min-max) |\n"
        "| ---: | ---: | --- | ---: | ---: | ---: | --- |"
    )


def compare(
    figures: Mapping[str, list[float]], sizes: Mapping[str, int], tokens: int = 0, **columns
) -> list[Row]:
    """A row a model: the median of its figures, and of the first model's ratios to them.

    Args:
        figures: of each model, a figure a round.
        sizes: of each model, its number of parameters.
        tokens: of one step, where the figures are milliseconds of steps; else none.
        columns: the others of :class:`Row`.
    """
    baseline = next(iter(figures.values()))
    rows = []
    for name, own in figures.items():
        value, ratios = median(own), [base / one for base, one in zip(baseline, own)]
        row = Row(
            model=name,
            parameters=sizes[name],
            value=value,
            tokens_per_second=tokens / value * 1e3 if tokens else None,
            ratio=median(ratios),
            lowest_ratio=min(ratios),
            highest_ratio=max(ratios),
            **columns,
        )
        rows.append(row)
    return rows


def environment(device: str) -> dict[str, str]:
    """What a figure depends on beside its command."""
    found = {"date": date.today().isoformat(), "machine": platform.machine()}
    found["processor"] = (
        torch.cuda.get_device_name() if device == "cuda" else f"{os.cpu_count()} cores"
    )
    found["threads"] = str(torch.get_num_threads())
    found["python"] = platform.python_version()
    for package in ("torch", "fairseq-fixed", "fairseq"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # one of the two distributions of fairseq
            continue
    return found


def write_json(path: Path, settings: Mapping, device: str, rows: list[Row]) -> None:
    """The table with its settings and its environment, for another program to read."""
    content = {
        "environment": environment(device),
        "settings": dict(settings),
        "rows": [asdict(row) for row in rows],
    }
    with replacing(path) as new:
        new.write_text(json.dumps(content, indent=2, default=str) + "\n", encoding="utf-8")


def read_rows(path: Path) -> list[dict]:
    """The rows of a table.

    Raises:
        OSError: there is no such file.
        ValueError: it is something else.
    """
    try:
        rows = json.loads(path.read_text("utf-8"))["rows"]
        if not rows or any(COLUMNS - row.keys() for row in rows):
            raise ValueError(f"no rows of {', '.join(sorted(COLUMNS))}")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no table that --json wrote ({error})") from error
    return rows
