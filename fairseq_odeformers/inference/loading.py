"""Trained models with their tasks, and messages for what does not fit."""

from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

from fairseq import checkpoint_utils, utils
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY
from torch import Tensor

import fairseq_odeformers  # noqa: F401
from fairseq_odeformers.data.classification import class_names
from fairseq_odeformers.inference.weights import read_export

HEADS = "classification_heads."
# The modules of fairseq whose models and tasks do nothing but what their names say.
SAFE = {
    *("fairseq.models.transformer.transformer_legacy", "fairseq.models.transformer_lm"),
    *("fairseq.models.roberta.model", "fairseq.models.bart.model"),
    *("fairseq.tasks.translation", "fairseq.tasks.language_modeling"),
    *("fairseq.tasks.masked_lm", "fairseq.tasks.sentence_prediction"),
}


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
    """What fairseq's trainer saved, or ``odeformers export`` wrote.

    Raises:
        OSError: there is no such file.
        ValueError: it is not a checkpoint; its model or task is not registered, or of those of
            fairseq that are not known to be safe; or a weight is not finite.
    """
    if not path:
        raise ValueError("'' is not a checkpoint; give a file")
    if Path(path).is_dir():
        state = read_export(Path(path))
    else:
        state = checkpoint_utils.load_checkpoint_to_cpu(path)
    try:
        model, task, weights = state["cfg"].model, state["cfg"].task, dict(state["model"])
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a checkpoint of a training ({error})") from error
    # The names that fairseq looks up.
    arch = getattr(model, "_name", None) or getattr(model, "arch", None)
    legacy = getattr(task, "task", None)
    name = legacy if isinstance(legacy, str) else getattr(task, "_name", None)
    check_name(path, "architecture", str(arch), ARCH_MODEL_REGISTRY)
    check_name(path, "task", str(name), TASK_REGISTRY)
    check_finite(path, weights)
    return {**state, "args": None}  # of old checkpoints, which fairseq would read instead of cfg


def check_name(path: str, kind: str, name: str, registry: dict) -> None:
    """Check that the architecture or task of a checkpoint may be built.

    It may if this package or another plugin has registered it. Of fairseq's, some run programs, or
    load files or models that an option names; here are those that do not.

    Raises:
        ValueError: it may not.
    """
    if name not in registry:
        raise ValueError(
            f"{path} is of the {kind} {name}, which is not registered; give the folder "
            "that registers it with --user-dir (in Python: import it)"
        )
    module = registry[name].__module__
    if module.startswith("fairseq.") and module not in SAFE:
        raise ValueError(
            f"{path} is of the {kind} {name}, one of fairseq's that may run code of a checkpoint; "
            "use fairseq's own commands if you trust the file"
        )


def check_finite(path: str, weights: dict[str, Tensor]) -> None:
    """Check the weights of a checkpoint.

    Raises:
        ValueError: one is not finite; it names the first.
    """
    for name, tensor in weights.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ValueError(f"{path}: {name} is not finite; take an earlier checkpoint")


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
    try:
        (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task(
            [path], overrides, task, state=state
        )
    except (OSError, ImportError):
        raise
    except Exception as error:  # torch's for weights, omegaconf's for options, fairseq's for data
        first, *others = str(error).strip().split("\n")
        reason = others[0].strip() if "state_dict" in first and others else first
        raise ValueError(f"{path} does not fit its model or {data} ({reason})") from error
    return model, cfg, task


def load_classifier(
    path: str, data: str | None = None, task=None, state: dict | None = None, **overrides
):
    """A trained classifier, and the task of its data set.

    Args:
        data: data set, as given to fairseq-train (default: the one of the training).
        task, state, overrides: see :func:`load_model`.

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
    end = ".out_proj.weight"
    return {
        name[len(HEADS) : -len(end)]: len(weight)
        for name, weight in state["model"].items()
        if name.startswith(HEADS) and name.endswith(end)
    }


def check_classes(path: str, task, size: int | None, classes: list[str] | None) -> None:
    """Check that a checkpoint was trained on the classes of the data.

    Args:
        size: number of classes of the checkpoint's head for the task; None if it has no such head.
        classes: their names, where the checkpoint has them.

    Raises:
        ValueError: it was not, or it is not of a classifier.
    """
    if size is None or getattr(task.cfg, "regression_target", False):
        raise ValueError(f"{path} is not the checkpoint of a classifier")
    own = class_names(task.label_dictionary)
    data = getattr(task.cfg, "data", "the task")
    expected = getattr(task.cfg, "num_classes", len(own))
    if size != expected:
        raise ValueError(
            f"{path} was trained on {size} classes, but {data} has {expected}: {', '.join(own)}"
        )
    if classes not in (None, own):
        raise ValueError(
            f"{path} was trained on the classes {', '.join(classes)}, but those of {data} are, in "
            f"order, {', '.join(own)}"
        )
