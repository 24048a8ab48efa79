"""Test whether a class belongs to this package; the added rules apply only to those."""

import logging
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

from fairseq_odeformers.checkpoints.trust import read_names

logger = logging.getLogger(__name__)
PACKAGE = __name__.partition(".")[0]


def is_ours(*classes: type | None) -> bool:
    """Return whether one of *classes* is from this package or derives from such a class."""
    bases = {base.__module__ for cls in classes if cls for base in cls.__mro__}
    return any(module.partition(".")[0] == PACKAGE for module in bases)


def any_ours(
    arch: str | None = None, task: str | None = None, criterion: str | None = None
) -> bool:
    """Return :func:`is_ours` for a registered architecture, task and criterion, by name."""
    registries = (ARCH_MODEL_REGISTRY, arch), (TASK_REGISTRY, task), (CRITERION_REGISTRY, criterion)
    return is_ours(*(registry.get(name) for registry, name in registries))


def trains_ours(cfg) -> bool:
    """Return :func:`is_ours` for the config of a run or a checkpoint; it may lack sections."""
    parts = [getattr(cfg, part, None) or Namespace() for part in ("model", "task", "criterion")]
    model, task, criterion = parts
    names = read_names(Namespace(model=model, task=task))
    return any_ours(*names, getattr(criterion, "_name", None))


@contextmanager
def error_if(ours: bool) -> Iterator[None]:
    """Turn a ValueError of the block into a warning unless *ours* is true.

    The block checks a rule that fairseq lacks: an error for our models, a warning for others.

    Raises:
        ValueError: the block raises it, and *ours* is true.
    """
    try:
        yield
    except ValueError as error:
        if ours:
            raise
        logger.warning(error)
