"""The content of a checkpoint, and building its model and its task."""

import copy
import os
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fairseq import checkpoint_utils, tasks, utils
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig
from omegaconf.errors import ValidationError
from torch import Tensor

from fairseq_odeformers.data.classification import class_names
from fairseq_odeformers.errors import InputError, did_you_mean, explain, naming_faults
from fairseq_odeformers.files import check_binarised, check_joined, check_regular
from fairseq_odeformers.registry import Kind

from .state import read_state
from .trust import ENCODERS, check_encoders, check_trust, limit_size, read_names
from .weights import write_export

# Loaders set these options for every model, even if its task has no data or its subwords no codes.
SET_ALWAYS = {"data", "bpe_codes"}


class Trained(NamedTuple):
    """A trained model, its task, and the configuration of the training run."""

    model: BaseFairseqModel
    task: FairseqTask
    cfg: DictConfig


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint or an export, without the state of a training run.

    Attributes:
        path: the file, or the folder of an export.
        cfg: the configuration of the training run.
        weights: the model's tensors by name.
        task_state: the saved state of the task, such as the names of its classes.
        score: ``metric`` and ``value`` of the validation; None if they are not saved.
    """

    path: str
    cfg: DictConfig
    weights: Mapping[str, Tensor]
    task_state: Any
    score: dict[str, Any] | None = None

    @classmethod
    def read(cls, path: str) -> "Checkpoint":
        """Read a checkpoint; for errors, see :func:`.read_state`."""
        state = read_state(path)
        task_state = state.get("task_state") or {}
        return cls(path, state["cfg"], state["model"], task_state, find_score(state))

    @property
    def arch(self) -> str:
        """The name of the architecture."""
        return read_names(self.cfg)[0]

    @property
    def kind(self) -> Kind | None:
        """The kind of model that its task trains; None if it is unknown."""
        return Kind.of_task(read_names(self.cfg)[1])

    @property
    def regression(self) -> bool:
        """Whether the model predicts numbers."""
        return bool(getattr(self.cfg.task, "regression_target", False))

    @property
    def num_classes(self) -> int | None:
        """The number of classes that the model was trained on; None if it is not a classifier."""
        if self.regression:
            return None
        head = getattr(self.cfg.task, "classification_head_name", None)
        weight = self.weights.get(f"classification_heads.{head}.out_proj.weight")
        return None if weight is None else len(weight)

    @property
    def classes(self) -> list[str] | None:
        """The names of the classes; None if they are not saved."""
        return self.task_state.get("classes")

    def export(self, folder: Path) -> None:
        """Write the checkpoint to a new folder; see :func:`.write_export`.

        Raises:
            InputError: the model may not be built, see :func:`.check_trust`.
        """
        check_trust(self.path, self.cfg, self.weights)
        write_export(self.weights, self.cfg, self.classes, folder)

    def build(
        self, data: str | os.PathLike | None = None, task: FairseqTask | None = None, **options: Any
    ) -> Trained:
        """Build the model and its task.

        fairseq sets up the task. The task builds the model and loads the weights. The model rejects
        dictionaries that it was not trained with (:class:`.DictionaryDigest`).

        Args:
            data: folder with the dictionaries (default: the data set of the training run).
            task: task to use instead of the checkpoint's, such as the task of the first model of an
                ensemble.
            options: new values of options of the training run, by name.

        Raises:
            OSError: a file does not exist.
            InputError: the model may not be built (see :func:`.check_trust`), lacks one of the
                options, or does not fit the weights, the data or their classes.
        """
        if data is not None:
            options["data"] = str(data)
        check_trust(self.path, self.cfg, self.weights)
        self._check_names(options)
        cfg = copy.deepcopy(self.cfg)
        for name in ENCODERS.keys() & cfg.keys() & options.keys():
            cfg[name] = None  # fairseq ignores an option that the config lacks
        overwrite_args_by_name(cfg, options)
        folder = getattr(cfg.task, "data", None)
        if folder and task is None:
            check_data(folder)
        with naming_faults(self.path, f"does not fit its model or {folder}"):
            state = {"cfg": cfg, "model": dict(self.weights), "task_state": self.task_state}
            with (
                limit_size(self.path, [*self.weights.values()]),
                naming_missing(self.path, folder),
                naming_option(options),
            ):
                task = task or tasks.setup_task(cfg.task, from_checkpoint=True)
                if self.num_classes is not None:
                    self._check_classes(task)  # before the model drops a head that does not fit
                (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task(
                    [self.path], task=task, state=state
                )
        return Trained(model, task, cfg)

    def _check_names(self, options: Mapping[str, Any]) -> None:
        """Check that the training run has options of these names, since fairseq ignores others.

        Raises:
            InputError: the training run has no option of one of the names.
        """
        parts = (vars(p) if isinstance(p, Namespace) else p for p in self.cfg.values())
        nested = (part for part in parts if isinstance(part, Mapping))
        names = {*self.cfg, *SET_ALWAYS}.union(*nested)
        for name in options:
            if name not in names:
                arch, task = read_names(self.cfg)
                otherwise = f"fairseq-train --task {task} --arch {arch} --help names them"
                remedy = did_you_mean(name, sorted(names), otherwise)
                raise InputError(f"{self.path} has no option {name}; {remedy}")

    def _check_classes(self, task: FairseqTask) -> None:
        """Check that the model was trained on the classes of the data.

        Raises:
            InputError: the data have different classes, or the same classes in a different order.
        """
        names = class_names(task.label_dictionary)
        data = getattr(task.cfg, "data", "the task")
        expected = min(getattr(task.cfg, "num_classes", len(names)), len(names))
        if self.num_classes != expected:
            raise InputError(
                f"{self.path} was trained on {self.num_classes} classes, but {data} has "
                f"{expected}: {', '.join(names)}; pass the data of its training run"
            )
        if self.classes not in (None, names):
            raise InputError(
                f"{self.path} was trained on the classes {', '.join(self.classes)}, but {data} "
                f"has, in order, {', '.join(names)}; pass the data of its training run"
            )


def find_score(state: dict[str, Any]) -> dict[str, Any] | None:
    """Return the metric and the value of a checkpoint's validation; None if they are not saved."""
    value = (state.get("extra_state") or {}).get("val_loss")  # fairseq's name for any metric
    if value is None:
        return None
    return {"metric": state["cfg"].checkpoint.best_checkpoint_metric, "value": value}


