"""Writes a trained model as a folder that needs neither fairseq nor this package.

    odeformers export checkpoint_best.pt folder --to onnx

The folder has programs of torch or ONNX, ``model.json``, which tells what the model is and how text
becomes tokens, and ``run.py``, which uses both: the file of that name beside this one. A translator
has the programs ``encoder``, ``begin`` and ``step``; a language model ``begin``, ``step`` and
``score`` (see ``steps``); a classifier ``classify``.
"""

import copy
import io
import json
import logging
import shutil
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import utils
from fairseq.data.encoders.byte_utils import BYTE_TO_BCHAR, SPACE, SPACE_ESCAPE
from torch import Tensor
from torch._dynamo.exc import UserError

from fairseq_odeformers.checkpoints import Checkpoint, Trained
from fairseq_odeformers.data.classification import classes_of
from fairseq_odeformers.files import MADE_FROM, reason, replacing_folder, sha256, writing
from fairseq_odeformers.registry import Kind, family_of, kinds_of, paper_of
from fairseq_odeformers.text import detokenize
from fairseq_odeformers.text.moses import read_raw_pairs
from fairseq_odeformers.text.raw_text import (
    LONGEST_WORD,
    add_special_tokens,
    appends_eos,
    tokenize,
)
from fairseq_odeformers.text.word_pieces import load_tokenizer

from . import run
from .hub import advise, find_codes
from .program import Program, load_for_program, make_exportable
from .steps import ANY, Entry, Exported, make_steps, make_tokens
from .texts import allows_truncation

ENDINGS = {"torch": ".pt2", "onnx": ".onnx"}
NAMES = {  # kinds of models that can be exported
    Kind.TRANSLATION: "translation",
    Kind.LANGUAGE_MODEL: "language model",
    Kind.CLASSIFICATION: "classification",
}
COMPARED = ((1, 1), (1, 2), (3, 6))  # batch and length; torch may take sizes of 1 for constants
LARGEST_DIFFERENCE = 1e-4  # between log-probabilities, or probabilities of classes
PACKAGES = ("torch", "onnx", "fairseq-odeformers")


def write_deployment(path: str, folder: Path, form: str, data: str | None, overrides: dict) -> None:
    """Write a checkpoint to a new folder, if the programs compute what the model does.

    Args:
        form: ``torch`` or ``onnx``.
        data: folder with the dictionaries (default: the training's).
        overrides: new values of options of the training.

    Raises:
        ImportError: ``onnxscript`` or ``onnxruntime`` is missing.
        ValueError: the model is of another kind, or cannot be exported, or differs.
    """
    if form == "onnx":
        import_module("onnxscript")  # torch asks for it late, and onnxruntime runs the result
        import_module("onnxruntime")
    checkpoint = Checkpoint.read(path)
    kind = Kind.CLASSIFICATION if checkpoint.num_classes is not None else checkpoint.kind
    if kind not in NAMES or checkpoint.regression:
        known = ", ".join(NAMES.values())
        raise ValueError(f"{path}: --to {form} takes models for {known}{advise(checkpoint)}")
    trained = load_for_program(path, data, overrides)
    with replacing_folder(folder) as temporary:
        difference = write_folder(trained, checkpoint.arch, kind, form, temporary)
        if not difference <= LARGEST_DIFFERENCE:
            raise ValueError(
                f"{path}: the {form} programs differ from the model by {difference:.1e}, more than "
                f"{LARGEST_DIFFERENCE}; nothing was written"
            )


def write_folder(trained: Trained, arch: str, kind: Kind, form: str, folder: Path) -> float:
    """Fill an empty folder; returns the largest difference from what the model computes.

    Raises:
        ValueError: the model cannot be exported.
    """
    trained.model.float().eval()
    about = {**describe(trained, arch, kind), **describe_text(trained, kind)}
    functions = make_functions(trained.model, trained.task, kind)
    about |= write_programs(functions, folder, form)
    with writing(folder):
        write_files(about, folder)
    product = run.load(folder)
    return max(compare(trained.model, trained.task, product, *size) for size in COMPARED)


# --- programs ------------------------------------------------------------------------


