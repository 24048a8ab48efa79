"""The command ``odeformers list``: all that the package and plugins register with fairseq."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

from fairseq_odeformers.errors import InputError, did_you_mean
from fairseq_odeformers.registry import Kind, kinds_of, paper_of, paper_order

from .options import (
    architectures,
    listing_parser,
    model_summary,
    package_of,
    packages_of,
    summary,
)

KINDS = {
    Kind.TRANSLATION: "translator",
    Kind.CLASSIFICATION: "classifier",
    Kind.LANGUAGE_MODEL: "language model",
    Kind.MASKED_LM: "masked language model",
}


class Entry(NamedTuple):
    """A line of the listing: a name with its group, summary and the kinds of its models."""

    group: str
    name: str
    text: str
    kinds: str = ""

    def matches(self, word: str) -> bool:
        """Return whether a word of the group, the name or a kind begins with *word*."""
        pattern = rf"(?<![^\W_]){re.escape(word)}"  # parts of a name are words, too
        return re.search(pattern, f"{self.group} {self.name} {self.kinds}", re.I) is not None


def main(arguments: Sequence[str]) -> None:
    """Print the architectures by task and paper, and the tasks and criterions.

    Raises:
        InputError: no name matches.
    """
    parser = listing_parser("list", "Print the names of architectures, tasks and criterions.")
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="print only entries that match every WORD, which may be the beginning of a word in "
        "a family, a kind of model, a task or a name",
    )
    args = parser.parse_args(arguments)
    entries = select([*list_entries(packages_of(args))], args.words)
    for group, lines in groupby(entries, lambda entry: entry.group):
        print(f"\n{group}")
        for entry in lines:
            print(f"  {entry.name:41}  {entry.text}")


def list_entries(packages: Container[str]) -> Iterator[Entry]:
    """Yield what packages register: architectures by task and paper, then tasks and criterions."""
    archs = architectures(packages)
    for arch in sorted(archs, key=lambda arch: (place(arch), archs.index(arch))):
        group = f"--arch, {paper_of(arch)}, for --task {trained_by(arch)}"
        kinds = ", ".join(KINDS[kind] for kind in kinds_of(ARCH_MODEL_REGISTRY[arch]))
        yield Entry(group, arch, model_summary(arch), kinds)
    for kind, registry in (("task", TASK_REGISTRY), ("criterion", CRITERION_REGISTRY)):
        for name in sorted(registry):
            if package_of(registry[name]) in packages:
                yield Entry(f"--{kind}", name, summary(registry[name]))


def select(entries: Sequence[Entry], words: Sequence[str]) -> list[Entry]:
    """Select the entries that match all words.

    Raises:
        InputError: no entry matches.
    """
    for word in words:
        if not any(entry.matches(word) for entry in entries):
            texts = [part.lower() for entry in entries for part in (entry.group, entry.kinds)]
            known = [entry.name for entry in entries] + re.findall(r"[\w-]+", " ".join(texts))
            remedy = did_you_mean(word.lower(), dict.fromkeys(known), "odeformers list prints all")
            raise InputError(f"{word}: no family, kind of model or name begins like this; {remedy}")
    selected = [entry for entry in entries if all(map(entry.matches, words))]
    if not selected:
        raise InputError(f"{' '.join(words)}: nothing matches all of these words; use fewer")
    return selected


def place(arch: str) -> tuple:
    """Return the sort key of an architecture: by kind, then by paper."""
    kinds = [None, *Kind]
    kind = next(iter(kinds_of(ARCH_MODEL_REGISTRY[arch])), None)
    return kinds.index(kind), paper_order(arch)


def trained_by(arch: str) -> str:
    """List the tasks that train an architecture, in words."""
    tasks = [task for kind in kinds_of(ARCH_MODEL_REGISTRY[arch]) for task in kind.tasks]
    return " or ".join(filter(None, [", ".join(tasks[:-1]), *tasks[-1:]]))