@contextmanager
def checking(paths: Sequence[str]) -> Iterator[None]:
    """Check the checkpoints of an ensemble before fairseq builds its models in the block.

    fairseq reads a file and builds its model in one call, so the files are read twice.

    Raises:
        InputError: see :func:`.check_trust`, :func:`.check_encoders` and :func:`.limit_size`.
    """
    weights: list[Tensor] = []
    for path in paths:
        checkpoint = Checkpoint.read(path)
        check_trust(path, checkpoint.cfg, checkpoint.weights)
        check_encoders(path, checkpoint.cfg)
        weights += checkpoint.weights.values()
    with limit_size(os.pathsep.join(paths), weights):
        weights.clear()
        yield


@contextmanager
def naming_option(options: Mapping[str, Any]) -> Iterator[None]:
    """Turn an error about the value of an option into one that names the option.

    Raises:
        InputError: the value is not of the option's type, or is not one of its choices.
    """
    try:
        yield
    except ValidationError as error:
        name = error.full_key or ""
        if name not in options:
            raise
        raise InputError(f"{name} {options[name]!r}: {explain(error)}") from error


@contextmanager
def naming_missing(path: str, data: str | None) -> Iterator[None]:
    """Name a missing file of the data, such as a dictionary, with its remedy.

    Args:
        path: the checkpoint.
        data: the folder, or several folders separated by colons; None for a task without data.

    Raises:
        FileNotFoundError: a file does not exist.
    """
    try:
        yield
    except FileNotFoundError as error:
        missing = Path(error.filename or "")
        if not any(Path(folder) in missing.parents for folder in utils.split_paths(data or "")):
            raise
        raise FileNotFoundError(
            f"{missing}: no such file; pass the data folder of the training run of {path}"
        ) from error


def check_data(data: str) -> None:
    """Check the data folders from which a task reads its dictionaries.

    Raises:
        FileNotFoundError: a folder does not exist.
        InputError: a folder does not contain binarised data.
    """
    check_regular(data)
    check_binarised(data)
    check_joined(data)
    for folder in utils.split_paths(data):
        if not os.path.isdir(folder):
            raise FileNotFoundError(
                f"data {folder}: no such folder; pass the one with the dictionaries, such as "
                "data-bin from odeformers prepare"
            )
