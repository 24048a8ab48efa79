"""Interleaved timing of steps, and tables of the times."""

import csv
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import torch

from fairseq_odeformers.files import markdown_table, reading

Step = Callable[[], object]  # a call is timed, or returns the figure
Row = dict[str, Any]

# The types of the columns that a table needs when it is read again.
COLUMNS = {
    **dict.fromkeys(("what", "unit", "model"), str),
    **dict.fromkeys(("length", "layers"), int),
    **dict.fromkeys(("value", "ratio"), float),
}


def measure(steps: Mapping[str, Step], rounds: int, device: str = "cpu") -> dict[str, list[float]]:
    """Measure the milliseconds of each step in each round, after one round that does not count.

    Steps take turns, so that a ratio within a round compares neighbours in time.
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


def compare(
    figures: Mapping[str, list[float]], parameters: Mapping[str, int], tokens: int = 0, **columns
) -> list[Row]:
    """Return a row per model: the medians of its figures and of the first model's ratios to them.

    Args:
        figures: one figure per round for each model.
        tokens: number of tokens of a step, if figures are milliseconds per step.
        columns: other columns of each row.
    """
    baseline = next(iter(figures.values()))
    rows = []
    for model, values in figures.items():
        value, ratios = median(values), [base / one for base, one in zip(baseline, values)]
        rows.append(
            {
                **columns,
                "model": model,
                "parameters": parameters[model],
                "value": value,
                "tokens_per_second": tokens / value * 1e3 if tokens else None,
                "ratio": median(ratios),
                "lowest_ratio": min(ratios),
                "highest_ratio": max(ratios),
            }
        )
    return rows


def format_table(rows: list[Row]) -> list[list[str]]:
    """Format a header and the cells of each row; ratios are to the first row's model."""
    unit, baseline = rows[0]["unit"], rows[0]["model"]
    header = ["length", "layers", "model", "parameters", unit, "tokens/s"]
    cells = [[*header, f"x {baseline} (min-max)"]]
    for row in rows:
        rate = row["tokens_per_second"]
        ratio = "{ratio:.2f} ({lowest_ratio:.2f}-{highest_ratio:.2f})".format(**row)
        numbers = f"{row['parameters']:,}", f"{row['value']:.1f}", f"{rate:,.0f}" if rate else ""
        cells.append([str(row["length"]), str(row["layers"]), row["model"], *numbers, ratio])
    return cells


def print_times(
    models: Mapping[str, torch.nn.Module],
    steps: Mapping[str, Step],
    rounds: int,
    device: str,
    **columns,
) -> None:
    """Print a table of timed steps of models, by their names."""
    print(", ".join(f"{key} {value}" for key, value in describe_environment(device).items()))
    parameters = {n: sum(p.numel() for p in model.parameters()) for n, model in models.items()}
    columns = {"length": "", "layers": "", "unit": "ms", **columns}
    rows = compare(measure(steps, rounds, device), parameters, **columns)
    print(markdown_table(format_table(rows)), end="")


def describe_environment(device: str) -> dict[str, str]:
    """Describe the machine and the versions that figures depend on."""
    gpu = device == "cuda"
    facts = {
        "date": date.today().isoformat(),
        "machine": platform.machine(),
        "processor": torch.cuda.get_device_name() if gpu else f"{os.cpu_count()} cores",
        "threads": str(torch.get_num_threads()),
        "python": platform.python_version(),
    }
    for package in ("torch", "fairseq-fixed", "fairseq"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:  # fairseq has two distributions, and one is installed
            continue
    return facts


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a table that ``--json`` or ``examples/speed/growth.py --csv`` wrote."""
    with reading(path, "is not a table that --json or --csv wrote"):
        text = path.read_text("utf-8")
        csv_table = path.suffix == ".csv"
        rows = csv.DictReader(text.splitlines()) if csv_table else json.loads(text)["rows"]
        typed = [
            {**row, **{name: kind(row[name]) for name, kind in COLUMNS.items()}} for row in rows
        ]
        if not typed:
            raise ValueError("it has no rows")
    return typed
