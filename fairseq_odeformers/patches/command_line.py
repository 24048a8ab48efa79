"""Makes fairseq's command line refuse what cannot train, and train in bfloat16 without a TPU.

=================================  =================================================================
change                             why; until when
=================================  =================================================================
``parse_args_and_arch``            fairseq does not compare the task, the criterion and the model,
                                   and ends in a traceback while it trains. It takes ``--bf16`` for
                                   ``--tpu``, also where there is none. For a misspelt name it
                                   prints 200 others. Until fairseq checks both, and asks argparse
                                   to suggest names (from Python 3.14 on).
=================================  =================================================================
"""

from argparse import Action, ArgumentError, ArgumentParser, Namespace
from importlib.util import find_spec

from fairseq import options
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY

from fairseq_odeformers.options import did_you_mean

from .patch import patch


def check_head(arch: str, args: Namespace) -> None:
    """Refuse a command line whose model or criterion has not the head that the task trains.

    Raises:
        ValueError: it names the option, its value and the remedy.
    """
    head = "classification_head_name"
    task, criterion = getattr(args, "task", None), getattr(args, "criterion", None)
    if head not in getattr(TASK_DATACLASS_REGISTRY.get(task), "__dataclass_fields__", ()):
        return
    if not hasattr(ARCH_MODEL_REGISTRY[arch], "register_classification_head"):
        raise ValueError(
            f"--task {task}: {arch} is no classifier; odeformers list names classifiers"
        )
    known = CRITERION_DATACLASS_REGISTRY.get(criterion)
    if known is not None and head not in known.__dataclass_fields__:
        raise ValueError(
            f"--criterion {criterion}: --task {task} trains a classification head, of which this "
            "criterion knows nothing; use --criterion sequence_classification, or "
            "sentence_prediction"
        )


def check_command_line(args: Namespace) -> None:
    """Check a command line that fairseq has read by :func:`check_head`, and free it of a TPU.

    fairseq takes ``--bf16`` for ``--tpu``; with ``--cpu``, or without torch_xla, there is none.
    """
    if hasattr(args, "arch"):
        check_head(args.arch, args)
    if getattr(args, "bf16", False) and (getattr(args, "cpu", False) or not find_spec("torch_xla")):
        args.tpu = False


def check_value(parser: ArgumentParser, action: Action, value: str) -> None:
    """argparse's method, which asks whether a name like an unknown one is meant."""
    remedy = did_you_mean(value, action.choices or ()) if isinstance(value, str) else ""
    if remedy and value not in action.choices:
        raise ArgumentError(action, f"{value}: {remedy}")
    ArgumentParser._check_value(parser, action, value)


@patch(options)
def parse_args_and_arch(original, parser, *args, **kwargs):
    """fairseq's function, with :func:`check_command_line` of what it reads."""
    parser._check_value = check_value.__get__(parser)
    parsed = original(parser, *args, **kwargs)
    check_command_line(parsed[0] if isinstance(parsed, tuple) else parsed)  # parse_known
    return parsed
