"""Comparisons without trainings: rows, curves and predictions with known statistics."""

import json
from dataclasses import replace

from odeformers.compare.estimate import Estimate
from odeformers.compare.outcome import make_rows
from odeformers.compare.results.curves import (
    Curve,
    Predictions,
    write_curve,
    write_likelihoods,
    write_predictions,
)
from odeformers.compare.results.rows import Row, collect_rows, write_rows
from odeformers.compare.variant import Variant

CLASSIFICATION = {"task": "sentence_prediction", "metric": "accuracy"}
TRANSLATION = {"task": "translation", "metric": "BLEU"}
LANGUAGE_MODEL = {"task": "language_modeling", "metric": "perplexity"}
SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
ENDED = Curve([10, 20, 30], [2.0, 4.0, 6.0], [3.0, 2.0, 2.5], [3.0, 2.0, 2.5], [3.0, 2.5, 2.0], 1)


def write_run(
    out,
    architecture,
    seed=1,
    score=None,
    outputs=None,
    references=None,
    curve=ENDED,
    likelihoods=None,
    **changes,
):
    """Write the files of a run that has one score, and return its rows.

    Args:
        outputs, references: outputs and references for the test texts.
        likelihoods: the same of a language model.
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
        tokens=600.0,
        validated="loss",
        validation=curve.loss[curve.best],
        curve=f"{run}/curve.csv",
    )
    write_curve(out / row.curve, curve)
    row = replace(row, **changes)
    rows = [row]
    if likelihoods is not None:
        path = f"{run}/checkpoint_best.test.csv"
        write_likelihoods(out / path, likelihoods)
        row, score = replace(row, predictions=path), likelihoods.perplexity
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


def estimated(variant, parameters=1000, updates=78):
    """An estimate for a variant."""
    return Estimate(variant, parameters, epoch_updates=26, update_seconds=0.5, updates=updates)


# --- files of runs, as commands leave them -----------------------------------------------

# By architecture: how many answers of 120 are right after each epoch, the loss there, and how the
# right answers are spread over the texts. The best answers, the last ones, and those of the
# smallest loss are of three epochs.
SCRIPTS = {
    "base": ((50, 80, 70, 60), (3.0, 2.0, 1.5, 1.8), 7),
    "good": ((50, 72, 88, 70), (3.0, 1.2, 1.6, 1.4), 11),
    "poor": ((30, 56, 46, 40), (3.1, 2.1, 1.7, 1.9), 13),
}
EPOCH, TEXTS, CLASSES = 20, 120, 3


def log_line(kind, **stats):
    """A line of fairseq-train with the statistics of an epoch, of updates or of a validation."""
    stats = {name: str(value) for name, value in stats.items()}
    return f"2026-11-22 16:38:37 | INFO | {kind} | {json.dumps({'epoch': 1, **stats})}\n"


def write_scripted(out, architecture, seed):
    """The log of a run, and its predictions by the checkpoint that validates best, as rows."""
    folder = out / f"{architecture}-seed{seed}"
    folder.mkdir(parents=True)
    rights, losses, step = SCRIPTS[architecture]
    rights = [right + seed**2 * step % 17 for right in rights]
    log = ""
    for epoch, (right, loss) in enumerate(zip(rights, losses), start=1):
        updates, speed = EPOCH * epoch, step * (100, 900, 400, 300)[epoch - 1]
        more = {"train_train_wall": 2 * seed, "train_cpu": seed, "train_wpb": speed}
        log += log_line("train", train_num_updates=updates, train_loss=loss - 0.1, **more)
        more = {"valid_loss": loss + seed / 100, "valid_accuracy": 100 * right / TEXTS}
        log += log_line("valid", valid_num_updates=updates, **more)
    (folder / "train.log").write_text(log)
    rows = ["id\ttarget\tprediction\tp(0)\tp(1)\tp(2)\n"]
    for number in range(TEXTS):
        wrong = (number * step + 50 * seed) % TEXTS >= max(rights)
        target, answer = number % CLASSES, (number + wrong) % CLASSES
        shares = "\t".join("0.8" if answer == each else "0.1" for each in range(CLASSES))
        rows.append(f"{number}\t{target}\t{answer}\t{shares}\n")
    (folder / "checkpoint_best.test.tsv").write_text("".join(rows))
    chosen = {"best-checkpoint-metric": "accuracy", "maximize-best-checkpoint-metric": True}
    variant = Variant(
        architecture,
        "sentence_prediction",
        "/data",
        {"arch": architecture, **chosen},
        test_sets={"test": None},
        baseline="base",
    )
    estimate = Estimate(variant, 1000 + step, EPOCH, 0.1, EPOCH * len(rights))
    columns = {"seed": seed, "begun": f"{[*SCRIPTS].index(architecture)}{seed}"}
    (folder / "run.yaml").touch()
    write_rows(folder / "results.csv", make_rows(estimate, folder, **columns))
    collect_rows(out)
