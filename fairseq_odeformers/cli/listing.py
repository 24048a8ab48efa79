"""The architectures, tasks and criterions, and the options of each architecture.

``odeformers list`` and ``options`` print them from ``listing.json``, because fairseq and torch take
seconds to import. After a change of options, ``make listing`` writes it anew. With plugins of a
user's own, what these register is found by importing them.
"""

from __future__ import annotations

import itertools
import json
import os
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

PACKAGE = __package__.partition(".")[0]
FILE = Path(__file__).with_name("listing.json")

# By the folders of models.
PAPERS = {
    "macaron": "Macaron Net (Lu et al. 2019)",
    "transevolve": "TransEvolve (Dutta et al. 2021)",
    "transject": "TransJect (Sengupta et al. 2023)",
    "node_transformer": "N-ODE Transformer (Baier-Reinio and De Sterck 2020)",
    "baselines": "baselines",
}
OWN = "your own"  # in place of a paper, for what a plugin registers

# The tasks that train a model, in the order of the list.
TASKS = (
    "translation",
    "sentence_prediction, long_range_arena or parity",
    "language_modeling",
    "masked_lm or sentence_prediction",
)


def read(plugins: Sequence[str] = ()) -> dict[str, dict]:
    """The result of :func:`make` when the file was written.

    Args:
        plugins: folders given to ``--user-dir``; what they register is added.

    Raises:
        ValueError: a folder is not there.
    """
    if not plugins:
        return json.loads(FILE.read_text(encoding="utf-8"))
    from fairseq_odeformers.inference.loading import import_plugins

    import_plugins(plugins)
    return make([PACKAGE, *(os.path.basename(os.path.abspath(folder)) for folder in plugins)])


def write() -> None:
    """Write the file."""
    FILE.write_text(json.dumps(make(), indent=1) + "\n", encoding="utf-8")


def architectures(listing: dict) -> dict[str, tuple[str, dict[str, str]]]:
    """The model of each architecture, and the defaults in which a preset differs from it."""
    return {name: (name, {}) for name in listing["models"]} | listing["presets"]


def option_rows(listing: dict, arch: str) -> list[tuple[str, str, str]]:
    """The options of an architecture: names on the command line, default, and help."""
    model, own = architectures(listing)[arch]
    rows = (row.split("\t") for row in listing["models"][model]["options"])
    return [(name, own.get(name, default), text) for name, default, text in rows]


def groups(listing: dict) -> dict[str, dict[str, str]]:
    """A line for each name, by its task and its paper."""
    found = {}
    known = architectures(listing)
    for task, paper in itertools.product(TASKS, [*PAPERS.values(), OWN]):
        lines = {}
        for name, (model, own) in known.items():
            entry = listing["models"][model]
            if (entry["task"], entry["paper"]) == (task, paper):
                changes = (
                    key if value == "True" else f"{key} {value}" for key, value in own.items()
                )
                lines[name] = entry["about"] if name == model else " ".join([model, *changes])
        found[f"--arch, {paper}, for --task {task}"] = lines
    return {name: lines for name, lines in found.items() if lines} | {
        f"--{kind}": listing[kind] for kind in ("task", "criterion")
    }


def make(packages: Iterable[str] = (PACKAGE,)) -> dict[str, dict]:
    """The listing of what packages register.

    A preset has the options of its model, and its own defaults of some.
    """
    from fairseq.criterions import CRITERION_REGISTRY
    from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_REGISTRY
    from fairseq.tasks import TASK_REGISTRY

    from fairseq_odeformers.options import flag

    known = set(packages)

    def theirs(registry: dict[str, Any]) -> dict[str, Any]:
        entries = sorted(registry.items())
        return {name: own for name, own in entries if own.__module__.split(".")[0] in known}

    # A preset may be of a model of fairseq's, which is listed, too.
    archs = {name: ARCH_MODEL_REGISTRY[name] for name in theirs(ARCH_CONFIG_REGISTRY)}
    names_of = {cls: name for name, cls in sorted(MODEL_REGISTRY.items())}
    names = {cls: name for name, cls in theirs(MODEL_REGISTRY).items()}
    names |= {cls: names_of[cls] for cls in archs.values() if cls not in names}
    models = {
        name: {
            "task": trained_by(cls),
            "paper": paper(cls),
            "about": summary(cls),
            "options": ["\t".join(row) for row in registered_rows(name)],
        }
        for cls, name in names.items()
    }
    presets = {}
    for arch, cls in sorted({**theirs(ARCH_MODEL_REGISTRY), **archs}.items()):
        if arch not in models:
            args = Namespace()
            ARCH_CONFIG_REGISTRY[arch](args)
            given = {flag(name): str(value) for name, value in vars(args).items()}
            rows = [
                (name, default, given.get(name.split(",")[0], default))
                for name, default, _ in registered_rows(names[cls])
            ]
            presets[arch] = names[cls], {name: own for name, default, own in rows if own != default}
    return {
        "models": models,
        "presets": presets,
        "task": {name: summary(cls) for name, cls in theirs(TASK_REGISTRY).items()},
        "criterion": {name: summary(cls) for name, cls in theirs(CRITERION_REGISTRY).items()},
    }


def paper(model: type) -> str:
    """The paper that a model of this package is of; :data:`OWN` for others."""
    package, *folders = model.__module__.split(".")
    return PAPERS[folders[1]] if package == PACKAGE else OWN


def summary(cls: type) -> str:
    """The first line of a docstring, as plain text."""
    return (cls.__doc__ or cls.__name__).strip().splitlines()[0].replace("``", "").rstrip(".")


def trained_by(model: type) -> str:
    """The tasks that train a model."""
    from fairseq.models import FairseqEncoderDecoderModel, FairseqLanguageModel
    from fairseq.models.roberta import RobertaModel

    if issubclass(model, FairseqEncoderDecoderModel):
        return TASKS[0]
    if issubclass(model, FairseqLanguageModel):
        return TASKS[2]
    if issubclass(model, RobertaModel):
        return TASKS[3]
    return TASKS[1]


def registered_rows(arch: str) -> list[tuple[str, str, str]]:
    """The options of an architecture: names on the command line, default, and help.

    A default that is another option's value is that option's name.
    """
    from fairseq.models import MODEL_DATACLASS_REGISTRY
    from omegaconf import OmegaConf

    from fairseq_odeformers.options import flag

    config = MODEL_DATACLASS_REGISTRY.get(arch)
    if config is None:  # a plugin's model may be registered without
        return []
    defaults = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    rows = []
    for item in fields(config):
        text = item.metadata.get("help")
        if text is not None:
            alias = item.metadata.get("argparse_alias")
            name = ", ".join([flag(item.name), *([alias] if alias else [])])
            default = defaults[item.name]
            if isinstance(default, str) and default.startswith("${model."):
                default = flag(default[len("${model.") : -1])
            rows.append((name, "" if default is None else str(default), text))
    return rows
