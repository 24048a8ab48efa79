"""Changes to checkpoints: read without running their code, and written completely or not at all."""

import ast
import logging
import operator
import re
import sys
import time
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from fairseq_odeformers.checkpoints.best import check_direction
from fairseq_odeformers.checkpoints.origin import check_origin, remember, trusts_all
from fairseq_odeformers.checkpoints.state import Damaged, read_state
from fairseq_odeformers.checkpoints.trust import check_interpolations
from fairseq_odeformers.errors import ExpressionError, InputError, explain, naming_faults
from fairseq_odeformers.files import replacing
from fairseq_odeformers.options import flag

from .ownership import error_if, is_ours, trains_ours
from .validation import restore_state
from .versions import SAFE_LOADER

logger = logging.getLogger(__name__)
LAST = "checkpoint_last.pt"  # fairseq's default of --restore-file, in --save-dir
ATTEMPTS, PAUSE = 3, 2.5  # fairseq's number of attempts to save, and the seconds between them


def load_checkpoint_to_cpu(original, path, *args, **kwargs):
    """Load with :func:`~fairseq_odeformers.checkpoints.state.read_state` instead of fairseq's code.

    A damaged file that fairseq can still read is an error only for models of this package;
    otherwise, it causes a warning.

    Raises:
        InputError: the checkpoint cannot be read.
    """
    if PathManager.path_requires_pathmanager(path):  # such a path is not a local file
        check_origin(path)
        return original(path, *args, **kwargs)
    try:
        return read_state(path, *args, **kwargs)
    except Damaged as fault:
        try:
            state = original(path, *args, **kwargs)
        except Exception:
            raise fault from None
        with error_if(trains_ours(state.get("cfg"))):
            raise fault
    return state


class SafeTorch:
    """A stand-in for torch in fairseq's ``checkpoint_utils`` that loads checkpoints safely."""

    def __getattr__(self, name):
        return getattr(torch, name)

    @staticmethod
    def load(file, *args, **kwargs):
        """Load a checkpoint with torch's safe loader, unless ``ODEFORMERS_TRUST=1``.

        Raises:
            InputError: see :func:`.check_interpolations`.
        """
        safe = SAFE_LOADER and not trusts_all()
        state = torch.load(file, *args, weights_only=safe, **kwargs)
        if isinstance(state, dict):
            check_interpolations(file.name, [state.get("cfg"), state.get("args")])
        return state


def replace_torch() -> None:
    """Make fairseq's ``checkpoint_utils`` use :class:`SafeTorch`."""
    vars(checkpoint_utils)["torch"] = SafeTorch()


def load_checkpoint(original, cfg, trainer, **kwargs):
    """Restore a training run as fairseq does, and explain why a checkpoint does not fit.

    Every run calls this function, even if it does not resume. For models of this package, it
    also sets whether the highest or the lowest value of ``--best-checkpoint-metric`` is the best.

    Raises:
        InputError: the checkpoint belongs to a different model, criterion or optimizer; the message
            names the difference. Or, if the model, the task or the criterion belongs to this
            package, the file of ``--restore-file`` does not exist and is not called
            ``checkpoint_last.pt``, as the first start of a requeued run may say; or
            ``--maximize-best-checkpoint-metric`` contradicts the metric.
    """
    ours = is_ours(*map(type, (trainer.get_model(), trainer.task, trainer.get_criterion())))
    if ours:
        metric, maximize = cfg.best_checkpoint_metric, cfg.maximize_best_checkpoint_metric
        try:
            cfg.maximize_best_checkpoint_metric = check_direction(metric, maximize or None)
        except ValueError as error:
            raise InputError(str(error)) from None
    restored = cfg.restore_file.replace(".pt", f"{trainer.checkpoint_suffix}.pt")
    if Path(cfg.restore_file).name != LAST and not PathManager.exists(restored):
        fault = (
            f"--restore-file {cfg.restore_file}: no such file; pass its path relative to the "
            f"current folder, such as {cfg.save_dir}/checkpoint_best.pt"
        )
        if ours:
            raise InputError(fault)
        logger.warning(fault)
    try:
        extra_state, epoch_itr = original(cfg, trainer, **kwargs)
    except Exception as error:
        check_schedule(cfg, trainer, error)
        if match := re.search(r"(Criterion|Optimizer) does not match; .*\. (\w+) vs", str(error)):
            option = f"--restore-file {restored}"
            if cfg.restore_file == LAST:
                option, restored = f"--save-dir {cfg.save_dir}", f"{cfg.save_dir}/{restored}"
            raise InputError(
                f"{option}: that training used the {match[1].lower()} {match[2]}. Use the same "
                "one or a new --save-dir; to start from its weights, pass "
                f"--finetune-from-model {restored}"
            ) from error
        if not (match := re.search("model parameters from checkpoint (.*); please", str(error))):
            raise
        if isinstance(error.__context__, ValueError):
            raise InputError(f"{match[1]} does not fit the model: {error.__context__}") from error
        saved = read_state(match[1])["cfg"].model
        differ = differing_options(saved, trainer.cfg.model)
        cause = str(error.__context__)
        reason = f"its training run had {differ}" if differ else cause.splitlines()[-1]
        raise InputError(
            f"{match[1]} does not fit the model: {reason.strip()}; use the same options, "
            "or start again with a new --save-dir"
        ) from error
    if getattr(checkpoint_utils.save_checkpoint, "best", None) is not None:  # fairseq restored it
        restore_state(extra_state)
    return extra_state, epoch_itr


