"""Makes fairseq say which checkpoint is damaged, write only whole ones, and one training a folder.

Importing it is enough: every command of fairseq, and every loader here, reads checkpoints through
the functions that this wraps.
"""

from __future__ import annotations

import functools
import pickle
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.file_io import PathManager
from omegaconf.errors import OmegaConfBaseException

from fairseq_odeformers.files import lock, read_lines, replacing

LAST = "checkpoint_last.pt"  # fairseq's default of --restore-file: that of --save-dir
LOADING = "Error(s) in loading state_dict"
EMBEDDINGS = ("embed_tokens", "output_projection", "lm_head", "classification_heads")


def check_sums(path: str | Path) -> None:
    """Compare a checkpoint with the CRC-32 that torch has saved of each of its parts.

    torch itself does not. Files of torch < 1.6 have no checksums.

    Raises:
        ValueError: one differs.
        zipfile.BadZipFile: the file is damaged otherwise.
    """
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if part := archive.testzip():
                raise ValueError(f"the CRC-32 of {part} is not the one saved with it")


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Name the checkpoint that is being read if it cannot be.

    Raises:
        OSError: there is no such file.
        ValueError: it is not a checkpoint, is damaged or could run code; the message names another.
    """
    path = Path(path)
    try:
        if path.is_file():
            check_sums(path)
        yield
    except pickle.UnpicklingError as error:
        reason = "torch's safe loader cannot read it"
        if found := re.search(r"GLOBAL (\S+)", str(error)):
            reason = f"it holds {found[1]}, which could run code, and is not loaded"
        # Without torch's own message, which advises to load it nevertheless.
        raise ValueError(_damaged(path, reason)) from None
    except (ImportError, MemoryError, OmegaConfBaseException):
        raise
    except Exception as error:  # bytes that are not pickled raise anything
        if isinstance(error, OSError) and error.filename is not None:
            raise
        reason = str(error).strip() or type(error).__name__
        raise ValueError(_damaged(path, reason.splitlines()[0])) from error


def _damaged(path: Path, reason: str) -> str:
    """A message, which offers the newest other checkpoint in the folder that is whole."""
    message = f"{path} is not a checkpoint, or is damaged ({reason})"
    others = [other for other in path.parent.glob("checkpoint*.pt") if other.name != path.name]
    for other in sorted(others, key=lambda other: other.stat().st_mtime, reverse=True):
        with suppress(ValueError, OSError, zipfile.BadZipFile):
            check_sums(other)
            if zipfile.is_zipfile(other):
                return f"{message}; the newest other one is {other}"
    return message


def _naming_what_is_damaged(load):
    @functools.wraps(load)
    def load_checkpoint_to_cpu(path, *args, **kwargs):
        """fairseq's function, with the errors of :func:`reading`."""
        with reading(path):
            state = load(path, *args, **kwargs)
            weights, cfg = state["model"], state.get("cfg")
            if not isinstance(weights, dict) or not weights:
                raise ValueError("it has no weights")
            if not all(map(torch.is_tensor, weights.values())):
                raise ValueError("its weights are not all tensors")
            if cfg is None and state.get("args") is None:
                raise ValueError("it has no options of a training")
            if cfg is not None and not {"model", "task"}.issubset(cfg):
                raise ValueError("it has no options of a model and a task")
            if not isinstance(state.get("task_state", {}), dict):
                raise ValueError("it has no state of a task")
        return state

    return load_checkpoint_to_cpu


def _naming_what_does_not_fit(load):
    @functools.wraps(load)
    def load_model_ensemble_and_task(filenames, arg_overrides=None, *args, **kwargs):
        """fairseq's function.

        Raises:
            ValueError: weights are missing or of other sizes, or an option is none of fairseq's.
        """
        try:
            return load(filenames, arg_overrides, *args, **kwargs)
        except OmegaConfBaseException as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"{':'.join(filenames)} has bad options ({reason})") from error
        except RuntimeError as error:
            if LOADING not in str(error):
                raise
            names = ":".join(filenames)
            lines = [line.strip() for line in str(error).splitlines()[1:]]
            for line in lines:
                if "size mismatch" in line and any(name in line for name in EMBEDDINGS):
                    data = (arg_overrides or {}).get("data") or "its data"
                    raise ValueError(
                        f"{names} does not fit {data}, which has another dictionary than the "
                        f"training, or another number of classes ({line})"
                    ) from error
            raise ValueError(f"{names} does not fit its model: {lines[0]}") from error

    return load_model_ensemble_and_task


