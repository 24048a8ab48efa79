"""Reading a checkpoint into the dictionary that fairseq calls its state."""

import dataclasses
import inspect
import os
import pickle
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fairseq
from fairseq import checkpoint_utils
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import OmegaConf, open_dict

from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import reading

from .origin import TRUST, check_origin
from .weights import CONFIG, read_export

# A patch (``patches.table``) makes fairseq's commands call read_state() instead of this function.
# read_state() itself calls the original; the replacement keeps it as ``__wrapped__``.
unpickle = inspect.unwrap(checkpoint_utils.load_checkpoint_to_cpu)


FAULT = "cannot be loaded; pass an intact checkpoint of fairseq-train"


class Damaged(InputError):
    """An error raised for a file that torch can unpickle, but that is not an intact checkpoint."""

    def __init__(self, path: str, reason: str):
        super().__init__(f"{path} {FAULT} ({reason})")


def read_state(
    path: str, arg_overrides: dict | None = None, load_on_all_ranks: bool = False
) -> dict[str, Any]:
    """Read a file saved by fairseq's trainer, or a folder written by ``odeformers export``.

    The function takes the arguments of fairseq's ``load_checkpoint_to_cpu`` and replaces it, so
    that fairseq's own commands read checkpoints with it as well. All other code uses
    :class:`.Checkpoint`. The function reads checkpoints of any model; :func:`.check_trust` decides
    whether a model may be built.

    Args:
        arg_overrides: new values of options, by name.
        load_on_all_ranks: whether all processes of a distributed training run load a file that
            fairseq downloads.

    Returns:
        A dictionary with the configuration ``cfg`` (fairseq converts the ``args`` of old
        checkpoints), the weights by name ``model``, ``task_state`` and, if the file is not an
        export, the state that a training run needs to resume.

    Raises:
        OSError: the file does not exist.
        Damaged: a checksum differs, or the configuration or the weights are missing.
        InputError: the file is not a checkpoint; or torch's safe loader,
            :func:`.check_interpolations` or, before torch 2.10, :func:`.check_origin` rejects it.
    """
    if not path:
        raise InputError("'' is not a checkpoint; pass a file")
    check_place(path)
    if not Path(path).is_dir():
        check_origin(path)
    with reading(path, FAULT):
        if Path(path).is_dir():
            state = read_export(Path(path))
            overwrite_args_by_name(state["cfg"], arg_overrides or {})
        else:
            with explaining_refusal(path):
                check_sums(path)
                state = unpickle(path, arg_overrides, load_on_all_ranks)
        if not {"model", "task"} <= set(state["cfg"]) or not isinstance(state["model"], dict):
            raise Damaged(path, "it has no model, or no configuration of a model and a task")
    if fairseq.__version__ == "0.12.2":
        drop_unknown_options(state)
    add_newer_options(state["cfg"].model)
    return state


def check_place(path: str) -> None:
    """Check that a path leads to a file, or to the folder of an export.

    Raises:
        FileNotFoundError: the path leads to neither, or names several checkpoints; the message
            lists the checkpoints nearby.
    """
    place, parts = Path(path), str(path).split(os.pathsep)
    if not place.exists() and len(parts) > 1 and all(Path(part).exists() for part in parts):
        raise FileNotFoundError(f"{path}: an ensemble; pass one of its checkpoints")
    if place.is_dir() and not (place / CONFIG).exists():
        fault, folder = "this folder was not written by odeformers export", place
    elif not place.exists():
        fault, folder = "there is no such checkpoint", place.parent
    else:
        return
    beside = ", ".join(sorted(str(file) for file in folder.glob("*.pt")))
    remedy = beside or "the path of a checkpoint, such as checkpoint_best.pt"
    raise FileNotFoundError(f"{path}: {fault}; pass {remedy}")


def check_sums(path: str) -> None:
    """Compare each part of a checkpoint with the CRC-32 that torch saved with it.

    Files of torch < 1.6 have no CRC-32. Each CRC-32 is 0 if torch was told not to compute any.

    Raises:
        Damaged: a CRC-32 differs.
        EOFError: the end of the file is missing.
        ValueError: the file is compressed, or was not saved by torch.
    """
    if not zipfile.is_zipfile(path):
        with open(path, "rb") as file:
            start = file.read(2)
        if start == b"PK":
            raise EOFError
        if start and start[:1] != pickle.PROTO:
            raise ValueError("torch did not save it")
    else:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
            if any(part.compress_type for part in parts):
                raise ValueError("it is compressed; decompress it, or copy the original")
            if any(part.CRC for part in parts) and (part := archive.testzip()):
                raise Damaged(path, f"the CRC-32 of {part} is not the one saved with it")


@contextmanager
def explaining_refusal(path: str) -> Iterator[None]:
    """Explain what torch's safe loader rejects in the file, or what fairseq does not find in it.

    torch's own error would advise the user to switch off its safe loader.

    Raises:
        InputError: the file contains code that the safe loader rejects.
        ValueError: the loader cannot read the file, the end of the file is missing, or
            fairseq-train did not write it.
    """
    try:
        yield
    except pickle.UnpicklingError as error:
        if name := re.search(r"GLOBAL (\S+)", str(error)):
            raise InputError(
                f"{path} is not loaded: it contains {name[1]}, which could run code; if you trust "
                f"the file, set {TRUST}=1, or pass {name[1]} to "
                "torch.serialization.add_safe_globals"
            ) from None
        raise ValueError("torch's safe loader cannot read it") from None
    except EOFError as error:
        raise ValueError("its end is missing") from error
    except (LookupError, TypeError, RuntimeError) as error:
        (key,) = error.args if isinstance(error, KeyError) else [None]
        fault = f"it has no {key!r}" if isinstance(key, str) else "it contains something else"
        raise ValueError(fault) from error


def drop_unknown_options(state: dict) -> None:
    """Remove from a checkpoint the options that the dataclass of its task does not have."""
    task = getattr(state.get("cfg"), "task", None)
    dataclass = TASK_DATACLASS_REGISTRY.get(getattr(task, "_name", None))
    if task is not None and dataclass is not None:
        names = {field.name for field in dataclasses.fields(dataclass)}
        with open_dict(task):
            for name in task.keys() - names:
                del task[name]


def add_newer_options(cfg: Any) -> None:
    """Add the options of this package that the model of an older checkpoint lacks.

    fairseq adds defaults if the name of the architecture has a config, as models and presets of
    :func:`.register_preset` have. An architecture that a plugin registers by fairseq's
    ``register_model_architecture`` has no config, but its model may have a newer option.
    """
    name = getattr(cfg, "_name", "")
    dataclass = MODEL_DATACLASS_REGISTRY.get(ARCH_MODEL_NAME_REGISTRY.get(name, ""))
    if name in MODEL_DATACLASS_REGISTRY or dataclass is None or not OmegaConf.is_config(cfg):
        return
    with open_dict(cfg):
        for field in dataclasses.fields(dataclass):
            if "bounds" in field.metadata and field.name not in cfg:  # declared by option()
                cfg[field.name] = field.default
