"""The pages of the reference: the help of each command, all names, calls and docstrings."""

import contextlib
import importlib
import inspect
import io
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from enum import EnumMeta

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

from fairseq_odeformers.options import bounds_of, flag
from fairseq_odeformers.registry import kinds_of, paper_of, paper_order
from odeformers import user_dir
from odeformers.__main__ import main
from odeformers.list import KINDS
from odeformers.options import (
    OptionRow,
    architectures,
    help_with_bounds,
    model_name,
    show_default,
    split_rows,
)

FIRST, UNLIKE = "odeformers benchmark train", "odeformers benchmark startup"
NO_HELP = ("hydra-train",)  # Hydra prints all options of fairseq
# The baselines of each kind, whose options most families have.
PLAIN = ("transformer_prenorm", "transformer_classifier", "transformer_lm_prenorm")
# Tables of names from modules of the plugin.
TABLES = {
    "stacks": {
        "models.common.transformer": "Encoder Decoder BlockEncoder BlockDecoder Spec",
        "models.common.depths": "join_layers EncoderOfDepths DecoderOfDepths",
    },
    "layers": {
        "modules.transformer_layer": "EncoderLayer DecoderLayer RepeatedDecoderLayer Block",
        "modules.layer_history": "LayerHistory",
        "modules.incremental": "Incremental",
        "modules.attention": "split_heads attention_map",
        "modules.orthogonal": "OrthogonalMatrices OrthonormalEmbedding",
        "modules.classification_head": "ClassificationHead",
    },
    "solvers": {
        "models.node_transformer.block": "NodeBlock",
        "models.node_transformer.solver": "FixedGrid Adaptive",
        "models.node_transformer.layout": "TimeDependentLinear Affine",
    },
    "runge-kutta": {
        "models.common.runge_kutta": "RungeKuttaLayer RungeKuttaStack hand_over",
        "modules.tableaus": "Tableau",
        "modules.coefficients": "make_coefficients weighted_sum",
    },
    "declarations": {
        "options": "option Bounds",
        "registry": "Family Kind register_preset find_architectures import_plugins",
        "models.common.dial": "Dial",
        "models.common.model": "BaseModel",
    },
}
# Base classes of models and of their options.
MODELS = (
    ("prenorm_transformer", "PreNormTransformer", "PreNormTransformerConfig"),
    ("transformer_classifier", "TransformerClassifier", "TransformerClassifierConfig"),
    ("language_model", "LanguageModel", "LanguageModelConfig"),
    ("translation", "TranslationModel", "TranslationConfig"),
    ("sequence_classifier", "SequenceClassifier", "SequenceClassifierConfig"),
    ("language_model", "DecoderOnlyModel", "DecoderOnlyConfig"),
)

REGISTRIES: dict[str, Mapping[str, type]] = {
    "--task": TASK_REGISTRY,
    "--criterion": CRITERION_REGISTRY,
}


def printed(*words: str) -> str:
    """What a command prints on 100 columns, without the path of this installation."""
    text = io.StringIO()
    os.environ["COLUMNS"] = "100"
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main(words)
    return re.sub(rf"\s+{re.escape(str(user_dir()))}", " fairseq_odeformers", text.getvalue())


def helps(*names: str) -> Iterator[tuple[str, str]]:
    """A command and its help, then the same for its commands."""
    text = printed(*names, "--help")
    yield " ".join(["odeformers", *names]), text
    for name in re.findall(r"^    ([a-z][\w-]*)\s", commands_of(text), re.M):
        if name not in NO_HELP:
            yield from helps(*names, name)


def commands_of(text: str) -> str:
    """The lines of a help between the name that stands for a command and the options."""
    found = re.search(r"^positional arguments:\n  [A-Z]+\n(.*?)^\S", text, re.M | re.S)
    return found[1] if found else ""


def commands() -> str:
    """An index, and the help of each command; options of the first benchmark come only once."""
    found = dict(helps())
    sections = [index(found)]
    for name, text in found.items():
        similar = name.startswith("odeformers benchmark ") and name not in (FIRST, UNLIKE)
        section = own_part(text, found[FIRST]) if similar else fence(text)
        sections.append(f"## `{name}`\n\n{section}")
    return "\n\n" + "\n\n".join(sections) + "\n\n"


