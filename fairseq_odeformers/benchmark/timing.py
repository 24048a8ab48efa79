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


def measure(steps: Mapping[str, Step], rounds: int, device: str = "cpu") -> dict[str, list[float]]:
    """Seconds of each step in each round; the steps take turns, and a first round does not count.

    A ratio of times of one round compares neighbours in time, whatever else the machine does.
    """
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for counted in [False] + [True] * rounds:
        for name, step in steps.items():
            elapsed = _seconds(step, device)
            if counted:
                seconds[name].append(elapsed)
    return seconds


def _seconds(step: Step, device: str) -> float:
    if device != "cuda":
        start = time.perf_counter()
        step()
        return time.perf_counter() - start
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    step()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1000


@dataclass(frozen=True)
class Row:
    """A line of the table; ratios are of the first model's time to this one's, round by round."""

    length: int
    model: str
    parameters: int
    milliseconds: float
    ratio: float
    lowest_ratio: float
    highest_ratio: float

    def __str__(self):
        return (
            f"| {self.length} | {self.model} | {self.parameters:,} | {self.milliseconds:.1f} | "
            f"{self.ratio:.2f} ({self.lowest_ratio:.2f}-{self.highest_ratio:.2f}) |"
        )


def header(baseline: str) -> str:
    """The head of the table of :class:`Row`."""
    return (
        f"| length | model | parameters | ms | x {baseline} (min-max) |\n"
        "| ---: | --- | ---: | ---: | --- |"
    )


def compare(seconds: Mapping[str, list[float]], sizes: Mapping[str, int], length: int) -> list[Row]:
    """A row a model: the median of its time, and of its ratios to the first model's."""
    baseline = next(iter(seconds.values()))
    rows = []
    for name, times in seconds.items():
        ratios = [base / own for base, own in zip(baseline, times)]
        own = (median(times) * 1e3, median(ratios), min(ratios), max(ratios))
        rows.append(Row(length, name, sizes[name], *own))
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
