"""Trained models with their tasks, and messages for what does not fit."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairseq import checkpoint_utils
from fairseq.dataclass.utils import overwrite_args_by_name
from torch import Tensor
from torch.nn.modules.module import register_module_parameter_registration_hook

from fairseq_odeformers.data.classification import class_names
from fairseq_odeformers.files import check_regular, naming

from .trust import check_checkpoint
from .weights import read_export


def read_checkpoint(path: str) -> dict:
    """What fairseq's trainer saved, or ``odeformers export`` wrote.

    Raises:
        OSError: there is no such file.
        ValueError: it is not a checkpoint; or see
            :func:`~fairseq_odeformers.checkpoints.trust.check_checkpoint`.
    """
    if not path:
        raise ValueError("'' is not a checkpoint; give a file")
    with naming(path, "is not a checkpoint of a training"):
        if Path(path).is_dir():
            state = read_export(Path(path))
        else:
            state = checkpoint_utils.load_checkpoint_to_cpu(path)
        check_checkpoint(path, state)
        return {**state, "args": None}  # of old checkpoints, which fairseq reads instead of cfg


def load_model(path: str, overrides: dict | None = None, task=None, state: dict | None = None):
    """A trained model, the configuration that it was trained with, and its task.

    Args:
        overrides: other values of options, by name, such as ``data``.
        task: to be used instead of the task of the checkpoint.
        state: the result of :func:`read_checkpoint` for *path*, which is changed.

    Raises:
        OSError: a file is not there.
        ValueError: the checkpoint cannot be read, or does not fit its model or the data.
    """
    state, overrides = state or read_checkpoint(path), overrides or {}
    overwrite_args_by_name(state["cfg"], overrides)
    data = getattr(state["cfg"].task, "data", None)
    if data:
        check_regular(data)
    with naming(path, f"does not fit its model or {data}"), no_more_than(state["model"]):
        (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task(
            [path], overrides, task, state=state
        )
    return model, cfg, task


@contextmanager
def no_more_than(weights: dict[str, Tensor]) -> Iterator[None]:
    """Build no model that has far more parameters than a checkpoint has.

    A model may register a parameter again, or have a head that the checkpoint has not.

    Raises:
        ValueError: more are registered, as of a million layers.
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


def load_classifier(
    path: str, data: str | None = None, task=None, state: dict | None = None, **overrides
):
    """A trained classifier, and the task of its data set (default: the one of the training).

    For further arguments see :func:`load_model`.

    Raises:
        OSError: a file is not there.
        ValueError: *path* is not the checkpoint of a classifier of the data's classes.
    """
    state = state or read_checkpoint(path)
    # Loading may drop a head, and keeps nothing of the state of the task.
    heads, task_state = sizes_of_heads(state), state.get("task_state") or {}
    if not heads:
        raise ValueError(f"{path} is not the checkpoint of a classifier")
    if data is not None:
        overrides["data"] = data
    model, _, task = load_model(path, overrides, task, state)
    head = heads.get(getattr(task.cfg, "classification_head_name", ""))
    check_classes(path, task, head, task_state.get("classes"))
    return model, task


def sizes_of_heads(state: dict) -> dict[str, int]:
    """The number of classes of each classification head of a checkpoint."""
    return {
        name.split(".")[1]: len(weight)
        for name, weight in state["model"].items()
        if name.startswith("classification_heads.") and name.endswith(".out_proj.weight")
    }


def check_classes(path: str, task, size: int | None, classes: list[str] | None) -> None:
    """Check that a checkpoint was trained on the classes of the data.

    Args:
        size: number of classes of the checkpoint's head for the task; None if it has no such head.
        classes: their names, where the checkpoint has them.
    """
    if size is None or getattr(task.cfg, "regression_target", False):
        raise ValueError(f"{path} is not the checkpoint of a classifier")
    own = class_names(task.label_dictionary)
    data = getattr(task.cfg, "data", "the task")
    expected = min(getattr(task.cfg, "num_classes", len(own)), len(own))
    if size != expected:
        raise ValueError(
            f"{path} was trained on {size} classes, but {data} has {expected}: {', '.join(own)}"
        )
    if classes not in (None, own):
        raise ValueError(
            f"{path} was trained on the classes {', '.join(classes)}, but those of {data} are, in "
            f"order, {', '.join(own)}"
        )
