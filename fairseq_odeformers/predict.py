"""Writes the predictions of a trained classifier for a split of its data, and prints the accuracy.

``python -m fairseq_odeformers.predict data-bin --path checkpoint_best.pt --output test.tsv``
"""

import argparse
import math
import sys
from pathlib import Path

import torch
from fairseq import checkpoint_utils, utils
from tqdm import tqdm

import fairseq_odeformers  # noqa: F401
from fairseq_odeformers.data.classification import class_names
from fairseq_odeformers.files import replacing


def main() -> None:
    """The command line; an error ends the program with a message of one line."""
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_odeformers.predict",
        description="Write the predictions of a classifier for a split, and print its accuracy.",
    )
    parser.add_argument("data", help="data set, as given to fairseq-train")
    parser.add_argument(
        "--path",
        required=True,
        help="checkpoint, or several separated by colons, whose probabilities are averaged",
    )
    parser.add_argument("--split", default="test", help="(default: %(default)s)")
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="table of predictions (default: none)"
    )
    parser.add_argument(
        "--batch-size", metavar="N", type=int, default=32, help="(default: %(default)s)"
    )
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    args = parser.parse_args()
    try:
        predict(args)
    except (ValueError, OSError) as error:
        sys.exit(f"{parser.prog}: error: {error}")


def predict(args: argparse.Namespace) -> None:
    """What the command line does."""
    task, models = None, []
    for path in utils.split_paths(args.path):
        model, task = load_classifier(path, args.data, task)
        models.append(model)
    task.load_dataset(args.split)
    ids, targets, probs = probabilities(
        task, models, args.split, args.batch_size, torch.cuda.is_available() and not args.cpu
    )
    if args.output:
        classes = class_names(task.label_dictionary)[: probs.size(1)]
        with replacing(args.output) as path:
            write_table(path, classes, ids, targets, probs)
        print(f"wrote {args.output}")
    if targets is not None:
        correct, total = int((probs.argmax(1) == targets).sum()), len(targets)
        low, high = wilson_interval(correct, total)
        print(
            f"{args.split}: accuracy {100 * correct / total:.2f}% "
            f"(95% interval {100 * low:.2f}-{100 * high:.2f}%), {correct:,} of {total:,}"
        )


def load_classifier(path: str, data: str, task=None):
    """A trained classifier, and the task of its data set.

    Args:
        path: checkpoint.
        data: data set, as given to fairseq-train.
        task: to be used instead of that of the checkpoint.

    Raises:
        ValueError: *path* is not the checkpoint of a classifier of these classes.
    """
    try:
        state = checkpoint_utils.load_checkpoint_to_cpu(path, {"data": data})
    except OSError:
        raise
    except Exception as error:  # bytes that are not pickled raise anything
        raise ValueError(f"{path} is not a checkpoint, or is damaged ({error})") from error
    heads = {
        name: len(weight)
        for name, weight in state["model"].items()
        if name.startswith("classification_heads.") and name.endswith(".out_proj.weight")
    }
    if not heads:
        raise ValueError(f"{path} is not the checkpoint of a classifier")
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [path], {"data": data}, task, state=state
    )
    check_classes(task, path, heads, state.get("task_state", {}))
    return model, task


def check_classes(task, path: str, heads: dict[str, int], task_state: dict) -> None:
    """Check that a checkpoint was trained on the classes of the data.

    Args:
        heads: number of scores of the last layers in the checkpoint, by the name of the weight.
        task_state: what the checkpoint has of the task.

    Raises:
        ValueError: it was not, or is not of a classifier; the message names both.
    """
    head = getattr(task.cfg, "classification_head_name", None)
    found = heads.get(f"classification_heads.{head}.out_proj.weight")
    if found is None or task.cfg.regression_target:
        raise ValueError(f"{path} is not the checkpoint of a classifier")
    own = class_names(task.label_dictionary)
    data = getattr(task.cfg, "data", "the task")
    expected = getattr(task.cfg, "num_classes", len(own))
    if found != expected:
        raise ValueError(
            f"{path} was trained on {found} classes, but {data} has {expected}: {', '.join(own)}"
        )
    if task_state.get("classes", own) != own:
        raise ValueError(
            f"{path} was trained on the classes {', '.join(task_state['classes'])}, but those of "
            f"{data} are, in order, {', '.join(own)}"
        )


@torch.no_grad()
def probabilities(task, models, split, batch_size, use_cuda):
    """The examples of a split in the order of the data.

    Returns:
        Their numbers (N) from 0, their classes (N), or None if these are not known, and the
        probabilities of the classes (N, K), averaged over the models.
    """
    for model in models:
        model.eval()
        if use_cuda:
            model.cuda()
    dataset = task.dataset(split)
    longest = utils.resolve_max_positions(
        task.max_positions(), *(model.max_positions() for model in models)
    )
    batches = task.get_batch_iterator(
        dataset,
        max_sentences=batch_size,
        max_positions=longest,
        ignore_invalid_inputs=True,
    ).next_epoch_itr(shuffle=False)
    ids, targets, probs = [], [], []
    for sample in tqdm(batches, desc=split, unit=" batches", mininterval=1):
        sample = utils.move_to_cuda(sample) if use_cuda else sample
        ids.append(sample["id"].view(-1))
        if "target" in sample:
            targets.append(sample["target"].view(-1))
        outputs = [
            model(
                **sample["net_input"],
                features_only=True,
                classification_head_name=task.cfg.classification_head_name,
            )
            for model in models
        ]
        each = [
            model.get_normalized_probs(output, log_probs=False)
            for model, output in zip(models, outputs)
        ]
        probs.append(torch.stack(each).mean(0))
    ids = torch.cat(ids).cpu() if ids else torch.empty(0)
    if len(ids) < len(dataset):
        raise ValueError(
            f"{len(dataset) - len(ids):,} of {len(dataset):,} inputs of {split} are longer than "
            f"{longest}, the --max-positions of the training; train with --task long_range_arena "
            "or --shorten-method truncate, which cut them"
        )
    order = ids.argsort()
    targets = torch.cat(targets).cpu()[order] if targets else None
    return ids[order], targets, torch.cat(probs).cpu()[order]


def write_table(path, classes, ids, targets, probs) -> None:
    """Tab-separated: number from 0, class (if known), prediction, probability of each class."""
    header = ["id", "target", "prediction", *(f"p({name})" for name in classes)]
    rows = [header]
    for row, number in enumerate(ids.tolist()):
        target = "" if targets is None else classes[targets[row]]
        prediction = classes[probs[row].argmax()]
        rows.append([str(number), target, prediction, *(f"{p:.6f}" for p in probs[row].tolist())])
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def wilson_interval(correct: int, total: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's score interval of a proportion (1927); by default with 95% confidence."""
    share, spread = correct / total, z * z / total
    center = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / total + spread / total / 4) / (1 + spread)
    return center - half, center + half


if __name__ == "__main__":
    main()
