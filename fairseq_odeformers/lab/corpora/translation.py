"""Published parallel corpora, and the command line that prepares one."""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path

from fairseq_odeformers.files import fingerprints, read_lines

from .archives import extract, fetch
from .command import add_number, count_examples, make_parser, parse_options, preparing
from .parallel_text import Preparation, SplitPair, prepare

EVALUATION = (".sgm", ".xml")  # sets of WMT and of IWSLT
SEGMENT_TAG = re.compile(r'<seg id="[0-9]+">\s*|\s*</seg>\s*')


def read_published(path: Path) -> Iterator[str]:
    """The lines of a file, or the segments of an evaluation set: one ``<seg id="...">`` per line.

    Entities such as ``&amp;`` stay as published.
    """
    for line in read_lines(path):
        if path.suffix not in EVALUATION:
            yield line
        elif "<seg id" in line:
            yield SEGMENT_TAG.sub("", line)


def read_sentences(path: Path) -> Iterator[str]:
    """The same, with the training text's apostrophe, the typewriter's, in segments."""
    published = read_published(path)
    return map(replace_apostrophes, published) if path.suffix in EVALUATION else published


def replace_apostrophes(text: str) -> str:
    return text.replace("’", "'")


@dataclass(frozen=True)
class Corpus:
    """A published parallel corpus, and how to prepare it.

    Attributes:
        preparation: how to prepare the text.
        archives: the names of the files to take from each download, by its URL: a tar or zip
            archive, or a single file (compressed, if the URL is the name with ``.gz``).
        documents: the documents of each split; a document is the names of two of these files.
        optional: names of files that the source of ``--from`` may lack. The splits of their
            documents are then skipped.
        sentences: yields the sentences of a file.
        counts: about how many pairs each prepared split has, by the paper that describes it.
    """

    preparation: Preparation
    archives: Mapping[str, Sequence[str]]
    documents: Mapping[str, Sequence[tuple[str, str]]]
    optional: Sequence[str] = ()
    sentences: Callable[[Path], Iterable[str]] = read_sentences
    counts: Mapping[str, int] = field(default_factory=dict)


def read_documents(
    documents: Mapping[str, Sequence[tuple[Path, Path]]], read: Callable[[Path], Iterable[str]]
) -> Iterator[SplitPair]:
    """The sentence pairs of each split's documents, one after the other."""
    for split, pairs in documents.items():
        for pair in pairs:
            number = 0
            for number, row in enumerate(zip_longest(*map(read, pair)), start=1):
                if None in row:
                    shorter, longer = pair if row[0] is None else reversed(pair)
                    raise ValueError(
                        f"sentences do not pair up: {shorter} has {number - 1:,}, and {longer} has "
                        "more; line N of one has to translate line N of the other"
                    )
                yield split, row
            if not number:
                raise ValueError(
                    f"{' and '.join(map(str, pair))} are empty; give one sentence per line"
                )


def prepare_published(name: str, corpora: Sequence[Corpus], arguments: Sequence[str]) -> None:
    """The command ``odeformers prepare {name}``; of several corpora, its argument chooses one."""
    pairs = {"-".join(corpus.preparation.langs): corpus for corpus in corpora}
    parser = make_parser(
        name,
        f"Prepare {name} for fairseq-train --task translation.",
        out=f"data/{name}-{{pair}}" if len(pairs) > 1 else None,
        source="archive (tar, zip) of the corpus, or folder with its files or its archives under "
        "their published names (default: download the corpus)",
    )
    if len(pairs) > 1:
        parser.add_argument("pair", choices=pairs, help="source and target language")
    else:
        parser.set_defaults(pair=next(iter(pairs)))
    merges = corpora[0].preparation.bpe_operations
    add_number(parser, "--bpe-operations", merges, "merges of the joint BPE")
    args = parse_options(parser, arguments)
    corpus = pairs[args.pair]
    preparation = replace(corpus.preparation, bpe_operations=args.bpe_operations)
    with preparing(args):
        source = args.source or fetch(corpus.archives, args.out)
        raw = args.out / "raw"
        extract(source, corpus.archives, raw, corpus.optional)
        documents = {
            split: [(raw / first, raw / second) for first, second in pairs]
            for split, pairs in corpus.documents.items()
            if all((raw / name).exists() for pair in pairs for name in pair)
        }
        rows = partial(read_documents, documents, corpus.sentences)
        paths = (path for pairs in documents.values() for pair in pairs for path in pair)
        inputs = {"raw": fingerprints(paths)}
        data_bin = prepare(rows, inputs, args.out, preparation, args.workers)
        check_counts(data_bin, corpus)


def check_counts(data_bin: Path, corpus: Corpus) -> None:
    """Warn of splits whose number of pairs differs by more than a tenth from the published one."""
    source, target = corpus.preparation.langs
    for split, expected in corpus.counts.items():
        count = count_examples(data_bin / f"{split}.{source}-{target}.{target}.idx")
        if abs(count - expected) > expected / 10:
            logging.warning(
                f"{split} has {count:,} pairs, where the paper has about {expected:,}: another "
                "release of the corpus, or part of it?"
            )
