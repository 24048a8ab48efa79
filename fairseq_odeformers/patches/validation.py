"""Changes to checkpoint selection: no NaN scores, a rule for ties, and patience that resumes."""

import logging
import math
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from fairseq import checkpoint_utils
from fairseq.criterions import sentence_prediction as criterion
from fairseq.logging import metrics
from fairseq.logging.meters import safe_round

from .ownership import is_ours

logger = logging.getLogger(__name__)
STATE = "selection"  # the entry of a checkpoint with the state of the selection
VALIDATION = "odeformers_validation"  # the attribute of a trainer with a validation's statistics
REPORT, CORRELATIONS = "report_pearson_and_spearman", "correlations"  # entries of logging outputs
LOSSES = ("nll_loss", "loss")  # the first of these that a validation has breaks ties


def sentence_prediction(original, self, model, *args, **kwargs):
    """Compute fairseq's loss; leave correlations of our models to :func:`log_correlations`."""
    loss, size, log = original(self, model, *args, **kwargs)
    if is_ours(*map(type, (model, self.task, self))) and log.pop(REPORT, False):
        log[CORRELATIONS] = True
    return loss, size, log


def log_correlations(original, logging_outputs: list[dict]) -> None:
    """Log what fairseq does, and correlations that are never NaN."""
    original(logging_outputs)
    if any(CORRELATIONS in log for log in logging_outputs):
        names = {"pearson_and_spearman": "corr", "pearson": "pearson", "spearman": "spearmanr"}
        for name, entry in names.items():
            metrics.log_derived(name, partial(correlation, entry))


def correlation(entry: str, meters) -> float:
    """Return a correlation in percent, or 0 if all predictions or all labels are equal.

    scikit-learn's ``matthews_corrcoef``, the correlation of classes, is also 0 in these cases.

    Args:
        entry: name in the result of fairseq's ``pearson_and_spearman``.
        meters: fairseq's meters with the predictions and labels of a validation.
    """
    predictions, labels = (meters[name].tensor.numpy() for name in ("pred", "targ"))
    if np.ptp(predictions) == 0 or np.ptp(labels) == 0:
        return 0.0
    return safe_round(100 * criterion.pearson_and_spearman(predictions, labels)[entry], 1)


def begin_valid_epoch(original, self, epoch):
    """Begin a validation, forgetting the statistics of the previous one."""
    setattr(self, VALIDATION, None)
    return original(self, epoch)


def valid_step(original, self, sample, *args, **kwargs):
    """Validate a batch and keep a reference to the statistics of the first validation set."""
    if getattr(self, VALIDATION, None) is None:
        setattr(self, VALIDATION, metrics.get_active_aggregators()[-1])
    return original(self, sample, *args, **kwargs)


def validation_loss(trainer) -> float:
    """Return the loss of the last validation without rounding; infinity if there was none."""
    validation = getattr(trainer, VALIDATION, None) or {}
    losses = (float(validation[name].avg) for name in LOSSES if name in validation)
    return next(losses, math.inf)


def save_checkpoint(original, cfg, trainer, epoch_itr, val_loss):
    """Save a checkpoint; among equal validation scores, prefer the one with the lower loss.

    For models of other packages, the last of equal scores is the best, as in fairseq. Each
    checkpoint that becomes the best is logged.
    """
    # fairseq keeps the best score as an attribute of its function.
    memory, loss = checkpoint_utils.save_checkpoint, validation_loss(trainer)
    best, tied = getattr(memory, "best", val_loss), False
    if val_loss is not None and val_loss == best and hasattr(memory, "best"):
        parts = trainer.get_model(), trainer.task, trainer.get_criterion()
        tied = is_ours(*map(type, parts)) and loss > getattr(memory, "best_loss", math.inf)
    better = max if cfg.maximize_best_checkpoint_metric else min
    is_best = val_loss is not None and not tied and better(val_loss, best) == val_loss
    if is_best:
        memory.best_loss = loss
    if tied:  # fairseq keeps checkpoint_best.pt if the score is below the best one
        memory.tied = best
        memory.best = math.nextafter(best, better(-math.inf, math.inf))
    saved = original(cfg, trainer, epoch_itr, val_loss)
    if tied:
        memory.best = vars(memory).pop("tied")
    if is_best and saved:
        logger.info(f"Best checkpoint @ {trainer.get_num_updates()} updates")
    return saved


def early_stop_functions() -> Iterator[Any]:
    """Yield the loaded copies of fairseq's ``should_stop_early``, which count the patience."""
    for name in ("fairseq_cli.train", "__main__"):
        if function := getattr(sys.modules.get(name), "should_stop_early", None):
            yield function


def save_state(original, self, filename, extra_state):
    """Save a checkpoint of the trainer with :data:`STATE` as an additional entry."""
    memory = checkpoint_utils.save_checkpoint
    state = {"best_loss": getattr(memory, "best_loss", math.inf)}
    for stop in early_stop_functions():
        state |= {name: value for name, value in vars(stop).items() if name in ("best", "num_runs")}
    extra_state = {**extra_state, STATE: state}
    if hasattr(memory, "tied"):
        extra_state["best"] = memory.tied
    return original(self, filename, extra_state)


def restore_state(extra_state: dict | None) -> None:
    """Restore :data:`STATE` from the checkpoint from which a training run resumes."""
    state = dict((extra_state or {}).get(STATE, {}))
    checkpoint_utils.save_checkpoint.best_loss = state.pop("best_loss", math.inf)
    for stop in early_stop_functions():
        vars(stop).update(state)
