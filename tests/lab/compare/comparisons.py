"""Comparisons that nobody has trained: rows, curves and predictions with known statistics."""

from dataclasses import replace

from fairseq_odeformers.lab.compare.results import (
    Curve,
    Predictions,
    Row,
    write_curve,
    write_predictions,
    write_rows,
)

CLASSIFICATION = {"task": "sentence_prediction", "metric": "accuracy"}
TRANSLATION = {"task": "translation", "metric": "BLEU"}
LANGUAGE_MODEL = {"task": "language_modeling", "metric": "perplexity"}
SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
ENDED = Curve([10, 20, 30], [2.0, 4.0, 6.0], [3.0, 2.0, 2.5], [3.0, 2.0, 2.5], [3.0, 2.5, 2.0], 1)


def write_run(
    out, architecture, seed=1, score=None, outputs=None, references=None, curve=ENDED, **changes
):
    """Write the files of a run that has one score, and return its rows.

    Args:
        outputs, references: of the test texts.
        changes: fields of the rows.
    """
    changes = {**CLASSIFICATION, **changes}
    metric, tuned = changes.pop("metric"), changes.get("tuned", "")
    run = "-".join([architecture, *tuned.split(), f"seed{seed}"])
    (out / run).mkdir(parents=True)
    row = Row(
        run=run,
        architecture=architecture,
        family=architecture,
        seed=seed,
        baseline="a",
        data="/data",
        parameters=1234,
        updates=curve.updates[-1],
        seconds=curve.seconds[-1],
        cpu_seconds=curve.seconds[-1],
        tokens_per_second=100.0,
        validated="loss",
        validation=curve.loss[curve.best],
        curve=f"{run}/curve.csv",
    )
    write_curve(out / row.curve, curve)
    row = replace(row, **changes)
    rows = [row]
    if outputs is not None:
        path = f"{run}/checkpoint_best.test.csv"
        sources = [f"text {number}" for number in range(len(outputs))]
        shares = [0.9 if o == r else 0.2 for o, r in zip(outputs, references)]
        shares = shares if metric == "accuracy" else []
        write_predictions(out / path, Predictions(sources, references, outputs, shares))
        row = replace(row, predictions=path, texts=len(outputs))
        if metric == "accuracy" and score is None:
            score = 100 * sum(o == r for o, r in zip(outputs, references)) / len(outputs)
    if score is not None:
        signature = SIGNATURE if metric == "BLEU" else ""
        place = {"split": "test", "checkpoint": "best checkpoint", "signature": signature}
        rows.append(replace(row, metric=metric, score=score, **place))
    return rows


def write_comparison(out, *runs):
    """Write the rows of runs as the file of a comparison."""
    write_rows(out / "results.csv", [row for rows in runs for row in rows])
    return out
