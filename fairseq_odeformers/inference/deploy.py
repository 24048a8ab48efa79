"""Export of a trained model as a folder that needs neither fairseq nor this package.

    odeformers export checkpoint_best.pt folder --to onnx

The folder contains programs of torch or ONNX; ``model.json``, see ``description``; and ``run.py``,
which uses both and is a copy of the file next to this one. A translator consists of the programs
``encoder``, ``begin`` and ``step``, a language model of ``begin``, ``step`` and ``score`` (see
``steps``), and a classifier of ``classify``.
"""

import copy
import hashlib
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairseq_odeformers.checkpoints import Checkpoint, Trained
from fairseq_odeformers.errors import InputError, explain, naming_faults
from fairseq_odeformers.files import replacing_folder
from fairseq_odeformers.registry import Kind

from . import run
from .description import NAMES, describe, write_files
from .hub import advise
from .program import Program, content_of, load_for_program, make_exportable
from .steps import BATCHES, Function, make_steps, make_tokens

ENDINGS = {"torch": ".pt2", "onnx": ".onnx"}
# Batch sizes and lengths at which programs are tested; torch may mistake sizes of 1 for constants.
TEST_SIZES = ((1, 1), (1, 2), (3, 6))
MAX_DIFFERENCE = 1e-4  # between log-probabilities, or between probabilities of classes


def write_deployment(path: str, folder: Path, form: str, data: str | None, overrides: dict) -> None:
    """Write a checkpoint to a new folder, if its programs compute the same as its model.

    Args:
        form: ``torch`` or ``onnx``.
        data: folder with the dictionaries (default: the data set of the training run).
        overrides: new values of options of the training run.

    Raises:
        ImportError: ``onnxscript`` or ``onnxruntime`` is missing.
        InputError: the model is of a different kind or cannot be exported, or the programs
            compute different results.
    """
    if form == "onnx":
        import_module("onnxscript")  # torch.onnx.export would only import it at its end
        import_module("onnxruntime")
    checkpoint = Checkpoint.read(path)
    kind = Kind.CLASSIFICATION if checkpoint.num_classes is not None else checkpoint.kind
    if kind not in NAMES or checkpoint.regression:
        kinds = ", ".join(NAMES.values())
        raise InputError(f"{path}: --to {form} takes models for {kinds}{advise(checkpoint)}")
    trained = load_for_program(path, data, overrides)
    with replacing_folder(folder) as temporary:
        difference = write_folder(trained, checkpoint.arch, kind, form, temporary, checkpoint.score)
        if not difference <= MAX_DIFFERENCE:
            raise InputError(
                f"{path}: the {form} programs differ from the model by {difference:.1e}, more than "
                f"{MAX_DIFFERENCE}; nothing was written; odeformers check {checkpoint.arch} shows "
                "where"
            )


def write_folder(
    trained: Trained,
    arch: str,
    kind: Kind,
    form: str,
    folder: Path,
    score: dict[str, Any] | None = None,
) -> float:
    """Fill an empty folder, and return the largest difference between the model and its programs.

    Args:
        score: validation score of the checkpoint.

    Raises:
        ValueError: the model cannot be exported.
    """
    trained.model.float().eval()
    about = {**describe(trained, arch, kind), "score": score}
    functions = make_functions(trained.model, trained.task, kind)
    about["programs"] = {
        name: write_function(function, folder / f"{name}{ENDINGS[form]}")
        for name, function in functions.items()
    }
    with naming_faults(folder, "cannot be written"):
        write_files(about, folder)
    product = run.load(folder)
    return max(compare(trained.model, trained.task, product, *size) for size in TEST_SIZES)


# --- programs ------------------------------------------------------------------------


def make_functions(model: Any, task, kind: Kind) -> dict[str, Function]:
    """Make the functions that become programs, by name.

    Raises:
        ValueError: a part of the model depends on its data in a way that a program cannot express.
    """
    if kind is not Kind.CLASSIFICATION:
        return make_steps(make_exportable(copy.deepcopy(model)))
    program = Program(model, task)
    arguments, others = (
        {f"tokens{n}": make_tokens(model.encoder, *sizes) for n in range(program.towers)}
        for sizes in zip(BATCHES, (5, 7))
    )
    return {"classify": Function(program, arguments, others, ["probabilities"])}