def check_schedule(cfg, trainer, error: Exception) -> None:
    """Explain fairseq's error if the checkpoint belongs to a different learning rate schedule.

    Raises:
        InputError: the schedules differ.
    """
    path = Path(cfg.save_dir, cfg.restore_file) if cfg.restore_file == LAST else cfg.restore_file
    if not isinstance(error, (AttributeError, KeyError, TypeError)) or not Path(path).is_file():
        return
    saved = getattr(read_state(str(path))["cfg"], "lr_scheduler", None)
    name = getattr(saved, "_name", None)
    if name is not None and name != trainer.cfg.lr_scheduler._name:
        raise InputError(
            f"--lr-scheduler {trainer.cfg.lr_scheduler._name}: the training run of {path} used "
            f"{name}; use the same, pass --reset-lr-scheduler, or choose a new --save-dir"
        )


def differing_options(saved, current) -> str:
    """Return the saved options of a model that differ from the *current* ones, as typed."""
    saved, current = (vars(cfg) if isinstance(cfg, Namespace) else cfg for cfg in (saved, current))
    if saved.get("_name") != current.get("_name"):
        return f"--arch {saved.get('_name')}"
    differ = {name: saved[name] for name in saved if current.get(name) != saved[name]}
    return " ".join(f"{flag(name)} {value}" for name, value in differ.items())


def torch_persistent_save(original, obj, filename, async_write=False):
    """Save a checkpoint as fairseq does, except that the file appears complete or not at all.

    As in fairseq, there are :data:`ATTEMPTS`, but each begins a new file.

    Raises:
        InputError: the file cannot be written, for example because the disk is full.
    """
    if async_write or not PathManager.supports_rename(filename):
        return original(obj, filename, async_write)
    for _ in range(ATTEMPTS - 1):
        try:
            return save(obj, filename)
        except Exception as error:
            cause = explain(error.__cause__ or error)
            logger.warning(f"{filename} could not be saved, trying again ({cause})")
            time.sleep(PAUSE)
    save(obj, filename)


def save(obj, filename: str) -> None:
    """Make one attempt to save a checkpoint.

    Raises:
        InputError: the file cannot be written.
    """
    fault = (
        "cannot be saved; earlier checkpoints are intact, and the same command resumes from the "
        "last of them"
    )
    with replacing(Path(filename)) as temporary, naming_faults(filename, fault):
        with open(temporary, "wb") as file:
            torch.save(obj, file)
        remember(temporary)


def copy(original, src_path, dst_path, overwrite=False):
    """Copy a file as fairseq does, except that the copy appears complete or not at all."""
    if not overwrite or not PathManager.supports_rename(dst_path):
        return original(src_path, dst_path, overwrite)
    with replacing(Path(dst_path)) as temporary:
        return original(src_path, str(temporary), overwrite)


def power(base, exponent):
    """Compute a power whose size is bounded, since checkpoints contain such expressions.

    Raises:
        ValueError: the exponent or the result is too large.
    """
    with suppress(OverflowError):
        if abs(exponent) <= 64 and abs(result := base**exponent) <= 2**64:
            return result
    raise ValueError("a power is too large")


OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: power,
    ast.USub: operator.neg,
}


def evaluate(text: str):
    """Evaluate an expression of literals and arithmetic, such as ``[(2**9, 3)] * 20``.

    Raises:
        ExpressionError: *text* is any other expression, since it could run code from a checkpoint.
        TypeError: *text* is not a string. ``eval`` raises the same error, and fairseq relies on it.
    """
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is not a string")
    try:
        return value_of(ast.parse(text.lstrip(), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, TypeError) as error:
        raise ExpressionError(
            f"{text[:80]!r}: fairseq evaluates this option; give literals and arithmetic, such as "
            f"(0.9, 0.98) ({error.args[0]})"
        ) from None


def value_of(node: Any):
    """Evaluate a part of an expression for :func:`evaluate`."""
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](value_of(node.left), value_of(node.right))
    if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](value_of(node.operand))
    if isinstance(node, (ast.Tuple, ast.List)):
        return (tuple if isinstance(node, ast.Tuple) else list)(map(value_of, node.elts))
    if isinstance(node, ast.Dict):
        return dict(zip(map(value_of, node.keys), map(value_of, node.values)))
    return ast.literal_eval(node)


def replace_eval() -> None:
    """Make the modules of fairseq that are imported call :func:`evaluate` instead of ``eval``.

    These are all that it imports by itself, with the models, criterions and optimizers that it
    registers; its ``examples`` are not among them.
    """
    for name, module in [*sys.modules.items()]:
        if name.startswith("fairseq."):
            vars(module)["eval"] = evaluate
