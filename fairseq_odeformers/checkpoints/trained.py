"""Builds trained models with their tasks."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from fairseq import checkpoint_utils, utils
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig
from torch import Tensor
from torch.nn.modules.module import register_module_parameter_registration_hook

from fairseq_odeformers.data.classification import class_names
from fairseq_odeformers.files import check_binarised, check_joined, check_regular, naming_faults

from .state import read
from .trust import check


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
        ValueError: the checkpoint cannot be read, may not be built, or does not fit its model, the
            data or their classes.
    """
    state = state or read(path)
    check(path, state)
    overwrite_args_by_name(state["cfg"], overrides or {})  # fairseq would not, given a state
    data = getattr(state["cfg"].task, "data", None)
    if data and task is None:
        check_regular(data)
        check_binarised(data)
        check_joined(data)
        for folder in utils.split_paths(data):
            if not os.path.exists(folder):
                raise FileNotFoundError(
                    f"data {folder}: no such folder; give the one with the dictionaries, data-bin "
                    "of odeformers prepare"
                )
    with naming_faults(path, f"does not fit its model or {data}"):
        # Read first: building may drop a head from the state, and a task does not keep its state.
        size, classes = count_classes(state), (state.get("task_state") or {}).get("classes")
        with no_more_than(state["model"]):
            (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task(
                [path], task=task, state=state
            )
        if size is not None:
            check_classes(path, task, size, classes)
    return Trained(model, task, cfg)


@contextmanager
def no_more_than(weights: dict[str, Tensor]) -> Iterator[None]:
    """Build no model that has far more parameters than a checkpoint has.

    Some more are allowed: a model may register a parameter twice, or have a head that the
    checkpoint lacks.

    Raises:
        ValueError: more are registered, as for a million layers.
    """
    left = [4 * len(weights) + 100, 4 * sum(map(Tensor.numel, weights.values())) + 10**6]

    def count(module, name, parameter):
        if parameter is not None:
            left[0] -= 1
            left[1] -= parameter.numel()
            if min(left) < 0:
                raise ValueError("its options are of a larger model than its weights")

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


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
