"""Writes a small checkpoint, and what its model computes, for ``test_checkpoints.py``.

    python tests/make_checkpoints.py transevolve_fullff_1
    python tests/make_checkpoints.py transject.one_expert --encoder-experts 1

make ``transevolve_fullff_1.pt.gz`` and ``transject.one_expert.pt.gz`` in ``golden`` beside
this file. The name is an architecture, or one, a dot and what is special about it; the options are
those of ``fairseq-train``, and follow those of a small model. The file is a compressed checkpoint
of fairseq's trainer, with two more entries: ``call``, arguments of the model, and ``output``, the
tensor that it returns.

A file holds later commits to what the code computed when it was made. So it is never made again: a
name that exists is refused.
"""

import copy
import gzip
import os
import shutil
import sys
import tempfile
from dataclasses import fields
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from fairseq import options, tasks
from fairseq.data import Dictionary, indexed_dataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY
from fairseq.trainer import Trainer
from helpers import EOS, HEAD, PAD, model_config, task_of
from omegaconf import open_dict
from script_helpers import IN_MAIN_THREAD

import fairseq_odeformers

FOLDER = Path(__file__).resolve().parent / "golden"
PATHS = {path.name[: -len(".pt.gz")]: path for path in sorted(FOLDER.glob("*.pt.gz"))}
SIZES = {
    "embed_dim": 8,
    "ffn_embed_dim": 12,
    "attention_heads": 2,
    "layers": 2,
    "depth": 2,
    "steps": 2,
    "experts": 2,
}
TASKS = {
    "translation": "--source-lang de --target-lang en",
    "language_modeling": "--tokens-per-sample 16",
    "masked_lm": "--tokens-per-sample 16",
    "sentence_prediction": "--criterion sentence_prediction --num-classes 3",
    "long_range_arena": "--criterion sentence_prediction",
}
TRAINING = (
    "--lr 0.01 --batch-size 4 --required-batch-size-multiple 1 --max-update 3 "
    "--disable-validation --no-epoch-checkpoints --no-progress-bar"
).split()
MODELS = sorted(
    {
        model: arch
        for arch, model in sorted(ARCH_MODEL_REGISTRY.items(), reverse=True)
        if model.__module__.startswith(fairseq_odeformers.__name__ + ".")
    }.values()
)


def write_data(folder):
    """All that tasks read of a data set when they are set up: the symbols and the three classes.

    Of its three data sets ``words`` has 24 symbols, ``pairs`` the same and second texts, ``pixels``
    those of images.
    """
    for data, size in (("words", 20), ("pairs", 20), ("pixels", 256)):
        inputs = ["input0/dict.txt"] + ["input1/dict.txt"] * (data == "pairs")
        for name in ("dict.txt", "dict.de.txt", "dict.en.txt", *inputs):
            make_dictionary(size).save(str(folder / data / name))
        make_dictionary(3).save(str(folder / data / "label/dict.txt"))


def write_splits(folder, valid=4, **sizes):
    """Sentences and classes for these data sets, to train with on any task.

    Args:
        valid: sentences to validate with, which fairseq 0.12.2 reads even if it does not.
        sizes: sentences of each other split, such as ``train``.
    """
    sizes["valid"] = valid
    for data, symbols in (("words", 20), ("pairs", 20), ("pixels", 256)):
        for split, size in sizes.items():
            draw = np.random.RandomState(size)
            sentences = [draw.randint(4, 4 + symbols, draw.randint(2, 12)) for _ in range(size)]
            sources = [f"{split}.de-en.de", f"{split}.de-en.en", split, f"input0/{split}"]
            for name in sources + [f"input1/{split}"] * (data == "pairs"):
                write_rows(folder / data / name, [[*words, EOS] for words in sentences])
            write_rows(folder / data / f"label/{split}", [[4 + w[0] % 3, EOS] for w in sentences])


def write_rows(path, rows):
    builder = indexed_dataset.MMapIndexedDatasetBuilder(f"{path}.bin", dtype=np.uint16)
    for row in rows:
        builder.add_item(torch.tensor(row))
    builder.finalize(f"{path}.idx")


def make_dictionary(size):
    """A dictionary of the numbers below *size*."""
    dictionary = Dictionary()
    for number in range(size):
        dictionary.add_symbol(str(number))
    return dictionary


