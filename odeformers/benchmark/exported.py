"""Trained models and exported folders, for a measurement of generation."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fairseq_odeformers.checkpoints import Checkpoint
from fairseq_odeformers.inference import run

from . import models
from .models import Subject
from .timing import Step


class Product(nn.Module):
    """An exported folder in the place of a model."""

    def __init__(self, folder: Path, threads: int):
        super().__init__()
        self.product: Any = run.load(folder, threads)
        size = self.product.about["parameters"]
        self.weights = nn.Parameter(torch.empty(size, device="meta"))  # to be counted

    def generation_step(self, args: Namespace, length: int) -> Step:
        """Beam search over a batch of random tokens; the output is as long as the input."""
        about, draw = self.product.about, np.random.default_rng(0)
        if about["kind"] != "translation":
            raise ValueError(f"--models {self.product.folder}: give the folder of a translator")
        symbols = len(about.get("source_symbols", about["symbols"]))
        tokens = draw.integers(4, symbols, (args.batch, length))
        tokens[:, -1] = about["eos"]
        lengths = {"min_len": length, "max_len_b": length}
        return lambda: self.product.search(tokens.tolist(), args.beam, **lengths)


def build(name: str, args: Namespace) -> Subject:
    """An exported folder, a checkpoint, or an architecture (see :func:`.models.build`)."""
    path = Path(name)
    if Path(path, "model.json").is_file():
        return Subject(name, Product(path, args.threads), None, None)
    if path.is_file():
        checkpoint = Checkpoint.read(name)
        model, task, cfg = checkpoint.build()
        return Subject(name, model.to(args.device), cfg, task, checkpoint.kind)
    return models.build(name, args)
