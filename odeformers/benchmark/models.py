"""The models to measure: any architecture that fairseq knows, in one size."""

import argparse
from argparse import Namespace
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from torch.nn.attention import SDPBackend, sdpa_kernel

from fairseq_odeformers.errors import InputError, naming_faults
from fairseq_odeformers.inference.untrained import make_task
from fairseq_odeformers.options import hyphenate
from fairseq_odeformers.registry import (
    Kind,
    explain_unknown_architecture,
    find_architectures,
    kinds_of,
)
from odeformers import fairseq_options
from odeformers.processes import Options, parse_architecture, to_words
from odeformers.sizes import size_options

from .timing import Step

OPTIONS = {
    Kind.TRANSLATION: "--label-smoothing 0.1",
    Kind.LANGUAGE_MODEL: "--criterion cross_entropy --tokens-per-sample 100000",
    Kind.CLASSIFICATION: "--num-classes 2",
}
ATTENTION, MATRIX = "attention", "matrix"  # an option that any model has here, and its value


class Subject(NamedTuple):
    """A model of fairseq to measure, or a module in its place.

    A model comes with its configuration and task for training, its kind, and whether it computes
    attention by a matrix of scores.
    """

    name: str
    model: Any
    cfg: Any
    task: Any
    kind: Kind | None = None
    by_matrix: bool = False

    def count_parameters(self, part: str) -> int:
        """Count the parameters of the submodule *part*, or of the entire model if that is empty."""
        return sum(each.numel() for each in self.model.get_submodule(part).parameters())

    def attention(self) -> AbstractContextManager:
        """Return a context that makes torch compute attention in the subject's form."""
        return sdpa_kernel(SDPBackend.MATH) if self.by_matrix else nullcontext()

    def convert(self, precision: str) -> Any:
        """Convert the model to ``float32``, ``bf16`` or ``fp16``."""
        types = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
        return self.model.to(types[precision])

    def make_batch(self, batch: int, length: int) -> dict:
        """Make a batch of random texts of one length, in the form of the task's batches."""
        device = next(self.model.parameters()).device
        words = self.task.source_dictionary
        tokens = torch.randint(words.nspecial, len(words), (batch, length), device=device)
        lengths = torch.full((batch,), length, device=device)
        inputs = {"src_tokens": tokens, "src_lengths": lengths}
        target = tokens
        if self.kind is Kind.CLASSIFICATION:
            target = torch.randint(2, (batch, 1), device=device)
        elif self.kind is Kind.TRANSLATION:
            inputs["prev_output_tokens"] = tokens.roll(1, 1)
        return {
            "id": torch.arange(batch),
            "nsentences": batch,
            "ntokens": tokens.numel(),
            "net_input": inputs,
            "target": target,
        }

    def generation_step(self, args: Namespace, length: int) -> Step:
        """Make a step of fairseq's beam search over a batch; outputs are as long as inputs."""
        words, model = self.task.target_dictionary, self.convert(args.precision).eval()
        generator = SequenceGenerator(
            [model], words, beam_size=args.beam, max_len_a=0, max_len_b=length, min_len=length
        )
        inputs = self.make_batch(args.batch, length)["net_input"]
        inputs["src_tokens"][:, -1] = words.eos()
        return lambda: generator.generate([model], {"net_input": inputs})


def build(name: str, args: Namespace) -> Subject:
    """Build a model by the name of its architecture and its own options in brackets after it.

    One of these options may be :data:`ATTENTION`; see :meth:`Subject.attention`.
    """
    arch, own = parse_architecture(name)
    if arch not in ARCH_MODEL_REGISTRY:
        raise InputError(f"--models {explain_unknown_architecture(arch, find_architectures())}")
    kind = next((kind for kind in OPTIONS if kind in kinds_of(ARCH_MODEL_REGISTRY[arch])), None)
    if kind is None:
        raise InputError(
            f"--models {name}: {arch} has no task that can be measured; choose a translator, a "
            "language model or a classifier"
        )
    if (attention := own.pop(ATTENTION, None)) not in (None, MATRIX):
        raise InputError(f"--models {name}: --{ATTENTION} {attention}: use {MATRIX}")
    with naming_faults(f"--models {name}", "cannot be built"):
        cfg = make_config(arch, kind, own, args)
    task = make_task(kind, cfg.task, args.vocabulary)
    torch.manual_seed(0)
    model = task.build_model(cfg.model)
    return Subject(name, model.to(args.device), cfg, task, kind, bool(attention))


def make_config(arch: str, kind: Kind, own: Options, args: Namespace):
    """Make ``fairseq-train``'s configuration for the options of size that the model has.

    Args:
        own: additional options of the model.
    """
    parser = argparse.ArgumentParser(allow_abbrev=False)
    ARCH_MODEL_REGISTRY[arch].add_args(parser)
    declared = parser._option_string_actions
    if args.embed_dim % args.heads:
        raise InputError(f"--heads {args.heads}: give a divisor of --embed-dim {args.embed_dim}")
    values = {
        "dropout": args.dropout,
        "attention-dropout": args.attention_dropout,
        "activation-dropout": 0.0,
        **dict.fromkeys(("max-positions", "max-source-positions", "max-target-positions"), 100_000),
        **dict.fromkeys(("encoder-experts", "decoder-experts"), 4),
    }
    sizes = {
        "embed_dim": args.embed_dim,
        "ffn_embed_dim": args.ffn_embed_dim,
        "attention_heads": args.heads,
        "layers": args.layers,
    }
    values |= {hyphenate(name): size for name, size in size_options(arch, sizes).items()}
    line = OPTIONS[kind].split()
    line += f"--optimizer adam --lr 5e-4 --batch-size {args.batch}".split()
    if args.device == "cpu":
        line += ["--cpu", "--fp16-no-flatten-grads"]  # flat gradients ask for a GPU
    if args.precision != "float32":
        line.append(f"--{args.precision}")
    values |= {"share-all-embeddings": True}
    line += to_words({name: each for name, each in values.items() if f"--{name}" in declared} | own)
    return fairseq_options.make_config(fairseq_options.parse(kind, arch, *line))
