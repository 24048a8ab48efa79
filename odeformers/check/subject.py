"""Small models of any architecture, and random texts with and without padding."""

import copy
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from fairseq import utils
from fairseq.criterions import FairseqCriterion
from fairseq.data.data_utils import collate_tokens
from fairseq.models import BaseFairseqModel
from torch import Tensor, nn

from fairseq_odeformers.inference.untrained import make_parts, make_task
from fairseq_odeformers.options import flag
from fairseq_odeformers.registry import Kind, default_options
from odeformers.fairseq_options import parse
from odeformers.sizes import size_options

SIZES = {"embed_dim": 16, "ffn_embed_dim": 32, "attention_heads": 2, "layers": 2}
VOCABULARY_SIZE = 46
CLASSES = 3
NEEDED = {  # options that are needed to train a kind
    Kind.LANGUAGE_MODEL: ("--tokens-per-sample", "64"),
    Kind.CLASSIFICATION: ("--num-classes", str(CLASSES)),
}


class Subject:
    """An architecture in a small size, and inputs for it.

    Args:
        arch: name of any architecture registered with fairseq.
        words: options of ``fairseq-train``, such as sizes.
    """

    def __init__(self, arch: str, kind: Kind, *words: str):
        self.kind = kind
        line = [*NEEDED.get(kind, ())]
        for name, size in size_options(arch, SIZES).items():
            line += [flag(name), str(size)]
        if "share_all_embeddings" in default_options(arch):
            line.append("--share-all-embeddings")
        self.cfg = make_parts(parse(kind, arch, *line, *words))
        self.task = make_task(kind, self.cfg.task, VOCABULARY_SIZE)
        self.dictionary = self.task.source_dictionary or self.task.dictionary

    def build(self, seed: int = 0) -> BaseFairseqModel:
        """Build a model with parameters from a seed.

        Parameters that start at zero may switch off a branch, so they are drawn at random. Matrices
        that are initialised as small as in BERT, whatever their width, are scaled up to the usual
        size. Otherwise, the outputs of a narrow model would depend too little on its text.
        """
        np.random.seed(seed)
        utils.set_torch_seed(seed)
        model = self.task.build_model(copy.deepcopy(self.cfg.model))
        for parameter in model.parameters():
            usual = parameter[0].numel() ** -0.5 if parameter.dim() > 1 else 0.0
            if not parameter.any():
                nn.init.normal_(parameter, std=0.5)
            elif parameter.numel() > 1 and parameter.std() < usual / 2:
                parameter.data *= usual / parameter.std()
        return model

    @cached_property
    def model(self) -> BaseFairseqModel:
        """A model in evaluation mode, shared by all tests that do not change it, to save time.

        An earlier test uses its own models and ensures that batches do not change a model.
        """
        return self.build().eval()

    @cached_property
    def training(self) -> BaseFairseqModel:
        """A model in training mode, shared by all tests that read gradients without updating it."""
        return self.build()

    def criterion(self) -> FairseqCriterion:
        return self.task.build_criterion(self.cfg.criterion)

    # --- texts ---------------------------------------------------------------------------

    def texts(self, *lengths: int, seed: int = 1) -> list[Tensor]:
        """Draw random texts that end with the end of sentence."""
        draw = torch.Generator().manual_seed(seed)
        first, last = self.dictionary.nspecial, self.dictionary.nspecial + VOCABULARY_SIZE
        eos = torch.tensor([self.dictionary.eos()])
        return [
            torch.cat([torch.randint(first, last, (length - 1,), generator=draw), eos])
            for length in lengths
        ]

    def sample(self, sources: list[Tensor], targets: list[Tensor]) -> dict[str, Any]:
        """Make a batch as the task does, which may pad sources on the left."""
        source, target = self.collate(sources, left_pad=self.kind is Kind.TRANSLATION), None
        inputs = {"src_tokens": source, "src_lengths": source.ne(self.dictionary.pad()).sum(1)}
        if self.kind is Kind.TRANSLATION:
            target = self.collate(targets)
            inputs["prev_output_tokens"] = self.collate(targets, move_eos_to_beginning=True)
        elif self.kind is Kind.LANGUAGE_MODEL:
            target = source
            inputs["src_tokens"] = self.collate(sources, move_eos_to_beginning=True)
        elif self.kind is Kind.CLASSIFICATION:
            target = torch.tensor([[len(text) % CLASSES] for text in sources])
        else:
            target = source.clone()
            target[:, 1::2] = self.dictionary.pad()  # only some of the tokens are masked
        return {
            "id": torch.arange(len(sources)),
            "nsentences": len(sources),
            "ntokens": int(inputs["src_lengths"].sum()),
            "net_input": inputs,
            "target": target,
        }

    def collate(self, texts: list[Tensor], **how: bool) -> Tensor:
        """Collate texts to the rows of a matrix (B, T)."""
        return collate_tokens(texts, self.dictionary.pad(), self.dictionary.eos(), **how)

    def outputs(self, model: BaseFairseqModel, sample: Mapping[str, Any]) -> list[Tensor]:
        """Return the scores for each text, (T, V) or (classes), without scores at padding."""
        inputs = dict(sample["net_input"])
        if self.kind is Kind.CLASSIFICATION:
            head = getattr(self.cfg.criterion, "classification_head_name", None)
            inputs |= {"features_only": True, "classification_head_name": head}
        out = model(**inputs)[0]
        if self.kind is Kind.CLASSIFICATION:
            return list(out)
        tokens = inputs.get("prev_output_tokens", inputs["src_tokens"])
        return [row[text != self.dictionary.pad()] for row, text in zip(out, tokens)]

    def gradients(self, model: BaseFairseqModel, *samples: dict[str, Any]) -> dict[str, Tensor]:
        """Return the gradients of the batches' summed losses, by parameter name; zero if unused."""
        model.zero_grad()
        criterion = self.criterion().train(model.training)
        for sample in samples:
            loss, _, _ = criterion(model, sample)
            loss.backward()
        return {
            name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        }


class Decoding:
    """A decoder and, in a translator, the source that it attends to."""

    def __init__(self, subject: Subject, model: BaseFairseqModel, sources: list[Tensor]):
        self.model: Any = model  # has a decoder, and possibly an encoder
        self.state, self.inputs = {}, {}
        if subject.kind is Kind.TRANSLATION:
            sample = subject.sample(sources, sources)["net_input"]
            self.inputs["encoder_out"] = model.encoder(sample["src_tokens"], sample["src_lengths"])

    def step(self, tokens: Tensor) -> Tensor:
        """Return the scores (B, V) for the token after tokens (B, T), using earlier caches."""
        return self.model.decoder(tokens, incremental_state=self.state, **self.inputs)[0][:, -1]

    def full(self, tokens: Tensor) -> Tensor:
        """Return the scores (B, V) for the token after tokens (B, T), without caches."""
        return self.model.decoder(tokens, **self.inputs)[0][:, -1]

    def reorder(self, order: Tensor) -> None:
        """Choose and reorder texts, as fairseq's generator chooses beams."""
        self.model.decoder.reorder_incremental_state_scripting(self.state, order)
        if self.inputs:
            chosen = self.model.encoder.reorder_encoder_out(self.inputs["encoder_out"], order)
            self.inputs["encoder_out"] = chosen
