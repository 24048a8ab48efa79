"""The architectures, tasks and criterions, and the options of each architecture.

``odeformers list`` and ``options`` print them from ``listing.json``, because fairseq and torch take
seconds to import. After a change of options, ``make listing`` writes it anew.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import fields
from pathlib import Path

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

# The tasks that train a model, in the order of the list.
TASKS = (
    "translation",
    "sentence_prediction, long_range_arena or parity",
    "language_modeling",
    "masked_lm or sentence_prediction",
)


def read() -> dict[str, dict]:
    """The result of :func:`make` when the file was written."""
    return json.loads(FILE.read_text(encoding="utf-8"))


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
    for task, paper in itertools.product(TASKS, PAPERS.values()):
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


def make() -> dict[str, dict]:
    """The listing of what the package registers.

    A preset has the options of its model, and its own defaults of some.
    """
    from fairseq.criterions import CRITERION_REGISTRY
    from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
    from fairseq.tasks import TASK_REGISTRY

    names = {cls: name for name, cls in ours(MODEL_REGISTRY).items()}
    models = {
        name: {
            "task": trained_by(cls),
            "paper": PAPERS[cls.__module__.split(".")[2]],
            "about": summary(cls),
            "options": ["\t".join(row) for row in registered_rows(name)],
        }
        for cls, name in names.items()
    }
    presets = {}
    for arch, cls in ours(ARCH_MODEL_REGISTRY).items():
        if arch not in models:
            rows = zip(registered_rows(arch), registered_rows(names[cls]))
            presets[arch] = names[cls], {own[0]: own[1] for own, base in rows if own != base}
    return {
        "models": models,
        "presets": presets,
        "task": {name: summary(cls) for name, cls in ours(TASK_REGISTRY).items()},
        "criterion": {name: summary(cls) for name, cls in ours(CRITERION_REGISTRY).items()},
    }


def ours(registry: dict[str, type]) -> dict[str, type]:
    """The classes that this package has registered, by name."""
    return {
        name: cls for name, cls in sorted(registry.items()) if cls.__module__.startswith(PACKAGE)
    }


def summary(cls: type) -> str:
    """The first line of a docstring, as plain text."""
    return (cls.__doc__ or "").splitlines()[0].replace("``", "").rstrip(".")


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

    config = MODEL_DATACLASS_REGISTRY[arch]
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
