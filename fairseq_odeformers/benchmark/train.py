"""One training step by fairseq's trainer: forward, criterion, backward, Adam."""

from fairseq.trainer import Trainer

from .subjects import Subject
from .timing import Step


def step(subject: Subject, args, length: int) -> Step:
    task = subject.task
    trainer = Trainer(subject.cfg, task, subject.model, task.build_criterion(subject.cfg.criterion))
    sample = subject.sample(args.batch, length)

    def run():
        with subject.attention():
            trainer.train_step([sample])

    return run