def make_functions(model: Any, task, kind: Kind) -> dict[str, Exported]:
    """The functions that become programs, by name.

    Raises:
        ValueError: a part of the model depends on data in a way that no program can.
    """
    if kind is not Kind.CLASSIFICATION:
        return make_steps(make_exportable(copy.deepcopy(model)))
    program = Program(model, task)
    names = [f"tokens{tower}" for tower in range(program.towers)]
    texts = [make_tokens(model.encoder, 3, 5) for _ in names]
    dims = [("batch", f"length{tower}") for tower in range(program.towers)]
    return {"classify": Exported(program, texts, names, ["probabilities"], dims)}


def write_programs(functions: dict[str, Exported], folder: Path, form: str) -> dict[str, Any]:
    """Write a file per function; returns how a program is called, for ``model.json``."""
    programs = {}
    for name, function in functions.items():
        file = f"{name}{ENDINGS[form]}"
        try:
            content = to_onnx(function) if form == "onnx" else to_torch(function)
        except Exception as error:  # torch raises anything
            fault = f"torch cannot export the program {name}"
            raise ValueError(f"{fault} ({reason(first_cause(error))})") from error
        with writing(folder / file):
            (folder / file).write_bytes(content)
        programs[name] = {"file": file, "inputs": [*function.inputs]}
    about: dict[str, Any] = {"programs": programs}
    if "step" in functions:
        step: Any = functions["step"].module
        entries: list[Entry] = step.entries
        batch = [e.dims.index("batch") if "batch" in e.dims else None for e in entries]
        constant = [entry.constant for entry in entries]
        about["cache"] = [{"batch": b, "constant": c} for b, c in zip(batch, constant)]
    return about


def first_cause(error: BaseException) -> BaseException:
    """The error that led to an error of torch's exporters, which say less."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def export(function: Exported) -> torch.export.ExportedProgram:
    """The program of torch.

    Named dimensions stay variable, or torch refuses. Where it cannot prove that, it finds out
    itself which may vary; :func:`compare` then shows whether these suffice.
    """
    automatic: dict[str, Any] = defaultdict(lambda: torch.export.Dim.AUTO)
    names = {name for dims in function.dims for name in dims if name}
    if ANY not in names:
        named = {name: torch.export.Dim(name, min=1) for name in sorted(names)}
        try:
            return export_with(function, named)
        except UserError:
            pass
    return export_with(function, automatic)


def export_with(function: Exported, sizes: Mapping[str, Any]) -> torch.export.ExportedProgram:
    """See :func:`export`; *sizes* has what torch knows of each name of a dimension."""
    shapes = tuple({n: sizes[d] for n, d in enumerate(dims) if d} for dims in function.dims)
    with torch.no_grad(), quiet():
        return torch.export.export(
            function.module, tuple(function.arguments), dynamic_shapes=(shapes,), strict=False
        )


def to_torch(function: Exported) -> bytes:
    """The content of a ``.pt2`` file; no names of files of this machine are in it."""
    program = export(function)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
        node.meta.pop("nn_module_stack", None)
        node.meta.pop("source_fn_stack", None)
    content = io.BytesIO()  # torch aborts where it cannot write, as to a full disk
    torch.export.save(program, content)
    return content.getvalue()


def to_onnx(function: Exported) -> bytes:
    """The content of an ``.onnx`` file, without the names of files of this machine."""
    with quiet():
        program = torch.onnx.export(
            export(function),
            dynamo=True,
            verbose=False,
            input_names=[*function.inputs],
            output_names=[*function.outputs],
        )
    assert program is not None
    proto = program.model_proto
    graphs = [proto.graph, *proto.functions]
    for graph in graphs:
        for part in (graph, *graph.node):
            part.ClearField("metadata_props")
            part.ClearField("doc_string")
    for part in (*proto.graph.value_info, *proto.graph.initializer):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    return proto.SerializeToString(deterministic=True)


@contextmanager
def quiet() -> Iterator[None]:
    """Leave out what torch says to its developers."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


# --- description ---------------------------------------------------------------------