def command_line(arch, extra):
    """The options of ``fairseq-train`` for a small model."""
    task = extra[extra.index("--task") + 1] if "--task" in extra else task_of(arch)
    data = "pairs" if "retrieval" in extra else "pixels" if "--pixel-input" in extra else "words"
    known = {item.name for item in fields(MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[arch]])}
    line = [
        data,
        *"--cpu --optimizer adam --no-save-optimizer-state".split(),
        "--arch",
        arch,
        "--task",
        task,
    ]
    line += TASKS[task].split()
    for side in ("encoder", "decoder"):
        for name, size in SIZES.items():
            if f"{side}_{name}" in known:
                line += [f"--{side}-{name.replace('_', '-')}", str(size)]
    return line + extra


def training_line(arch, *extra):
    """The options of ``fairseq-train`` for updates of a small model without dropout.

    Of the data of :func:`write_data` and :func:`write_splits`.
    """
    line = command_line(arch, [])
    config = MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[arch]]
    for item in fields(config):
        if item.name.endswith("dropout"):
            line += [f"--{item.name.replace('_', '-')}", "0"]
    if "masked_lm" in line:
        line += ["--criterion", "masked_lm"]
    return [*line, *TRAINING, *IN_MAIN_THREAD, *map(str, extra)]


def parsed(line, get_parser=options.get_training_parser):
    """The configuration that ``fairseq-train`` makes of a command line, or another command."""
    args = options.parse_args_and_arch(get_parser(), line)
    return convert_namespace_to_omegaconf(args)


task_config = lru_cache(None)(parsed)  # takes a second


def training_config(arch, **parts):
    """The result of :func:`parsed` for :func:`training_line`, once for the models of a task.

    Args:
        parts: options to change, by the part of the configuration that they are in.
    """
    task = task_of(arch)
    first = next(model for model in MODELS if task_of(model) == task)
    config = copy.deepcopy(task_config(tuple(training_line(first))))
    with open_dict(config):
        config.model = model_config(arch, *training_line(arch)[1:], task=task)
    for part, values in parts.items():
        for name, value in values.items():
            config[part][name] = value
    return config


def make_call(cfg, model):
    """Arguments of the model for two texts; the second one is padded."""

    def tokens(length):
        sequences = torch.randint(4, 24, (2, length))
        sequences[:, -1] = EOS
        sequences[1, -3:] = torch.tensor([EOS, PAD, PAD])
        return sequences

    call = {"src_tokens": tokens(7), "src_lengths": torch.tensor([7, 5])}
    if task_of(cfg.model._name) == "translation":
        call["prev_output_tokens"] = tokens(6)
    if getattr(model, "classification_heads", None):
        call["classification_head_name"] = HEAD
        call["features_only"] = True
    if cfg.task.data == "pairs":
        call["src_tokens1"], call["src_lengths1"] = tokens(9), torch.tensor([9, 7])
    return call


@torch.no_grad()
def make(name, extra, path):
    """Write the checkpoint of a model whose parameters all differ from their initial values."""
    line = command_line(name.split(".")[0], extra)
    cfg = parsed(line)
    torch.manual_seed(1)
    task = tasks.setup_task(cfg.task)
    model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
    for parameter in model.parameters():
        changed = parameter + 0.1 * torch.randn_like(parameter)
        parameter.copy_(changed.bfloat16())  # half the bytes are zero, and compress
    Trainer(cfg, task, model, criterion).save_checkpoint(path, {"train_iterator": {"epoch": 1}})
    call = make_call(cfg, model)
    output = model.eval()(**call)[0]
    with gzip.open(f"{path}.gz", "wb") as file:
        torch.save({**torch.load(path), "call": call, "output": output}, file)


def main():
    name, *extra = sys.argv[1:] or sys.exit(__doc__)
    path = FOLDER / f"{name}.pt.gz"
    if path.exists():
        sys.exit(f"{path} exists; it comes from an earlier commit, and must not be made again")
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder))
        os.chdir(folder)  # keeps folders of this machine out of the checkpoint
        make(name, extra, "checkpoint.pt")
        FOLDER.mkdir(exist_ok=True)
        shutil.move("checkpoint.pt.gz", path)


if __name__ == "__main__":
    main()
