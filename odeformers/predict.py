"""Write the predictions of a trained classifier for a split of its data, or for lines of text.

``odeformers predict data-bin --path checkpoint_best.pt --output test.tsv`` classifies the test set
and prints the accuracy. ``odeformers predict data-bin --path ... --text FILE`` classifies a table,
or lines with one text each or two with a tab between them. ``odeformers predict data-bin --path ...
--text`` classifies the lines of standard input. ``odeformers predict RTE-bin --path ...
--glue-submission`` writes the files for GLUE's server.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from fairseq import utils
from scipy.stats import binomtest
from tqdm import tqdm

from fairseq_odeformers.data.classification import check_unlabelled, classes_of, macro_f1
from fairseq_odeformers.errors import InputError, did_you_mean, naming_faults
from fairseq_odeformers.files import check_regular, reading
from fairseq_odeformers.inference.classifier import Classifier, average_probabilities
from fairseq_odeformers.inference.hub import load_classifier, read_each
from fairseq_odeformers.inference.texts import (
    check_is_file,
    encode_lines,
    is_table,
    read_texts,
    write_table,
)
from odeformers.parser import Parser, add_user_dir, output_path, positive_int
from odeformers.prepare.common.command import split_columns
from odeformers.prepare.common.settings import SETTINGS
from odeformers.prepare.common.tables import read_unlabelled

GLUE = ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE", "WNLI")  # its tasks
SCORED_TASK = "STS-B"  # the only task that has scores instead of classes
MAX_SCORE = 5  # STS-B's largest score; the targets in a data set are divided by it


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    parser = Parser(
        prog="odeformers predict",
        description="Write a classifier's predictions for a split of the data, and print the "
        "accuracy; or write its predictions for lines of text.",
    )
    parser.add_argument(
        "data", help="data set, as given to fairseq-train; --text needs only its dictionaries"
    )
    parser.add_argument(
        "--path",
        required=True,
        help="checkpoint of a classifier; several, separated by colons, form an ensemble",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--split", help="split to classify (default: test)")
    source.add_argument(
        "--text",
        metavar="FILE",
        nargs="?",
        const="-",
        help="file with one text per line (for pairs, two with a tab between them), or table with "
        "a column of texts (two for pairs; .csv, .tsv, .jsonl), to classify instead of a split "
        "(default: standard input)",
    )
    source.add_argument(
        "--glue-submission",
        action="store_true",
        help="write predictions for the test sets of a GLUE task (data set TASK-bin) to the folder "
        "--output (default: the current one) as TASK.tsv (MNLI: MNLI-m.tsv, MNLI-mm.tsv)",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        type=output_path,
        help="table of predictions to write, in the order of the split or the file; the column id "
        "counts its texts from 0, as in fairseq, whatever ids a table has (default: no table; with "
        "--text, standard output)",
    )
    parser.add_argument(
        "--column",
        metavar="NAME",
        help="column of the texts in a table, given by its name in the header or its number from "
        "1; for pairs, both columns, as NAME,NAME (default: the columns of the training texts in "
        "odeformers prepare, or columns with common names)",
    )
    parser.add_argument(
        "--batch-size",
        metavar="N",
        type=positive_int,
        default=32,
        help="number of texts per batch (default: %(default)s)",
    )
    parser.add_argument(
        "--truncate", action="store_true", help="truncate texts that are too long for the model"
    )
    parser.add_argument("--cpu", action="store_true", help="run on the CPU even if there is a GPU")
    add_user_dir(parser)
    return parser


def main(arguments=None) -> None:
    """Classify a split or lines of text, and write the predictions."""
    args = make_parser().parse_args(arguments)
    files = glue_files(args.data) if args.glue_submission else {}
    if args.output and args.output.is_dir() != args.glue_submission:
        kind = "an existing folder" if args.glue_submission else "a file, not a folder"
        raise InputError(f"--output {args.output}: pass {kind}")
    cuts = {"shorten_method": "truncate"} if args.truncate else {}
    if f"{SCORED_TASK}.tsv" in files.values():
        return predict_scores(args, cuts)
    if args.column and not (args.text and is_table(args.text)):
        raise InputError(f"--column {args.column} needs a table: --text FILE.csv, .tsv or .jsonl")
    if args.text is not None:
        check_is_file(args.text)
    classifier = load_classifier(args.path, args.data, **cuts)
    source = None if args.text is None else read_lines_or_table(args, classifier)
    if torch.cuda.is_available() and not args.cpu:
        classifier.cuda()
    if args.glue_submission:
        for split, name in files.items():
            predict_glue(classifier, split, (args.output or Path()) / name, args.batch_size)
    elif source is None:
        predict_split(classifier, args.split or "test", args)
    else:
        predict_texts(classifier, *source, args)


def read_lines_or_table(
    args: argparse.Namespace, classifier: Classifier
) -> tuple[str, list[list[str]], list[int] | None]:
    """Return the name of ``--text`` in messages, its rows of texts, and their line numbers.

    If ``odeformers prepare`` was told which columns of a table contain the texts, the same columns
    are read. If ``--text`` is not a table, tabs separate the texts of a line, and the numbers are
    None.

    Raises:
        InputError: the table has no column of texts, or ``--column`` does not fit it.
    """
    if not (is_table(args.text) and Path(args.text).is_file()):
        name, lines = read_texts(args.text)
        return name, [line.split("\t") for line in lines], None
    columns = [args.column] if args.column else []
    if classifier.pairs and args.column and len(columns := split_columns(args.column)) != 2:
        raise InputError(
            f"--column {args.column}: the model classifies pairs; name two columns, A,B"
        )
    check_regular(args.text)
    settings = Path(args.data).resolve().parent / SETTINGS
    prepared = ""
    if settings.exists():
        with reading(settings):
            prepared = json.loads(settings.read_bytes()).get("--columns") or ""
    table = Path(args.text), 2 if classifier.pairs else 1, classifier.classes
    numbers, rows = zip(*read_unlabelled(*table, columns, split_columns(prepared)))
    return args.text, [*rows], [*numbers]


def glue_files(data: str) -> dict[str, str]:
    """Return GLUE's file name for the predictions on each test set of a task, ``TASK-bin``."""
    task = Path(data).name.removesuffix("-bin")
    if task not in GLUE:
        names = ", ".join(f"{name}-bin" for name in GLUE)
        raise InputError(f"--glue-submission: the name of {data} must be one of {names}")
    if task == "MNLI":
        return {"test": "MNLI-m.tsv", "test1": "MNLI-mm.tsv"}
    return {"test": f"{task}.tsv"}


