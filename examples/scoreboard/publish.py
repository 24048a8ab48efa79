"""Keep what a comparison of classifiers has shown in three small files.

    python examples/scoreboard/publish.py RUNS [RUNS ...] --out examples/scoreboard/long_text

The complete runs of RUNS, folders of ``odeformers compare``, the candidates of ``--tune`` and runs
that diverged are added to the files:
``results.csv`` has their rows; ``curves.csv`` their validations; ``answers.npz`` a bit per scored
run (``runs``) and test text, 1 where its answer was right (``right``, ``texts`` of them).
"""

import argparse
import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from fairseq_odeformers.files import reading, replacing, write_csv
from odeformers.compare.results.curves import Curve
from odeformers.compare.results.rows import NOT_EVALUATED, Row, read_rows, write_rows

DIVERGED = "became NaN or infinite"  # in the state of a run
RESULTS, CURVES, ANSWERS = "results.csv", "curves.csv", "answers.npz"


def publish(folder: Path, out: Path) -> None:
    """Add the complete runs in a folder to the files in another one."""
    rows = [
        row
        for row in read_rows(folder)
        if row.state in ("", NOT_EVALUATED) or DIVERGED in row.state
    ]
    names = {row.run for row in rows}
    validations = [each for row in rows if not row.metric for each in validate(row)]
    answers = {
        row.run: np.array(row.outputs.output) == row.outputs.reference
        for row in rows
        if row.outputs
    }
    if (out / RESULTS).exists():
        rows = [row for row in read_rows(out) if row.run not in names] + [*map(strip, rows)]
        with open(out / CURVES, encoding="utf-8", newline="") as file:
            kept = [row for row in csv.DictReader(file) if row["run"] not in names]
        validations, answers = kept + validations, read_answers(out) | answers
    out.mkdir(parents=True, exist_ok=True)
    write_rows(out / RESULTS, map(strip, rows))
    columns = dict.fromkeys(name for each in validations for name in each)  # metrics may differ
    write_csv(
        out / CURVES, [{name: each.get(name, "") for name in columns} for each in validations]
    )
    if answers:
        right = np.array(list(answers.values()), dtype=bool)
        with replacing(out / ANSWERS) as path, open(path, "wb") as file:
            packed = np.packbits(right, axis=-1)
            np.savez_compressed(file, runs=list(answers), right=packed, texts=right.shape[-1])


def strip(row: Row) -> Row:
    """A row without the paths of the machine that it was made on."""
    options = json.loads(row.options or "{}")
    options.pop("user-dir", None)
    return replace(row, data="", options=json.dumps(options), curve="", predictions="")


def validate(row: Row) -> Iterator[dict[str, str | int | float]]:
    """The validations of a training on CPUs."""
    curve = row.learning or Curve()
    points = zip(curve.updates, curve.seconds, curve.loss, curve.metric)
    for updates, seconds, loss, metric in points:
        yield {
            "run": row.run,
            "architecture": row.architecture,
            "tuned": row.tuned,
            "seed": row.seed,
            "updates": updates,
            "cpu_seconds": f"{seconds:.0f}",
            "valid_loss": loss,
            f"valid_{row.validated}": metric,
        }


def read_answers(out: Path) -> dict[str, np.ndarray]:
    """Which answers of published runs are right, by their names."""
    if not (out / ANSWERS).exists():  # candidates alone
        return {}
    with reading(out / ANSWERS), np.load(out / ANSWERS) as file:
        right = np.unpackbits(file["right"], axis=-1, count=int(file["texts"]))
        return dict(zip(file["runs"].tolist(), right.astype(bool)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", metavar="RUNS", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    for folder in args.runs:
        publish(folder, args.out)


if __name__ == "__main__":
    main()
