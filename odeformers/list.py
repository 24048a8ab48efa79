"""The command ``odeformers list``: it prints what the package and plugins register with fairseq."""

from __future__ import annotations

from collections.abc import Sequence

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

from fairseq_odeformers.registry import Kind, declared_family, kinds_of, paper_of

from .options import (
    architectures,
    listing_parser,
    model_summary,
    package_of,
    packages_of,
    summary,
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


def trained_by(arch: str) -> str:
    """List the tasks that train an architecture, in words."""
    tasks = [task for kind in kinds_of(ARCH_MODEL_REGISTRY[arch]) for task in kind.tasks]
    return " or ".join(filter(None, [", ".join(tasks[:-1]), *tasks[-1:]]))