def predict_glue(classifier: Classifier, split: str, path: Path, batch_size: int) -> None:
    """Write the predictions for a test set in its order, in the form that GLUE's server accepts."""
    ids, _, probs = probabilities(classifier.task, classifier.models, split, batch_size)
    labels = [classifier.classes[index] for index in probs.argmax(1).tolist()]
    write_table([["index", "prediction"], *zip(map(str, ids.tolist()), labels)], path)


def predict_scores(args: argparse.Namespace, cuts: dict) -> None:
    """Write scores from 0 to 5 for STS-B's test set, in the form that GLUE's server accepts.

    Raises:
        InputError: a checkpoint was not trained for regression.
    """
    device = "cuda" if torch.cuda.is_available() and not args.cpu else "cpu"
    task, models = None, []
    for checkpoint in read_each(args.path):
        if not checkpoint.regression:
            raise InputError(
                f"{checkpoint.path} was not trained with --regression-target, but "
                f"{SCORED_TASK} needs it; see its part in examples/macaron/glue.yaml"
            )
        model, task, _ = checkpoint.build(args.data, task, **cuts)
        models.append(model.eval().to(device))
    ids, _, values = outputs(task, models, "test", args.batch_size, mean_outputs)
    scores = (MAX_SCORE * values).clamp(0, MAX_SCORE)
    rows = ((str(number), f"{score:.3f}") for number, score in zip(ids.tolist(), scores.tolist()))
    write_table([["index", "prediction"], *rows], (args.output or Path()) / f"{SCORED_TASK}.tsv")