def index(found: Mapping[str, str]) -> str:
    """A table of the commands, with links to their help."""
    meanings = {}
    for group, text in found.items():
        for line in re.split(r"^    (?=[a-z])", commands_of(text), flags=re.M)[1:]:
            name, meaning = re.sub(r"-\n +", "-", line).split(None, 1)
            words = re.sub(r"(?<!\S)--[\w-]+", r"`\g<0>`", " ".join(meaning.split()).rstrip("."))
            meanings[f"{group} {name}"] = words[0].upper() + words[1:]
    commands = [name for name in found if name in meanings]
    rows = ([f"[`{name}`](#{name.replace(' ', '-')})", meanings[name]] for name in commands)
    return table(["command", "what it does"], "ll", rows).strip()


def own_part(text: str, first: str) -> str:
    """What a help says, with only those options that the help of the first command lacks."""
    description = re.split(r"\n\n", text)[1]
    known, own = options_of(first), options_of(text)
    lines = "".join(option for option in own if option not in known)
    shown = f"{fence(lines)}\n\n" if lines else ""
    shared = "It shares the other options with" if lines else "It has the options of"
    return f"{description}\n\n{shown}{shared} `{FIRST}`."


def options_of(text: str) -> list[str]:
    """The options of a help, each with its lines."""
    return re.findall(r"^  -.*\n(?:   .*\n?)*", text.partition("\noptions:\n")[2], re.M)


def families() -> Iterator[tuple[str, list[str]]]:
    """The paper of each family and its architectures."""
    for paper, archs in itertools.groupby(sorted(architectures(), key=paper_order), paper_of):
        yield paper, [*archs]


def heading(paper: str) -> str:
    return f"### {paper[0].upper()}{paper[1:]}"


def names() -> str:
    """All architectures, in a table for each family."""
    return "\n\n" + "".join(f"{heading(paper)}{models_table(archs)}" for paper, archs in families())


def options() -> str:
    """The options that fairseq's Transformer lacks, in a table for each family.

    A family's table leaves out the options that are the same in :data:`PLAIN`.
    """
    plain = model_options(PLAIN)
    sections = [f"{heading('options: most families')}{options_table(plain, PLAIN)}"]
    for paper, archs in families():
        family = paper.partition(" (")[0]
        models = [arch for arch in archs if arch in MODEL_REGISTRY]
        own = {row: having for row, having in model_options(models).items() if row not in plain}
        sections.append(f"{heading(f'options: {family}')}{options_table(own, models)}")
    return "\n\n" + "".join(sections)


def model_options(models: Iterable[str]) -> dict[OptionRow, list[str]]:
    """The options that fairseq's Transformer lacks, each with the models that have it."""
    rows: dict[OptionRow, list[str]] = {}
    for model in models:
        for row in split_rows(model)[0]:
            rows.setdefault(row, []).append(model)
    return rows


def options_table(rows: Mapping[OptionRow, list[str]], models: Sequence[str]) -> str:
    """The options of models, each with those of them that have it."""
    cells = [[*option_cells(*row), subset(rows[row], models)] for row in sorted(rows)]
    return table(["option", "default", "meaning", "models"], "llll", cells)


def subset(some: Sequence[str], models: Sequence[str]) -> str:
    """Some of the models in words: all, all of some kinds, or their names."""
    if len(some) == len(models):
        return "all"
    kinds = {kind for model in some for kind in kinds_of(MODEL_REGISTRY[model])}
    others = {kind for model in models for kind in kinds_of(MODEL_REGISTRY[model])} - kinds
    of_kinds = [model for model in models if kinds.intersection(kinds_of(MODEL_REGISTRY[model]))]
    if others and of_kinds == [*some]:
        return ", ".join(f"{KINDS[kind]}s" for kind in KINDS if kind in kinds)
    return ", ".join(f"`{model}`" for model in some)


def option_cells(names: Iterable[str], default: str, text: str) -> list[str]:
    """An option, its default and its meaning, in Markdown."""
    code = " or ".join(f"`{name}`" for name in names)
    return [code, default and f"`{default}`", re.sub(r"--[a-z][\w-]*", r"`\g<0>`", text)]


def models_table(archs: list[str]) -> str:
    """The models of a family, each with its presets."""
    rows = []
    for model in (arch for arch in archs if arch in MODEL_REGISTRY):
        kinds = " and ".join(KINDS[kind] for kind in kinds_of(MODEL_REGISTRY[model]))
        presets = (f"`{arch}`" for arch in archs if arch != model and model_name(arch) == model)
        rows.append([f"`{model}`", kinds, first_line(MODEL_REGISTRY[model]), ", ".join(presets)])
    return table(["model", "kind", "description", "presets"], "llll", rows)