def describe(trained: Trained, arch: str, kind: Kind) -> dict[str, Any]:
    """The kind, origin, size and special tokens of a model."""
    model, task, cfg = trained
    words, options = task.source_dictionary, cfg.task
    about: dict[str, Any] = {
        "kind": NAMES[kind],
        "architecture": arch,
        "family": family_of(arch),
        "paper": paper_of(arch),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "versions": {name: found for name in PACKAGES if (found := find_version(name))},
        "pad": words.pad(),
        "unk": words.unk(),
        "bos": words.bos(),
        "eos": words.eos(),
        "symbols": task.target_dictionary.symbols if kind is Kind.TRANSLATION else words.symbols,
    }
    if kind is Kind.CLASSIFICATION:
        about |= {
            "classes": classes_of(task),
            "towers": getattr(task, "towers", 1),
            "separator": getattr(options, "separator_token", None),
            "start": add_special_tokens(task, [], False).tolist(),
            "end": [words.eos()] if appends_eos(task) else [],
            "longest": min(task.max_positions(), model.max_positions()),
            "truncates": hasattr(task, "towers") or allows_truncation(options),
        }
        return about
    positions: Any = utils.resolve_max_positions(task.max_positions(), model.max_positions())
    about["longest_target"] = model.max_decoder_positions()
    about["start"] = words.bos() if getattr(options, "add_bos_token", False) else words.eos()
    if kind is Kind.TRANSLATION:
        about["longest"] = positions[0]
        about["left_pad"] = bool(options.left_pad_source)
        if words.symbols != task.target_dictionary.symbols:
            about["source_symbols"] = words.symbols
    else:
        about["longest"] = positions
        each = options.sample_break_mode in ("eos", "complete", "complete_doc")
        about["block"] = 0 if each else options.tokens_per_sample
    return about


def describe_text(trained: Trained, kind: Kind) -> dict[str, Any]:
    """How text becomes symbols: ``text`` of ``model.json``.

    Raises:
        FileNotFoundError: a file of the data's preparation is missing.
    """
    _, task, cfg = trained
    options = cfg.task
    data = getattr(options, "data", None)
    text: dict[str, Any] = {}
    if kind is Kind.CLASSIFICATION:
        tokenize(task, "")  # names what is missing
        vocabulary, codes = Path(data or "", "vocab.txt"), Path(data or "", "code")
        if not data:
            text["characters"] = True
        elif vocabulary.exists():
            text["tokenizer"] = load_tokenizer(vocabulary).to_str()
        elif codes.exists():
            text |= {"bpe": codes.read_text(encoding="utf-8"), "longest_word": LONGEST_WORD}
        elif SPACE_ESCAPE in task.source_dictionary:
            table = (BYTE_TO_BCHAR[byte] for byte in range(256))
            text["bytes"] = [SPACE_ESCAPE if symbol == SPACE else symbol for symbol in table]
        elif getattr(options, "lra_task", "") == "listops" and "(" not in task.source_dictionary:
            text["dropped"] = ["(", ")"]
        return {"text": text}
    if codes := find_codes(data or "").get("bpe_codes"):
        text["bpe"] = Path(codes).read_text(encoding="utf-8")
    recipe = Path(data or "", MADE_FROM)
    if kind is Kind.TRANSLATION and recipe.exists():
        read_raw_pairs(str(data), options.source_lang, options.target_lang)  # names its faults
        preparation = json.loads(recipe.read_text(encoding="utf-8"))
        text["moses"] = {
            "source": options.source_lang,
            "target": options.target_lang,
            **{name: preparation[name] for name in ("aggressive_hyphens", "lowercase")},
        }
    return {"text": text}


def find_version(name: str) -> str | None:
    """The version of an installed package; None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


# --- files ---------------------------------------------------------------------------

USES = {  # lines of the README, by kind
    NAMES[Kind.TRANSLATION]: ("python run.py --beam 5 < text", 'model.translate(["..."], beam=5)'),
    NAMES[Kind.LANGUAGE_MODEL]: (
        "python run.py --sampling --topp 0.9 < text\npython run.py --score < text",
        'model.sample(["..."], sampling=True, topp=0.9)',
    ),
    NAMES[Kind.CLASSIFICATION]: ("python run.py < text", 'model.classify(["..."])'),
}
README = """# {architecture}

