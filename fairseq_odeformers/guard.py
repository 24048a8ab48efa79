"""Makes fairseq say which checkpoint is damaged, and keep two trainings out of one folder.

Importing it is enough: every command of fairseq, and every loader here, reads checkpoints through
the functions that this wraps.
"""

from __future__ import annotations

import functools
import zipfile
from pathlib import Path

from fairseq import checkpoint_utils

from .files import lock

LOADING = "Error(s) in loading state_dict"
_locks = []  # of the folders that trainings of this process save to; released as it ends


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


def _naming_what_is_damaged(load):
    @functools.wraps(load)
    def load_checkpoint_to_cpu(path, *args, **kwargs):
        """fairseq's function.

        Raises:
            OSError: there is no such file.
            ValueError: it is not a checkpoint, or is damaged; the message names another one.
        """
        try:
            if Path(path).is_file():
                check_sums(path)
            state = load(path, *args, **kwargs)
            if not isinstance(state["model"], dict):
                raise ValueError("it has no weights")
            if state.get("args") is None and state.get("cfg") is None:
                raise ValueError("it has no options of a training")
        except Exception as error:  # bytes that are not pickled raise anything
            if isinstance(error, OSError) and error.filename is not None:
                raise
            reason = str(error).strip() or type(error).__name__
            raise ValueError(
                f"{path} is not a checkpoint, or is damaged ({reason}){_another(Path(path))}"
            ) from error
        return state

    return load_checkpoint_to_cpu


def _another(path: Path) -> str:
    """Words that offer the newest other checkpoint in the folder of *path*, if there is one."""
    others = [other for other in path.parent.glob("checkpoint*.pt") if other.name != path.name]
    if not others:
        return ""
    return f"; the newest other one is {max(others, key=lambda other: other.stat().st_mtime)}"


def _naming_what_does_not_fit(load):
    @functools.wraps(load)
    def load_model_ensemble_and_task(filenames, arg_overrides=None, *args, **kwargs):
        """fairseq's function; raises ValueError for weights that are missing or of other sizes."""
        try:
            return load(filenames, arg_overrides, *args, **kwargs)
        except RuntimeError as error:
            if LOADING not in str(error):
                raise
            names = ":".join(filenames)
            lines = [line.strip() for line in str(error).splitlines()[1:]]
            for line in lines:
                if "size mismatch" in line:
                    data = (arg_overrides or {}).get("data") or "its data"
                    raise ValueError(
                        f"{names} does not fit {data}, which has another dictionary than the "
                        f"training, or another number of classes ({line})"
                    ) from error
            raise ValueError(f"{names} has not the weights of its model: {lines[0]}") from error

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
                _locks.append(lock(Path(cfg.save_dir)))
            except BlockingIOError as error:
                raise ValueError(
                    f"--save-dir {cfg.save_dir}: another training saves there; wait for its end, "
                    "or choose another folder"
                ) from error
        return load(cfg, trainer, **kwargs)

    return load_checkpoint


for _name, _wrap in (
    ("load_checkpoint_to_cpu", _naming_what_is_damaged),
    ("load_model_ensemble_and_task", _naming_what_does_not_fit),
    ("load_checkpoint", _alone_in_its_folder),
):
    setattr(checkpoint_utils, _name, _wrap(getattr(checkpoint_utils, _name)))