def mean_outputs(models, task, net_input: dict) -> torch.Tensor:
    """Return the output (B) of the regression heads, averaged over the models."""
    head = task.cfg.classification_head_name
    each = [
        model(**net_input, features_only=True, classification_head_name=head)[0].float().view(-1)
        for model in models
    ]
    return torch.stack(each).mean(0)


def predict_split(classifier: Classifier, split: str, args: argparse.Namespace) -> None:
    """Write the table for a split, and print the accuracy; only a test set may lack labels."""
    task, classes = classifier.task, classifier.classes
    ids, targets, probs = probabilities(task, classifier.models, split, args.batch_size)
    if targets is None:
        check_unlabelled(Path(task.cfg.data, "label", split), ".idx", ".bin")
    if args.output:
        truth = [""] * len(ids) if targets is None else [classes[index] for index in targets]
        labels = [classes[index] for index in probs.argmax(1)]
        shares = (dict(zip(classes, row)) for row in probs.tolist())
        rows = zip(ids.tolist(), truth, labels, shares)
        write_predictions("target", classes, rows, args.output)
    if targets is not None:
        predictions = probs.argmax(1)
        correct, total = int((predictions == targets).sum()), len(targets)
        low, high = binomtest(correct, total).proportion_ci(method="wilson")
        score = macro_f1(targets.tolist(), predictions.tolist(), range(len(classes)))
        print(
            f"{split}: accuracy {100 * correct / total:.2f}% "
            f"(95% interval {100 * low:.2f}-{100 * high:.2f}%), {correct:,} of {total:,}; "
            f"macro-F1 {score:.2f}%"
        )


def predict_texts(
    classifier: Classifier,
    name: str,
    rows: list[list[str]],
    numbers: list[int] | None,
    args: argparse.Namespace,
) -> None:
    """Write number, text, prediction and probabilities for each unlabelled text or pair.

    A text that is empty or too long gets neither a prediction nor probabilities. Carriage returns
    raise an error, because they would end the row.

    Args:
        name: name of the file of texts in messages.
        rows: one text, or two texts of a pair, per row.
        numbers: line numbers of the rows (default: 1, 2, ...).

    Raises:
        ValueError: a row has more or fewer texts than the model takes.
    """
    names = ["text1", "text2"] if classifier.pairs else ["text"]

    def encode(texts: list[str], place: str) -> list[torch.Tensor]:
        if not any(map(str.strip, texts)):
            return []
        if not classifier.towers <= len(texts) <= len(names):
            given = "1 text" if len(texts) == 1 else f"{len(texts)} texts"
            takes = " or ".join(map(str, range(classifier.towers, len(names) + 1)))
            remedy = "give two texts with a tab between them"
            if not classifier.pairs:
                column = 2 if texts[0] in classifier.classes else "N"
                remedy = f"give only the column of texts (cut -f {column})"
            raise ValueError(f"{given} instead of {takes} (tabs separate texts); {remedy}")
        if "\r" in "".join(texts):
            raise ValueError("contains a carriage return; remove it")
        return classifier.encode(texts, place)

    encoded = encode_lines(encode, rows, name, numbers)
    inputs = [tokens or [] for tokens in encoded]
    if count := sum(tokens == [] for tokens in encoded):
        what = "is empty and has" if count == 1 else "are empty and have"
        print(f"{name}: {count:,} of {len(rows):,} texts {what} no class", file=sys.stderr)
    results = classifier.classify_tokens(inputs, args.batch_size)
    shown = ["\t".join([*texts, ""][: len(names)]) for texts in rows]
    table = [(number, text, *result) for number, (text, result) in enumerate(zip(shown, results))]
    write_predictions("\t".join(names), classifier.classes, table, args.output)


