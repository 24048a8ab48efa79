"""The measurements: what they time or count, for which models, and with which options."""

import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.trainer import Trainer
from torch.utils._pytree import tree_leaves

import fairseq_odeformers
from fairseq_odeformers.errors import InputError
from fairseq_odeformers.registry import Kind, kinds_of

from . import exported, memory, models, timing
from .arguments import BEAM, SIZES
from .models import Subject
from .timing import Step

STARTS = {"fairseq": [], "plugin": ["--user-dir", fairseq_odeformers.__path__[0]]}


def train_step(subject: Subject, args: Namespace, length: int) -> Step:
    """Make an update by fairseq's trainer: forward, criterion, backward, Adam."""
    task = subject.task
    trainer = Trainer(subject.cfg, task, subject.model, task.build_criterion(subject.cfg.criterion))
    sample = subject.make_batch(args.batch, length)
    return lambda: trainer.train_step([sample])


def inference_step(subject: Subject, args: Namespace, length: int) -> Step:
    """Make a step of the encoder over a batch, in evaluation mode and without gradients."""
    for name, parameter in subject.model.named_parameters():
        if name.endswith("residual_weight"):  # it starts at zero, and a layer would add zeros
            torch.nn.init.constant_(parameter, 0.3)
    inputs = subject.make_batch(args.batch, length)["net_input"]
    encoder = subject.convert(args.precision).encoder.eval()
    return torch.no_grad()(lambda: encoder(inputs["src_tokens"], inputs["src_lengths"]))


def generation_step(subject: Subject, args: Namespace, length: int) -> Step:
    """Make a step of beam search over a batch; outputs are as long as inputs."""
    return subject.generation_step(args, length)


def state_step(subject: Subject, args: Namespace, length: int) -> Step:
    """Make a step that counts the kB that generation caches for one text and its source.

    Both are of the same length.
    """
    model = subject.convert(args.precision).eval()
    inputs = subject.make_batch(1, length)["net_input"]

    @torch.no_grad()
    def step() -> float:
        tokens, state, source = inputs["src_tokens"], {}, {}
        if Kind.LANGUAGE_MODEL not in kinds_of(type(model)):
            source["encoder_out"] = model.encoder(tokens, inputs["src_lengths"])
        for end in range(1, length + 1):
            model.decoder(tokens[:, :end], incremental_state=state, **source)
        storages = (part.untyped_storage() for part in tree_leaves(state) if torch.is_tensor(part))
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values()) / 1e3

    return step


def build_command(name: str, args: Namespace) -> Subject:
    """Build ``fairseq-train --help``, without or with this package, in place of a model."""
    return Subject(name, torch.nn.Module(), None, None)


def startup_step(subject: Subject, args: Namespace, length: int) -> Step:
    line = [sys.executable, "-m", "fairseq_cli.train", "--help", *STARTS[subject.name]]
    return lambda: subprocess.run(line, check=True, capture_output=True)


@dataclass(frozen=True)
class Measurement:
    """A measurement of models, by the command ``odeformers benchmark NAME``.

    Attributes:
        help: what is measured.
        step: makes the step of a subject for a number of tokens per text.
        part: the submodule that a step runs; empty for the entire model.
        unit: ``ms`` if steps are timed; otherwise, the unit of the figure that a step returns.
        build: makes the subject of a name.
        names: the names that *build* accepts; None for any architecture.
        sizes: the options of ``SIZES`` that the command has in addition to ``--models``.
        defaults: defaults that differ from the usual ones, by option.
    """

    help: str
    step: Callable[[Subject, Namespace, int], Step]
    part: str = ""
    unit: str = "ms"
    build: Callable[[str, Namespace], Subject] = models.build
    names: tuple[str, ...] | None = None
    sizes: tuple[str, ...] = tuple(option for option in SIZES if option != BEAM)
    defaults: dict[str, Any] = field(default_factory=dict)

    def measure(self, args: Namespace, length: int) -> tuple[dict, dict]:
        """Measure a figure per model and round; also count the parameters that each model runs."""
        subjects = [self.build(name, args) for name in args.models]
        tasks = {type(subject.task).__name__: subject.name for subject in subjects}
        if self.step is train_step and len(tasks) > 1:
            trainers = ", ".join(f"{name} by {task}" for task, name in tasks.items())
            raise InputError(f"--models: {trainers}; measure them separately")
        steps = {subject.name: self.make_step(subject, args, length) for subject in subjects}
        if self.unit == "ms":
            figures = timing.measure(steps, args.rounds, vars(args).get("device", "cpu"))
        else:
            figures = {name: [step()] for name, step in steps.items()}
        return figures, {each.name: each.count_parameters(self.part) for each in subjects}

    def make_step(self, subject: Subject, args: Namespace, length: int) -> Step:
        """Make the step of a subject, which computes attention in the subject's form."""
        step = self.step(subject, args, length)

        def run():
            with subject.attention():
                return step()

        return run


MEASUREMENTS = {
    "train": Measurement("the time of an update by fairseq's trainer", train_step),
    "generate": Measurement(
        "the time of beam search by fairseq's generator or an exported folder",
        generation_step,
        build=exported.build,
        sizes=(*SIZES,),
    ),
    "encoder": Measurement(
        "the time of the encoder's forward and backward pass", memory.encoder_step, "encoder"
    ),
    "classify": Measurement(
        "the time of an update of a classifier",
        train_step,
        defaults={"--models": ["transformer_classifier_prenorm", "transject"], "--batch": 8},
    ),
    "infer": Measurement(
        "the time of the encoder's forward pass, without gradients",
        inference_step,
        "encoder",
        defaults={"--models": ["transformer_classifier", "transject"]},
    ),
    "memory": Measurement(
        "the peak memory of the encoder's forward and backward pass, in MB",
        memory.peak_step,
        "encoder",
        unit="MB",
    ),
    "state": Measurement(
        "the size of the cache per text in generation, in kB", state_step, unit="kB"
    ),
    "startup": Measurement(
        "the time that fairseq-train --help takes without and with this package",
        startup_step,
        build=build_command,
        names=(*STARTS,),
        sizes=(),
        defaults={"--models": [*STARTS]},
    ),
}
