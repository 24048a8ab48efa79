"""Parallel corpora as they are published, and the command line that prepares one."""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path

from fairseq_odeformers.corpora.archives import extract, fetch
from fairseq_odeformers.corpora.cli import add_options, make_parser, parse_options, preparing
from fairseq_odeformers.corpora.parallel_text import Pair, Recipe, prepare
from fairseq_odeformers.files import fingerprints, read_lines
from fairseq_odeformers.options import positive_int

SEGMENT_TAG = re.compile(r'<seg id="[0-9]+">\s*|\s*</seg>\s*')


@dataclass(frozen=True)
class Corpus:
    """A published parallel corpus, and how to prepare it.

    Attributes:
        recipe: how to prepare the text.
        archives: the names of the files that are needed of each download, by its URL: a tar or zip
            archive, or a single file (compressed, if the URL is the name with ``.gz``).
        documents: the documents of each split; a document is the names of two of these files.
        sentences: ``sentences[split](path)`` yields the sentences of a file, if it is not simply a
            sentence a line.
        optional: names of files that the source given with ``--from`` may lack. The splits of their
            documents are then left out.
    """

    recipe: Recipe
    archives: Mapping[str, Sequence[str]]
    documents: Mapping[str, Sequence[tuple[str, str]]]
    sentences: Mapping[str, Callable[[Path], Iterable[str]]] = field(default_factory=dict)
    optional: Sequence[str] = ()


def read_documents(
    documents: Mapping[str, Sequence[tuple[Path, Path]]],
    sentences: Mapping[str, Callable[[Path], Iterable[str]]],
) -> Iterator[tuple[str, Pair]]:
    """The sentence pairs of each split's documents, one after the other, after its name.

    Args:
        documents: pairs of files, by their split.
        sentences: of a file, by its split; the default is a sentence a line.

    Raises:
        ValueError: a document is empty, or has not as many sentences as its translation.
    """
    for split, pairs in documents.items():
        read = sentences.get(split, read_lines)
        for pair in pairs:
            number = 0
            for number, row in enumerate(zip_longest(*map(read, pair)), start=1):
                if None in row:
                    shorter, longer = pair if row[0] is None else reversed(pair)
                    raise ValueError(
                        f"sentences do not pair up: {shorter} has {number - 1:,}, and {longer} has "
                        "more"
                    )
                yield split, row
            if not number:
                raise ValueError(f"{' and '.join(map(str, pair))} are empty")


def segments(path: Path) -> Iterator[str]:
    """The segments of an evaluation set of WMT or IWSLT: one ``<seg id="...">`` a line.

    They are as published, with entities such as ``&amp;``.
    """
    for line in read_lines(path):
        if "<seg id" in line:
            yield SEGMENT_TAG.sub("", line)


def test_sentences(path: Path) -> Iterator[str]:
    """The segments with the typewriter's apostrophe, which is the one in training text."""
    return map(plain_apostrophes, segments(path))


def plain_apostrophes(text: str) -> str:
    return text.replace("’", "'")


def prepare_published(name: str, corpora: Sequence[Corpus], arguments: Sequence[str]) -> None:
    """The command line ``odeformers prepare {name}``.

    Args:
        corpora: if there are several, the first argument chooses the language pair.
    """
    pairs = {"-".join(corpus.recipe.langs): corpus for corpus in corpora}
    parser = make_parser(
        name,
        f"Prepare {name} for fairseq-train --task translation.",
        out=f"data/{name}-{{pair}}" if len(pairs) > 1 else f"data/{name}",
        source="archive (tar, zip) of the corpus, or folder that has its files or its archives "
        "under their published names (default: download it)",
    )
    if len(pairs) > 1:
        parser.add_argument("pair", choices=pairs, help="source and target language")
    else:
        parser.set_defaults(pair=next(iter(pairs)))
    operations = corpora[0].recipe.bpe_operations
    merges = "merges of the joint byte-pair encoding"
    add_options(parser, ("--bpe-operations", positive_int, operations, merges))
    args = parse_options(parser, arguments)
    corpus = pairs[args.pair]
    recipe = replace(corpus.recipe, bpe_operations=args.bpe_operations)
    with preparing(args.out):
        source = args.source or fetch(dict.fromkeys(corpus.archives), args.out / "download")
        raw = args.out / "raw"
        extract(source, corpus.archives, raw, corpus.optional)
        documents = {
            split: [(raw / first, raw / second) for first, second in pairs]
            for split, pairs in corpus.documents.items()
            if all((raw / name).exists() for pair in pairs for name in pair)
        }
        rows = partial(read_documents, documents, corpus.sentences)
        paths = (path for pairs in documents.values() for pair in pairs for path in pair)
        data_bin = prepare(rows, {"raw": fingerprints(paths)}, args.out, recipe, args.workers)
        logging.info(f"{data_bin} is ready for fairseq-train")