def docstrings(name: str) -> Callable[[], str]:
    """A function that returns a table of calls and what is called."""
    return lambda: table(["call", "what it does"], "ll", docstring_rows(name))


def docstring_rows(name: str) -> Iterator[list[str]]:
    for path, listed in TABLES[name].items():
        module = importlib.import_module(f"fairseq_odeformers.{path}")
        for documented in (getattr(module, each) for each in listed.split()):
            yield [linked(call(documented), documented), first_line(documented)]


def base_models() -> str:
    """The base classes of models, each with the one of its options."""
    rows = []
    for path, *names in MODELS:
        module = importlib.import_module(f"fairseq_odeformers.models.common.{path}")
        model, config = (getattr(module, name) for name in names)
        rows.append([*(linked(each.__name__, each) for each in (model, config)), first_line(model)])
    return table(["model", "its options", "what it is"], "lll", rows)


def registered(option: str) -> Callable[[], str]:
    """A function that returns a table of the values of an option that this project adds."""

    def rows() -> Iterator[list[str]]:
        for name, chosen in ours(option):
            yield [f"`{name}`", first_line(chosen), linked(chosen.__name__, chosen)]

    return lambda: table([f"`{option}`", "what it does", "class"], "lll", rows())


def registered_options(option: str) -> Callable[[], str]:
    """A function that returns a table of the options that these values have."""

    def rows() -> Iterator[list[str]]:
        found: dict[tuple[str, ...], list[str]] = {}
        for name, chosen in ours(option):
            for row in own_options(chosen):
                found.setdefault(tuple(row), []).append(f"`{name}`")
        for row, names in found.items():
            yield [*row, ", ".join(names)]

    return lambda: table(["option", "default", "meaning", f"`{option}`"], "llll", rows())


def ours(option: str) -> Iterator[tuple[str, type]]:
    """The names and classes that this project registers."""
    for name, chosen in REGISTRIES[option].items():
        if chosen.__module__.startswith("fairseq_odeformers."):
            yield name, chosen


def own_options(chosen: type) -> Iterator[list[str]]:
    """The options of a task or criterion that this project declares, and not fairseq."""
    unsupported = vars(sys.modules[chosen.__module__]).get("UNSUPPORTED", ())
    config = vars(chosen)["__dataclass"]
    for item in fields(config):
        if "bounds" in item.metadata and item.name not in unsupported:
            text = help_with_bounds(item, bounds_of(item), config)
            yield option_cells([flag(item.name)], show_default(item.default), text)


def linked(text: str, documented: Callable) -> str:
    """Code with a link to the file of a class or a function."""
    return f"[`{text}`](../../{documented.__module__.replace('.', '/')}.py)"


def call(documented: Callable) -> str:
    """The call of a class or a function; only the name of a class that takes what its base does."""
    found = inspect.signature(documented).parameters.values()
    parameters = [each.replace(annotation=each.empty) for each in found]
    passed_on = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if isinstance(documented, EnumMeta) or all(each.kind in passed_on for each in parameters):
        return documented.__name__
    arguments = str(inspect.Signature(parameters)).replace("<factory>", "...")
    return f"{documented.__name__}{arguments}"


def first_line(documented: Callable) -> str:
    """The first line of a docstring in Markdown."""
    line = (documented.__doc__ or "").strip().splitlines()[0].rstrip(".").replace("``", "`")
    line = re.sub(r":math:`([^`]+)`", r"$\1$", line)
    return re.sub(r"\*(\w+)\*", r"`\1`", re.sub(r":\w+:`[.~!]*([^`]+)`", r"`\1`", line))


def table(head: Iterable[str], align: str, rows: Iterable[Iterable[str]]) -> str:
    """A table; a letter for each column aligns it to the left (l) or right (r)."""
    all_rows = [head, ["---:" if letter == "r" else "---" for letter in align], *rows]
    lines = (
        "|".join(["", *(f" {cell} " if cell else " " for cell in row), ""]) for row in all_rows
    )
    return "\n\n" + "\n".join(lines) + "\n\n"


def fence(text: str) -> str:
    lines = text.strip("\n")
    return f"```text\n{lines}\n```"
