"""Trained models and exported folders, for a measurement of generation."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fairseq_odeformers.checkpoints import Checkpoint
from fairseq_odeformers.errors import InputError
from fairseq_odeformers.inference import run

from . import models
from .models import Subject
from .timing import Step


class Product(nn.Module):
    """The model of an exported folder."""

    def __init__(self, folder: Path, threads: int):
        super().__init__()
        self.product: Any = run.load(folder, threads)
        size = self.product.about["parameters"]
        self.weights = nn.Parameter(torch.empty(size, device="meta"))  # only counted


class ExportedSubject(Subject):
    """An exported folder to measure."""

    def generation_step(self, args: Namespace, length: int) -> Step:
        """Make a step of beam search over a batch of random tokens by the folder's programs."""
        product, draw = self.model.product, np.random.default_rng(0)
        about = product.about
        if about["kind"] != "translation":
            raise InputError(f"--models {self.name}: pass the folder of a translator")
        if length > (most := min(about["longest"], about["longest_target"] - 1)):
            raise InputError(
                f"--lengths {length}: {self.name} takes at most {most} tokens; give smaller ones"
            )
        symbols = len(about.get("source_symbols", about["symbols"]))
        tokens = draw.integers(4, symbols, (args.batch, length))
        tokens[:, -1] = about["eos"]
        limits = [length] * args.batch
        return lambda: product.search(tokens.tolist(), limits, length, args.beam)


def build(name: str, args: Namespace) -> Subject:
    """Build an exported folder, a checkpoint, or an architecture (see :func:`.models.build`)."""
    path = Path(name)
    if Path(path, "model.json").is_file():
        return ExportedSubject(name, Product(path, args.threads), None, None)
    if path.is_file():
        checkpoint = Checkpoint.read(name)
        model, task, cfg = checkpoint.build()
        return Subject(name, model.to(args.device), cfg, task, checkpoint.kind)
    return models.build(name, args)