def write_function(function: Function, path: Path) -> dict[str, Any]:
    """Write a function to a file, and return its entry in ``model.json``.

    Raises:
        ValueError: torch cannot export it.
    """
    onnx = path.suffix == ENDINGS["onnx"]
    try:
        content = to_onnx(function) if onnx else content_of(export(function))
    except Exception as error:  # torch may raise any exception
        cause: BaseException = error
        while cause.__cause__ is not None:  # the cause says more
            cause = cause.__cause__
        fault = f"torch cannot export the program {path.stem}"
        raise ValueError(f"{fault} ({explain(cause)})") from error
    with naming_faults(path, "cannot be written"):
        path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    return {"file": path.name, "sha256": digest, **function.describe()}


def export(function: Function) -> torch.export.ExportedProgram:
    """Export a function with torch; torch infers how the sizes that vary depend on each other."""
    shapes = tuple(
        {dim: torch.export.Dim.AUTO for dim, (size, other) in enumerate(sizes) if size != other}
        for sizes in function.sizes.values()
    )
    arguments = tuple(function.arguments.values())
    with torch.no_grad(), quiet():
        return torch.export.export(
            function.module, arguments, dynamic_shapes=(shapes,), strict=False
        )


def to_onnx(function: Function) -> bytes:
    """Return the content of an ``.onnx`` file, without the names of files on this machine."""
    names = [*function.arguments]
    with quiet():
        program = torch.onnx.export(
            export(function),
            dynamo=True,
            verbose=False,
            input_names=names,
            output_names=[f"next_{name}" if name in names else name for name in function.outputs],
        )
    assert program is not None
    proto = program.model_proto
    graph = proto.graph
    for part in (graph, *graph.node, *graph.value_info, *graph.initializer):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    return proto.SerializeToString(deterministic=True)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress torch's messages for its developers."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


# --- comparison ----------------------------------------------------------------------


@torch.no_grad()
def compare(model: Any, task, product: run.Model, batch: int, length: int) -> float:
    """Return the largest difference between a model and its programs for random texts.

    It compares the log-probabilities after each token, or the probabilities of classes.

    Args:
        batch: number of texts; all but the first are shorter.
        length: number of tokens of the first text, and of each translation or continuation.
    """
    about = product.about
    length = min(length, about["longest"])
    reader = model.decoder if about["kind"] == NAMES[Kind.LANGUAGE_MODEL] else model.encoder
    text = make_tokens(reader, 1, length)[0].tolist()
    texts = [text, *[text[length // 2 :]] * (batch - 1)]
    rows = product.collate(texts, about.get("left_pad", False))
    lengths = torch.tensor([*map(len, texts)])
    source = {"src_tokens": torch.from_numpy(rows), "src_lengths": lengths}
    if about["kind"] == NAMES[Kind.CLASSIFICATION]:
        inputs = {name: rows for name in about["programs"]["classify"]["inputs"]}
        if len(inputs) > 1:
            source |= {f"{name}1": tensor for name, tensor in source.items()}
        head = task.cfg.classification_head_name
        out, _ = model(**source, features_only=True, classification_head_name=head)
        return largest(product.run("classify", inputs)["probabilities"], out.softmax(-1))
    targets = make_tokens(model.decoder, batch, min(length, about["longest_target"]))
    tokens = torch.cat([torch.full_like(targets[:, :1], about["start"]), targets[:, :-1]], 1)
    encoded = {"encoder_out": model.encoder(**source)} if reader is not model.decoder else {}
    out = model.decoder(tokens, **encoded)
    expected = model.get_normalized_probs(out, log_probs=True, sample=None)
    decoder = run.Decoder(product, texts)
    computed = [decoder.log_probs]
    for column in targets[:, :-1].T:
        decoder.step(column.numpy(), np.arange(batch))
        computed.append(decoder.log_probs)
    difference = largest(np.stack(computed, 1), expected)
    if not encoded:
        scored = {"tokens": tokens.numpy(), "targets": targets.numpy()}
        whole = expected.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        difference = max(difference, largest(product.run("score", scored)["log_probs"], whole))
    return difference


def largest(computed: np.ndarray, expected: Tensor) -> float:
    """Return the largest difference where the expected value is finite."""
    return float((torch.from_numpy(computed) - expected)[expected.isfinite()].abs().max())
