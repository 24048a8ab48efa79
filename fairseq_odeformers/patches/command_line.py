"""Checks of fairseq's command line before training, and bfloat16 without a TPU."""

import os
import sys
from argparse import Namespace
from dataclasses import fields
from importlib.util import find_spec

from fairseq import utils
from fairseq.criterions import (
    CRITERION_DATACLASS_REGISTRY,
    CRITERION_REGISTRY,
    FairseqCriterion,
)
from fairseq.criterions.adaptive_loss import AdaptiveLoss
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY

from fairseq_odeformers.checkpoints.best import check_direction
from fairseq_odeformers.files import check_joined, check_path
from fairseq_odeformers.options import check_choice, validate
from fairseq_odeformers.registry import check_kind

from .ownership import any_ours, error_if

BERT = "bert_pretraining"  # name of a task and of a criterion


def check_head(task: str | None, criterion: str | None) -> None:
    """Refuse a criterion that does not train the classification head of a task.

    Raises:
        ValueError: the criterion does not fit the task; the message names the option, its value
            and the remedy.
    """
    head = "classification_head_name"
    table = "__dataclass_fields__"
    of_task = getattr(TASK_DATACLASS_REGISTRY.get(task), table, {})
    of_criterion = getattr(CRITERION_DATACLASS_REGISTRY.get(criterion), table, {})
    if head in of_task and of_criterion and head not in of_criterion:
        raise ValueError(
            f"--criterion {criterion}: it does not train the classification head of --task {task}; "
            "use --criterion sequence_classification, or sentence_prediction"
        )
    if BERT in (task, criterion) and criterion is not None and task != criterion:
        raise ValueError(
            f"--criterion {criterion}: it does not train --task {task}; --task {BERT} and "
            f"--criterion {BERT} belong together"
        )


def check_adaptive_softmax(cutoffs: str | list[int] | None, criterion: str | None) -> None:
    """Check that adaptive softmax and the criterion that computes its loss are used together.

    Args:
        cutoffs: the cutoffs, as typed or parsed.

    Raises:
        ValueError: one is used without the other; the message names the option, its value and the
            remedy.
    """
    loss = CRITERION_REGISTRY.get(criterion, FairseqCriterion)
    typed = ",".join(map(str, cutoffs)) if isinstance(cutoffs, list) else cutoffs
    if cutoffs and issubclass(loss, (CrossEntropyCriterion, LabelSmoothedCrossEntropyCriterion)):
        raise ValueError(
            f"--criterion {criterion}: it does not train --adaptive-softmax-cutoff {typed}; use "
            "--criterion adaptive_loss --ddp-backend legacy_ddp"
        )
    if issubclass(loss, AdaptiveLoss) and not cutoffs:
        raise ValueError(
            f"--criterion {criterion}: it needs --adaptive-softmax-cutoff, such as 2000,10000"
        )


def check_paths(args: Namespace, ours: bool) -> None:
    """Check that no path contains a colon, at which fairseq would divide it into several paths.

    Raises:
        ValueError: a path contains a colon, and one of its parts does not exist or the model is
            ours; the message names the path.
    """
    for name in ("data", "path"):
        joined = str(getattr(args, name, None) or "")
        with error_if(ours or not all(map(os.path.exists, utils.split_paths(joined)))):
            check_joined(joined)
    with error_if(ours):
        check_path(getattr(args, "save_dir", None) or "", "--save-dir")


def check_command_line(args: Namespace) -> None:
    """Check a parsed command line, and unset ``args.tpu`` if there is no TPU.

    The task must be able to train the model, and the criterion must train the model's head. For a
    model of this package, the options of any criterion must be within their bounds.
    ``--maximize-best-checkpoint-metric`` must suit the metric. fairseq treats ``--bf16`` as
    ``--tpu``; without torch_xla, or with ``--cpu`` and a model of this package, there is no TPU.
    """
    arch, task, criterion = (getattr(args, name, None) for name in ("arch", "task", "criterion"))
    ours = any_ours(arch, task, criterion)
    check_paths(args, ours)
    if arch is not None:
        with error_if(ours):
            check_kind(arch, str(task))
            check_head(task, criterion)
            check_adaptive_softmax(getattr(args, "adaptive_softmax_cutoff", None), criterion)
        criterion = CRITERION_DATACLASS_REGISTRY.get(criterion)
        if criterion and hasattr(ARCH_MODEL_REGISTRY[arch], "check_config"):
            # The options of the model are checked when it is built: they are not yet resolved.
            names = (item.name for item in fields(criterion))
            validate(Namespace(**{name: getattr(args, name, None) for name in names}), criterion)
    if metric := getattr(args, "best_checkpoint_metric", None):
        with error_if(ours):
            check_direction(metric, args.maximize_best_checkpoint_metric or None)
    cpu = ours and getattr(args, "cpu", False)
    if getattr(args, "bf16", False) and (cpu or not find_spec("torch_xla")):
        args.tpu = False


def parse_args_and_arch(original, parser, *args, **kwargs):
    """Parse as fairseq does, then check the result with :func:`check_command_line`.

    Raises:
        SystemExit: the command line lacks ``--task``, or a check fails. *parser* may raise a
            different error instead of the latter.
    """
    parser._check_value = check_choice.__get__(parser)
    try:
        parsed = original(parser, *args, **kwargs)
    except KeyError as error:
        if error.args != (None,):  # fairseq looked up a name other than the missing task
            raise
        sys.exit("error: --task is missing; pass the task of the training run")
    try:
        # With parse_known, the result is a tuple.
        check_command_line(parsed[0] if isinstance(parsed, tuple) else parsed)
    except ValueError as error:
        parser.error(str(error))
    return parsed