def batches(task, split: str, models, batch_size: int) -> Iterator[dict]:
    """Load a split; yield its batches on the models' device, without texts that are too long."""
    task.load_dataset(split)
    iterator = task.get_batch_iterator(
        task.dataset(split),
        max_sentences=batch_size,
        max_positions=utils.resolve_max_positions(
            task.max_positions(), *(model.max_positions() for model in models)
        ),
        ignore_invalid_inputs=True,
    ).next_epoch_itr(shuffle=False)
    device = next(models[0].parameters()).device
    for batch in tqdm(iterator, split, unit=" batches", mininterval=1, disable=None):
        yield utils.apply_to_sample(lambda tensor: tensor.to(device), batch)


def naming_split(task, split: str):
    """Call :func:`.naming_faults` for a split; the task parity has no data.

    Raises:
        FileNotFoundError: the data lack this split.
    """
    data = getattr(task.cfg, "data", None) or "the task"
    languages = re.compile(r"(\.[^.]+-[^.]+\.[^.]+)?\.idx")
    splits = sorted({languages.sub("", path.name) for path in Path(data).rglob("*.idx")})
    if splits and split not in splits:
        remedy = did_you_mean(split, splits, "choose one of them")
        raise FileNotFoundError(f"--split {split}: {data} has {', '.join(splits)}; {remedy}")
    return naming_faults(data, f"has no complete split {split}")


def probabilities(task, models, split, batch_size):
    """Compute the probabilities of classes for the examples of a split, in the order of the data.

    Returns:
        The numbers of the examples (N), counted from 0; their classes (N), or None if unknown; and
        the probabilities of the classes (N, K), averaged over the models.
    """
    ids, targets, probs = outputs(task, models, split, batch_size, average_probabilities)
    classes = len(classes_of(task))
    if targets is not None and not 0 <= targets.min() <= targets.max() < classes:
        raise InputError(
            f"{split} of {task.cfg.data} has labels beyond the {classes} classes; pass the data "
            "of the training run"
        )
    return ids, targets, probs


@torch.no_grad()
def outputs(task, models, split, batch_size, compute: Callable[..., torch.Tensor]):
    """Call *compute* with models, task and each batch of a split; sort by the order of the data.

    Returns:
        Numbers (N) and targets (N) as from :func:`probabilities`, and results (N, ...).
    """
    ids, targets, values = [], [], []
    with naming_split(task, split):
        for sample in batches(task, split, models, batch_size):
            ids.append(sample["id"].view(-1))
            if "target" in sample:
                targets.append(sample["target"].view(-1))
            values.append(compute(models, task, sample["net_input"]))
    ids = torch.cat(ids).cpu() if ids else torch.empty(0)
    total = len(task.dataset(split))
    if not total:
        raise InputError(f"{split} of {task.cfg.data} has no examples; choose a different --split")
    if len(ids) < total:
        raise InputError(
            f"{total - len(ids):,} of {total:,} inputs of {split} are longer than the "
            "--max-positions of the training run; use --truncate, or train with --task "
            "long_range_arena or --shorten-method truncate"
        )
    order = ids.argsort()
    targets = torch.cat(targets).cpu()[order] if targets else None
    return ids[order], targets, torch.cat(values).cpu()[order]


def write_predictions(name: str, classes: list[str], rows: Iterable[tuple], path) -> None:
    """Write a table of numbers, texts or targets, predictions, and their probabilities."""
    table = [["id", name, "prediction", *(f"p({label})" for label in classes)]]
    for number, text_or_target, prediction, shares in rows:
        columns = [f"{share:.6f}" for share in shares.values()] or [""] * len(classes)
        table.append([str(number), text_or_target, prediction, *columns])
    write_table(table, path)
