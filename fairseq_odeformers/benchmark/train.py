"""One training step by fairseq's trainer: forward, criterion, backward, Adam."""

from fairseq.trainer import Trainer

from .subjects import Subject, task_of
from .timing import Step


def check(models: list[str]) -> None:
    """Raise a ValueError unless one task trains all models, so that their steps can be compared."""
    tasks = {task_of(name.partition(":")[0]): name for name in reversed(models)}
    if len(tasks) > 1:
        trained = ", ".join(f"{name} by {task}" for task, name in tasks.items())
        raise ValueError(f"--models: {trained}; measure them apart")


def step(subject: Subject, args, length: int) -> Step:
    task = subject.task
    trainer = Trainer(subject.cfg, task, subject.model, task.build_criterion(subject.cfg.criterion))
    sample = subject.sample(args.batch, length)

    def run():
        with subject.attention():
            trainer.train_step([sample])

    return run