A {kind} model of {parameters:,} parameters: {paper}. {size:.1f} MB, {symbols:,} symbols.

```bash
pip install {packages}
{commands}
```

```python
from run import load

model = load()
{call}
```

`run.py` reads one text per line and prints one result per line; `python run.py --help` lists its
options. `model.json` describes the model and how its text is tokenised. The license of the data
that it was trained on is yours to check and to pass on.
"""


def write_files(about: dict[str, Any], folder: Path) -> None:
    """Write all but the programs."""
    shutil.copyfile(run.__file__, folder / "run.py")
    needs = {"moses": "sacremoses", "bpe": "subword-nmt", "tokenizer": "tokenizers"}
    files = [program["file"] for program in about["programs"].values()]
    packages = ["torch" if files[0].endswith(".pt2") else "onnxruntime", "numpy"]
    packages += [package for key, package in needs.items() if about["text"].get(key)]
    if about["text"].get("moses"):
        shutil.copyfile(detokenize.__file__, folder / "detokenize.py")
    about["sha256"] = {file: sha256(folder / file) for file in sorted(files)}
    text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
    (folder / "model.json").write_text(text, encoding="utf-8")
    commands, call = USES[about["kind"]]
    readme = README.format(
        **{**about, "symbols": len(about["symbols"])},
        size=sum((folder / file).stat().st_size for file in files) / 1e6,
        packages=" ".join(packages),
        commands=commands,
        call=call,
    )
    (folder / "README.md").write_text(readme, encoding="utf-8")


# --- comparison ----------------------------------------------------------------------


@torch.no_grad()
def compare(model: Any, task, product: run.Model, batch: int, length: int) -> float:
    """The largest difference between a model and its programs, for random texts.

    That of log-probabilities after each token, or of the probabilities of classes.

    Args:
        batch: number of texts; all but the first are shorter.
        length: tokens of the first, and of each translation or continuation.
    """
    about = product.about
    text = make_tokens(model.encoder if has_encoder(model) else model.decoder, 1, length)
    texts = [text[0, : about["longest"]].tolist(), *[text[0, length // 2 :].tolist()] * (batch - 1)]
    if about["kind"] == NAMES[Kind.CLASSIFICATION]:
        rows = [product.collate(texts)] * about["towers"]
        call: dict[str, Any] = {}
        for suffix, tokens in zip(("", "1"), rows):
            call[f"src_tokens{suffix}"] = torch.from_numpy(tokens)
            call[f"src_lengths{suffix}"] = torch.tensor([*map(len, texts)])
        head = task.cfg.classification_head_name
        out = model(**call, features_only=True, classification_head_name=head)[0]
        return largest(product.run("classify", *rows)[0], out.softmax(-1))
    inputs: dict[str, Any] = {}
    targets = make_tokens(model.decoder, batch, min(length, about["longest_target"]))
    tokens = torch.cat([torch.full_like(targets[:, :1], about["start"]), targets[:, :-1]], 1)
    if about["kind"] == NAMES[Kind.TRANSLATION]:
        rows = torch.from_numpy(product.collate(texts, about["left_pad"]))
        inputs["encoder_out"] = model.encoder(rows, torch.tensor([*map(len, texts)]))
    else:
        texts = [[about["eos"]]] * batch  # a language model continues it
    out = model.decoder(tokens, **inputs)
    expected = model.get_normalized_probs(out, log_probs=True, sample=None)
    decoder = run.Decoder(product, texts)
    found = [decoder.log_probs]
    for column in targets[:, :-1].T:
        decoder.step(column.numpy(), np.arange(batch))
        found.append(decoder.log_probs)
    difference = largest(np.stack(found, 1), expected)
    if "score" in about["programs"]:
        (scores,) = product.run("score", tokens.numpy(), targets.numpy())
        whole = expected.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        difference = max(difference, largest(scores, whole))
    return difference


def has_encoder(model: Any) -> bool:
    """Whether a model is no language model."""
    return Kind.LANGUAGE_MODEL not in kinds_of(type(model))


def largest(found: np.ndarray, expected: Tensor) -> float:
    """The largest difference, where a number is expected."""
    return float((torch.from_numpy(found) - expected)[expected.isfinite()].abs().max())
