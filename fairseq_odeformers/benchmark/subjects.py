"""The models that are measured: any architecture that fairseq knows, at one size."""

from __future__ import annotations

import argparse
from argparse import Namespace
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, FairseqLanguageModel
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from fairseq.tasks.translation import TranslationTask
from torch.nn.attention import SDPBackend, sdpa_kernel

from fairseq_odeformers.data.classification import make_dictionary
from fairseq_odeformers.models.transevolve import naive
from fairseq_odeformers.models.transevolve.attention import TimeEvolvingAttention
from fairseq_odeformers.models.transevolve.spec import BACKENDS

TASKS = {
    "translation": "--criterion label_smoothed_cross_entropy --label-smoothing 0.1",
    "language_modeling": "--criterion cross_entropy --tokens-per-sample 100000",
    "sentence_prediction": "--criterion sequence_classification --num-classes 2",
}
NAIVE, MATRIX = "naive", "matrix"


class Subject(NamedTuple):
    """A model to be measured, with what fairseq needs to train it."""

    name: str
    model: torch.nn.Module
    cfg: Any
    task: Any

    def attention(self) -> AbstractContextManager:
        """Attention by a matrix of scores, if the name ends in ``:matrix``; else as it is."""
        matrix = self.name.endswith(f":{MATRIX}")
        return sdpa_kernel(SDPBackend.MATH) if matrix else nullcontext()

    def sample(self, batch: int, length: int) -> dict:
        """A batch of random sequences of one length, as the task makes batches of data."""
        device = next(self.model.parameters()).device
        words = self.task.source_dictionary
        tokens = torch.randint(words.nspecial, len(words), (batch, length), device=device)
        lengths = torch.full((batch,), length, device=device)
        inputs = {"src_tokens": tokens, "src_lengths": lengths}
        target = tokens
        if isinstance(self.task, SentencePredictionTask):
            target = torch.randint(2, (batch, 1), device=device)
        elif isinstance(self.task, TranslationTask):
            inputs["prev_output_tokens"] = tokens.roll(1, 1)
        return {
            "id": torch.arange(batch),
            "nsentences": batch,
            "ntokens": tokens.numel(),
            "net_input": inputs,
            "target": target,
        }


def task_of(arch: str) -> str:
    """The name of the task that trains an architecture."""
    model = ARCH_MODEL_REGISTRY[arch]
    if hasattr(model, "register_classification_head"):
        return "sentence_prediction"
    return "language_modeling" if issubclass(model, FairseqLanguageModel) else "translation"


def build(name: str, args: Namespace) -> Subject:
    """A model by its architecture; what follows a colon is a form of it.

    That is a backend of TransEvolve's attention or ``naive``, its paper's formula; a number of
    experts of TransJect; or ``matrix``, see :meth:`Subject.attention`.

    Raises:
        ValueError: there is no such architecture, or no such form of it; or its blocks cannot be of
            one depth.
    """
    arch, _, form = name.partition(":")
    if arch not in ARCH_MODEL_REGISTRY:
        raise ValueError(f"--models {name}: fairseq knows no architecture {arch}")
    cfg = _config(arch, form, args)
    words = make_dictionary(f"word{index}" for index in range(args.vocabulary))
    kind = task_of(arch)
    if kind == "translation":
        task = TranslationTask(cfg.task, words, words)
    elif kind == "language_modeling":
        task = LanguageModelingTask(cfg.task, words, words)
    else:
        task = SentencePredictionTask(cfg.task, words, make_dictionary(("0", "1")))
    torch.manual_seed(0)
    model = task.build_model(cfg.model)
    attentions = [part for part in model.modules() if isinstance(part, TimeEvolvingAttention)]
    experts = form.isdigit() and "transject" in arch
    if form and not experts and form != MATRIX and not (attentions and form in (NAIVE, *BACKENDS)):
        raise ValueError(f"--models {name}: {arch} has no form {form}")
    if form == NAIVE and kind == "translation" and args.what != "encoder":
        raise ValueError(f"--models {name}: the formula as it stands is for the encoder alone")
    for attention in attentions:
        if form == NAIVE:
            NaiveAttention.take_the_place_of(attention)
        elif form in BACKENDS:
            attention.backend = form
    return Subject(name, model.to(args.device), cfg, task)


def _config(arch, form, args):
    """What ``fairseq-train`` makes of the options of this size that the model has."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    ARCH_MODEL_REGISTRY[arch].add_args(parser)
    preset = Namespace()
    ARCH_CONFIG_REGISTRY[arch](preset)
    blocks = getattr(preset, "encoder_blocks", 2)
    halves = ARCH_MODEL_REGISTRY[arch].__name__.startswith("Macaron")  # two FFNs of half the width
    sizes = {"dropout": args.dropout, "attention-dropout": args.attention_dropout}
    sizes |= {"activation-dropout": 0.0, "max-positions": 100_000}
    for side, positions in (("encoder", "source"), ("decoder", "target")):
        sizes |= {
            f"{side}-embed-dim": args.embed_dim,
            f"{side}-ffn-embed-dim": args.ffn_embed_dim // (2 if halves else 1),
            f"{side}-attention-heads": args.heads,
            f"{side}-layers": args.layers,
            f"{side}-blocks": blocks,
            f"{side}-depth": args.layers // blocks,
            f"{side}-experts": form if form.isdigit() else 4,
            f"max-{positions}-positions": 100_000,
        }
    known = parser._option_string_actions
    if "--encoder-depth" in known and args.layers % blocks:
        raise ValueError(f"--layers {args.layers}: {arch} has {blocks} blocks; give a multiple")
    line = ["unused", "--arch", arch, "--task", task_of(arch), *TASKS[task_of(arch)].split()]
    line += f"--optimizer adam --lr 5e-4 --batch-size {args.batch}".split()
    if args.device == "cpu":
        line += ["--cpu", "--fp16-no-flatten-grads"]  # flat gradients ask for a GPU
    line += [] if args.precision == "float32" else [f"--{args.precision}"]
    for option, value in sizes.items():
        line += [f"--{option}", str(value)] if f"--{option}" in known else []
    if "--share-all-embeddings" in known:
        line.append("--share-all-embeddings")
    return convert_namespace_to_omegaconf(
        options.parse_args_and_arch(options.get_training_parser(), line)
    )


class NaiveAttention(TimeEvolvingAttention):
    """The paper's formula as it stands, of an encoder: A1, A2, A3, and a softmax at every depth."""

    @classmethod
    def take_the_place_of(cls, attention: TimeEvolvingAttention) -> None:
        """Turn an attention into one of these, with a matrix W~k."""
        attention.__class__ = cls
        attention.time_key = torch.nn.Parameter(attention.time_query.detach().clone())

    def forward(self, query, key, key_padding_mask=None):
        weights = self.q_proj.weight.T, self.k_proj.weight.T, self.time_query, self.time_key
        mask = None if key_padding_mask is None else key_padding_mask[:, None, None]
        return naive.initial_scores(query, key, *weights, self.num_heads), mask

    def evolve(self, scores, mask):
        time_map = self.time_map()
        return lambda depth, value: naive.attention(scores, time_map[depth], mask) @ value


def converted(model: torch.nn.Module, precision: str) -> torch.nn.Module:
    """A model in ``float32``, ``bf16`` or ``fp16``."""
    return {"float32": model.float, "bf16": model.bfloat16, "fp16": model.half}[precision]()
