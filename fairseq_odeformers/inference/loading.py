"""Trained models with their tasks, and messages for what does not fit."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

from fairseq import checkpoint_utils, utils
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

import fairseq_odeformers  # noqa: F401
from fairseq_odeformers.data.classification import class_names
from fairseq_odeformers.inference.weights import read_export


def import_plugins(folders: Iterable[str]) -> None:
    """Import folders as fairseq's ``--user-dir`` does; they register models and tasks.

    Raises:
        ValueError: one is not there.
    """
    for folder in folders:
        if not Path(folder).is_dir():
            raise ValueError(f"--user-dir {folder}: no such folder")
        utils.import_user_module(Namespace(user_dir=folder))


def read_checkpoint(path: str) -> dict:
    """What fairseq's trainer saved, or ``export`` wrote.

    Raises:
        OSError: there is no such file.
        ValueError: it is not a checkpoint, or is one whose model or task nothing has registered.
    """
    if not path:
        raise ValueError("'' is no checkpoint; give a file")
    if Path(path).is_dir():
        state = read_export(Path(path))
    else:
        state = checkpoint_utils.load_checkpoint_to_cpu(path)
    names = ("architecture", state["cfg"].model, ARCH_MODEL_REGISTRY)
    for kind, part, registry in (names, ("task", state["cfg"].task, TASK_REGISTRY)):
        name = getattr(part, "_name", None) or getattr(part, "arch", None)
        if name is not None and name not in registry:
            raise ValueError(
                f"{path} is of the {kind} {name}, which is not registered; give the folder "
                "that registers it with --user-dir (in Python: import it)"
            )
    return state


def load_model(path: str, overrides: dict, task=None, state=None):
    """A trained model, the configuration that it was trained with, and its task.

    Args:
        overrides: other values of options, by name, such as ``data``.
        task: to be used instead of that of the checkpoint.
        state: what :func:`read_checkpoint` has returned for the checkpoint, which is changed.

    Raises:
        OSError: a file is not there.
        ValueError: the checkpoint cannot be read, or does not fit the data.
    """
    state = state or read_checkpoint(path)
    overwrite_args_by_name(state["cfg"], overrides)
    (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task(
        [path], overrides, task, state=state
    )
    return model, cfg, task


def load_classifier(path: str, data: str | None, task=None):
    """A trained classifier, and the task of its data set.

    Args:
        path: checkpoint.
        data: data set, as given to fairseq-train; None for that of the training.
        task: to be used instead of that of the checkpoint.

    Raises:
        OSError: a file is not there.
        ValueError: *path* is not the checkpoint of a classifier of these classes.
    """
    state = read_checkpoint(path)
    heads = sizes_of_heads(state)
    if not heads:
        raise ValueError(f"{path} is not the checkpoint of a classifier")
    model, _, task = load_model(path, {} if data is None else {"data": data}, task, state)
    check_classes(task, path, heads, state.get("task_state", {}))
    return model, task


def sizes_of_heads(state: dict) -> dict[str, int]:
    """The number of scores of each classification head of a checkpoint, by its last weight."""
    return {
        name: len(weight)
        for name, weight in state["model"].items()
        if name.startswith("classification_heads.") and name.endswith(".out_proj.weight")
    }


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
    if found is None or getattr(task.cfg, "regression_target", False):
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