def _alone_in_its_folder(load):
    @functools.wraps(load)
    def load_checkpoint(cfg, trainer, **kwargs):
        """fairseq's function, with which a training starts.

        Raises:
            ValueError: another training saves to the same folder.
        """
        if not cfg.no_save and trainer.data_parallel_rank == 0:
            try:
                trainer.lock_of_save_dir = lock(Path(cfg.save_dir))  # until both are gone
            except BlockingIOError as error:
                raise ValueError(
                    f"--save-dir {cfg.save_dir}: another training saves there; wait for its end, "
                    "or choose another folder"
                ) from error
        return load(cfg, trainer, **kwargs)

    return load_checkpoint


def _from_a_file_that_is_there(load):
    @functools.wraps(load)
    def load_checkpoint(cfg, trainer, **kwargs):
        """fairseq's function, with which a training starts.

        Raises:
            ValueError: the checkpoint to begin with is not there, where fairseq would begin anew
                and save over what is.
        """
        restored = cfg.restore_file.replace(".pt", f"{trainer.checkpoint_suffix}.pt")
        if cfg.restore_file != LAST and not PathManager.exists(restored):
            raise ValueError(
                f"--restore-file {cfg.restore_file}: no such file; give its path from the current "
                f"folder, such as {cfg.save_dir}/checkpoint_best.pt"
            )
        return load(cfg, trainer, **kwargs)

    return load_checkpoint


def _naming_the_line(read):
    @functools.wraps(read)
    def add_from_file(self, f):
        """fairseq's function; raises ValueError for what is no dictionary, with file and line."""
        if not isinstance(f, str):
            return read(self, f)
        before = len(self)
        try:
            return read(self, f)
        except FileNotFoundError:
            raise
        except Exception as error:  # of several types, Exception itself among them
            for _ in read_lines(Path(f)):  # which names one that is not UTF-8
                pass
            number = len(self) - before + 1
            raise ValueError(f"{f}, line {number}: no dictionary of fairseq ({error})") from error

    return add_from_file


def _saying_what_is_not_saved(save):
    @functools.wraps(save)
    def torch_persistent_save(obj, filename, async_write=False):
        """fairseq's function; what it could not write whole, as on a full disk, is not left.

        Raises:
            OSError: that is so.
        """
        try:
            save(obj, filename, async_write)
        except (OSError, RuntimeError) as error:
            Path(f"{filename}.tmp").unlink(missing_ok=True)
            raise OSError(
                f"{filename} cannot be saved ({_cause(error)}); earlier checkpoints are whole, and "
                "the same command goes on from the last of them"
            ) from error

    return torch_persistent_save


def _cause(error: BaseException) -> BaseException:
    """What the system said; closing a file that is not whole, torch says something else."""
    while not isinstance(error, OSError) and error.__context__ is not None:
        error = error.__context__
    return error


def _copying_at_once(copy):
    @functools.wraps(copy)
    def whole_copy(src_path, dst_path, overwrite=False):
        """fairseq's function; the copy appears complete or not at all."""
        if not overwrite or not PathManager.supports_rename(dst_path):
            return copy(src_path, dst_path, overwrite)
        with replacing(Path(dst_path)) as temporary:
            return copy(src_path, str(temporary), overwrite)

    return whole_copy


for _name, _wrap in (
    ("load_checkpoint_to_cpu", _naming_what_is_damaged),
    ("load_model_ensemble_and_task", _naming_what_does_not_fit),
    ("load_checkpoint", _alone_in_its_folder),
    ("load_checkpoint", _from_a_file_that_is_there),
    ("torch_persistent_save", _saying_what_is_not_saved),
):
    setattr(checkpoint_utils, _name, _wrap(getattr(checkpoint_utils, _name)))
# Which repeats what fails, and appends it to what the failure has left.
checkpoint_utils._torch_persistent_save = torch.save
Dictionary.add_from_file = _naming_the_line(Dictionary.add_from_file)
PathManager.copy = staticmethod(_copying_at_once(PathManager.copy))
