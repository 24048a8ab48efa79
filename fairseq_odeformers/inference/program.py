"""Export of a trained classifier or encoder as a program that torch runs without fairseq.

    odeformers export checkpoint_best.pt model.pt2

The program needs neither fairseq nor this plugin. It accepts any number of texts of any length up
to the maximum length of the model:

    description = {"description.json": ""}
    program = torch.export.load("model.pt2", extra_files=description).module()
    program(torch.tensor([[0, 25, 7, 2], [0, 31, 2, 1]]))  # tokens (B, T); 1 is padding

A classifier returns the probabilities of its classes (B, K); any other model returns the states of
its encoder (B, T, C). The description says how to turn a text into tokens: ``vocabulary``, the
symbols in the order of their tokens; ``unknown``, the token of other symbols; ``padding``;
``start`` and ``end``, the tokens before and after a text; ``longest``, the maximum number of
tokens; ``texts``, 2 if pairs are classified and 1 otherwise. The description of a classifier also
contains ``classes``, the ``separator`` of two texts encoded as one and, if the data set consists
of word pieces, the ``tokenizer`` in the format of the library tokenizers.
"""

import copy
import io
import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.models import ARCH_MODEL_REGISTRY
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from fairseq_odeformers.checkpoints import Checkpoint, Trained
from fairseq_odeformers.data.classification import classes_of
from fairseq_odeformers.files import replacing
from fairseq_odeformers.models.common.answers import find_answer
from fairseq_odeformers.registry import Kind, kinds_of
from fairseq_odeformers.text.raw_text import add_special_tokens, appends_eos
from fairseq_odeformers.text.word_pieces import load_tokenizer

DESCRIPTION = "description.json"


def load_for_program(path: str, data: str | None, overrides: dict) -> Trained:
    """Load a model without the options that only training needs; see :meth:`.Checkpoint.build`."""
    checkpoint = Checkpoint.read(path)
    model = ARCH_MODEL_REGISTRY.get(getattr(checkpoint.cfg.model, "_name", None))
    training = getattr(model, "training_options", ("checkpoint_activations",))
    options = {name: False for name in training if name in checkpoint.cfg.model}
    return checkpoint.build(data, **{**options, **overrides})


def write_program(model: nn.Module, task, path: Path) -> None:
    """Write a model, in float32 and on the CPU, with the description of its task.

    Raises:
        ValueError: the model has no encoder, or takes adaptive steps that depend on the data.
    """
    if Kind.LANGUAGE_MODEL in kinds_of(type(model)):
        raise ValueError(
            f"{path}: a language model has no encoder and no classes for one program; name a "
            "folder, and give --to torch or --to onnx"
        )
    program = Program(model, task)
    tokens = torch.full((2, min(program.longest, 6)), task.source_dictionary.unk())
    tokens[1, -1] = task.source_dictionary.pad()
    # Clones, since torch would export one input for one tensor.
    texts = tuple(tokens.clone() for _ in range(program.towers))
    batch = torch.export.Dim("batch", min=1)
    lengths = [
        torch.export.Dim(f"length{n}", min=1, max=program.longest) for n, _ in enumerate(texts)
    ]
    sizes = tuple({0: batch, 1: length} for length in lengths)
    with torch.no_grad():
        exported = torch.export.export(program, texts, dynamic_shapes=(sizes,), strict=False)
    description = json.dumps(describe(task, program))
    with replacing(path) as temporary:
        temporary.write_bytes(content_of(exported, {DESCRIPTION: description}))


def content_of(program: torch.export.ExportedProgram, files: dict[str, str] | None = None) -> bytes:
    """Return the content of a ``.pt2`` file, without the names of files on this machine.

    Args:
        files: additional files in it, by name.
    """
    for node in program.graph.nodes:
        for name in ("stack_trace", "nn_module_stack", "source_fn_stack"):
            node.meta.pop(name, None)
    content = io.BytesIO()  # torch aborts the process if it cannot write, as on a full disk
    torch.export.save(program, content, extra_files=files)
    return content.getvalue()


class Program(nn.Module):
    """A copy of a model as a function of only tokens.

    Attributes:
        translates: whether the program is the encoder of a translator.
        towers: number of texts that are classified together.
        longest: maximum number of tokens of a text.
    """

    def __init__(self, model, task):
        super().__init__()
        heads = getattr(model, "classification_heads", {})
        name = getattr(task.cfg, "classification_head_name", None)
        self.head = name if name in heads else None
        self.towers = getattr(model, "towers", 1)
        self.padding = task.source_dictionary.pad()
        self.translates = Kind.TRANSLATION in kinds_of(type(model))
        model = copy.deepcopy(model.encoder if self.translates else model)
        self.longest = model.max_positions()
        self.model = make_exportable(model.cpu().float().eval())

    def forward(self, *tokens: Tensor) -> Tensor:
        """Map tokens (B, T) of each tower to probabilities (B, K) or states (B, T, C)."""
        call = {}
        for text, suffix in zip(tokens, ("", "1")):
            call[f"src_tokens{suffix}"] = text
            call[f"src_lengths{suffix}"] = text.ne(self.padding).sum(1)
        if self.head is not None:
            scores, _ = self.model(**call, classification_head_name=self.head)
            return F.softmax(scores, dim=-1)
        if self.translates:
            return self.model(**call)["encoder_out"][0].transpose(0, 1)
        return self.model(**call, features_only=True)[0]


def make_exportable(module: nn.Module) -> nn.Module:
    """Replace parts of a module with others that have the same results, and one path for all data.

    Raises:
        ValueError: a part has no such replacement.
    """
    if is_parametrized(module):
        fix_parametrizations(module)
    for name, child in module.named_children():
        setattr(module, name, make_exportable(child))
    answer = find_answer(module, "for_export")
    return answer() if answer else module


def fix_parametrizations(module: Any) -> None:
    """Turn the tensors that torch's parametrisations compute for a module into parameters.

    torch's ``remove_parametrizations`` would also change the original of a copied module.
    """
    with torch.no_grad():
        tensors = {name: getattr(module, name).clone() for name in module.parametrizations}
    module.__class__ = type(module).__bases__[0]
    del module.parametrizations
    for name, tensor in tensors.items():
        module.register_parameter(name, nn.Parameter(tensor))


def describe(task, program: Program) -> dict:
    """Describe how to turn a text into tokens, and what the program returns."""
    dictionary = task.source_dictionary
    classifies = program.head is not None
    description = {
        "output": "probabilities" if classifies else "states",
        "texts": program.towers,
        "longest": program.longest,
        "vocabulary": dictionary.symbols,
        "unknown": dictionary.unk(),
        "padding": dictionary.pad(),
    }
    if program.translates:  # the encoder of a translator
        return {**description, "start": [], "end": [dictionary.eos()]}
    start = add_special_tokens(task, [], False).tolist()
    description |= {"start": start, "end": [dictionary.eos()] if appends_eos(task) else []}
    if classifies:
        description["classes"] = classes_of(task)
        description["separator"] = getattr(task.cfg, "separator_token", None)
    vocabulary = Path(getattr(task.cfg, "data", ""), "vocab.txt")
    if vocabulary.is_file():
        description["tokenizer"] = load_tokenizer(vocabulary).to_str()
    return description
