"""The command ``odeformers list``: it prints what the package and plugins register with fairseq."""

from __future__ import annotations

from collections.abc import Sequence

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

from fairseq_odeformers.registry import Kind, declared_family, kinds_of, paper_of

from .options import (
    architectures,
    listing_parser,
    model_name,
    option_rows,
    package_of,
    packages_of,
)


def main(arguments: Sequence[str]) -> None:
    """Print the architectures by task and paper, and the tasks and criterions."""
    parser = listing_parser("list", "Print the names of architectures, tasks and criterions.")
    packages = packages_of(parser.parse_args(arguments))
    archs = architectures(packages)
    groups: dict[str, dict[str, str]] = {}
    for arch in sorted(archs, key=lambda arch: (place(arch), archs.index(arch))):
        group = f"--arch, {paper_of(arch)}, for --task {trained_by(arch)}"
        groups.setdefault(group, {})[arch] = model_summary(arch)
    for kind, registry in (("task", TASK_REGISTRY), ("criterion", CRITERION_REGISTRY)):
        names = sorted(name for name, cls in registry.items() if package_of(cls) in packages)
        groups[f"--{kind}"] = {name: summary(registry[name]) for name in names}
    for group, lines in groups.items():
        print(f"\n{group}")
        for name, text in lines.items():
            print(f"  {name:41}  {text}")


def place(arch: str) -> tuple:
    """Return the sort key of an architecture: by kind, then by paper."""
    kinds = [None, *Kind]
    kind = next(iter(kinds_of(ARCH_MODEL_REGISTRY[arch])), None)
    return kinds.index(kind), paper_order(arch)


def paper_order(arch: str) -> tuple[bool, bool, int, str]:
    """Return a sort key: by the year of the paper, then baselines, then others."""
    family = declared_family(ARCH_MODEL_REGISTRY[arch])
    return not family, not (family and family.year), family.year if family else 0, paper_of(arch)


def model_summary(arch: str) -> str:
    """Describe a model; describe a preset by its model and the options that it changes."""
    model = model_name(arch)
    if arch == model:
        return summary(MODEL_REGISTRY[model])
    defaults = {names[0]: default for names, default, _ in option_rows(model)}
    changes = (
        typed(names, default)
        for names, default, _ in option_rows(arch)
        if default != defaults[names[0]]
    )
    return " ".join([model, *changes])


def typed(names: Sequence[str], value: str) -> str:
    """Return an option as typed on the command line, from a row of :func:`.option_rows`."""
    switch = {"True": names[0], "False": names[-1]}
    return switch.get(value, f"{names[0]} {value}")


def summary(cls: type) -> str:
    """Return the first line of a docstring, as plain text."""
    return (cls.__doc__ or cls.__name__).strip().splitlines()[0].replace("``", "").rstrip(".")


def trained_by(arch: str) -> str:
    """List the tasks that train an architecture, in words."""
    tasks = [task for kind in kinds_of(ARCH_MODEL_REGISTRY[arch]) for task in kind.tasks]
    return " or ".join(filter(None, [", ".join(tasks[:-1]), *tasks[-1:]]))
