"""Builds trained models with their tasks."""

import os
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from fairseq import checkpoint_utils, utils
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig

from fairseq_odeformers.blame import did_you_mean
from fairseq_odeformers.data.classification import class_names
from fairseq_odeformers.files import check_binarised, check_joined, check_regular, naming_faults

from .state import read
from .trust import check_trust, limit_size, read_names

# What loaders set for every model: a task may have no data, and subwords no codes.
SET_ALWAYS = {"data", "bpe_codes"}


class Trained(NamedTuple):
    """A trained model, its task, and the configuration of the training."""

    model: BaseFairseqModel
    task: FairseqTask
    cfg: DictConfig


def load(
    path: str,
    overrides: dict | None = None,
    task: FairseqTask | None = None,
    state: dict | None = None,
) -> Trained:
    """Build the model of a checkpoint or of an export.

    fairseq sets up the task, which builds the model, and loads the weights; there the model refuses
    other dictionaries than its own (:class:`.DictionaryDigest`).

    Args:
        overrides: new values of options, by name, such as ``data``.
        task: used instead of the task of the checkpoint, as for the other models of an ensemble.
        state: the result of :func:`~fairseq_odeformers.checkpoints.state.read` for *path*, if the
            file has been read already; its configuration is changed.

    Raises:
        OSError: a file is not there.
        ValueError: the checkpoint cannot be read, may not be built, has no option of a name, or
            does not fit its model, the data or their classes.
    """
    state = state or read(path)
    check_trust(path, state)
    overwrite_args_by_name(state["cfg"], overrides or {})  # fairseq would not, given a state
    check_options(path, state, overrides or {})
    data = getattr(state["cfg"].task, "data", None)
    if data and task is None:
        check_data(data)
    with naming_faults(path, f"does not fit its model or {data}"):
        # Read before building, which may drop a head; a task does not keep its saved classes.
        size, classes = count_classes(state), (state.get("task_state") or {}).get("classes")
        with limit_size(path, state["model"]), naming_missing(path, data):
            (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task(
                [path], task=task, state=state
            )
        if size is not None:
            check_classes(path, task, size, classes)
    return Trained(model, task, cfg)


def check_options(path: str, state: dict, names: Iterable[str]) -> None:
    """Check that a checkpoint has options of these names; fairseq ignores others.

    Raises:
        ValueError: it lacks one.
    """
    parts = (vars(p) if isinstance(p, Namespace) else p for p in state["cfg"].values())
    nested = (part for part in parts if isinstance(part, Mapping))
    known = {*state["cfg"], *SET_ALWAYS}.union(*nested)
    for name in names:
        if name not in known:
            arch, task = read_names(state["cfg"])
            remedy = did_you_mean(name, known) or (
                f"fairseq-train --task {task} --arch {arch} --help names them"
            )
            raise ValueError(f"{path} has no option {name}; {remedy}")


@contextmanager
def naming_missing(path: str, data: str | None) -> Iterator[None]:
    """Have a missing file of the data, such as a dictionary, be named with its remedy.

    Args:
        path: of the checkpoint.
        data: the folder, or several separated by colons; None for a task without data.

    Raises:
        FileNotFoundError: a file is not there.
    """
    try:
        yield
    except FileNotFoundError as error:
        if os.path.dirname(error.filename or "") not in utils.split_paths(data or ""):
            raise
        raise FileNotFoundError(
            f"{error.filename}: no such file; give the data folder of the training of {path}"
        ) from error


def check_data(data: str) -> None:
    """Check the folders of the data, from which a task reads its dictionaries.

    Raises:
        FileNotFoundError: one is not there.
        ValueError: one is not the folder of binarised data.
    """
    check_regular(data)
    check_binarised(data)
    check_joined(data)
    for folder in utils.split_paths(data):
        if not os.path.isdir(folder):
            raise FileNotFoundError(
                f"data {folder}: no such folder; give the one with the dictionaries, data-bin "
                "of odeformers prepare"
            )


def count_classes(state: dict) -> int | None:
    """The number of classes that a checkpoint was trained on; None if it is of no classifier."""
    task = state["cfg"].task
    if getattr(task, "regression_target", False):
        return None
    head = getattr(task, "classification_head_name", None)
    weight = state["model"].get(f"classification_heads.{head}.out_proj.weight")
    return None if weight is None else len(weight)


def check_classes(path: str, task: FairseqTask, size: int, classes: list[str] | None) -> None:
    """Check that a checkpoint was trained on the classes of the data.

    Args:
        size: the number of classes of the checkpoint.
        classes: their names, if the checkpoint has them.

    Raises:
        ValueError: the data have other classes, or the same in another order.
    """
    names = class_names(task.label_dictionary)
    data = getattr(task.cfg, "data", "the task")
    expected = min(getattr(task.cfg, "num_classes", len(names)), len(names))
    if size != expected:
        raise ValueError(
            f"{path} was trained on {size} classes, but {data} has {expected}: {', '.join(names)}"
        )
    if classes not in (None, names):
        raise ValueError(
            f"{path} was trained on the classes {', '.join(classes)}, but {data} has, in "
            f"order, {', '.join(names)}"
        )
