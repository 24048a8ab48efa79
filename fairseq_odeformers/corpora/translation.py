"""Parallel corpora as they are published, and the command line that prepares one."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from fairseq_odeformers.corpora.archives import extract, fetch, present
from fairseq_odeformers.corpora.cli import check_source, make_parser, positive_int, reporting
from fairseq_odeformers.corpora.parallel_text import Files, prepare
from fairseq_odeformers.files import build, fingerprints, read_lines


@dataclass(frozen=True)
class Corpus:
    """A published parallel corpus, and how to prepare it.

    Attributes:
        langs: source and target language.
        archives: what to download, and the names of the files that are needed of each: URLs of tar
            or zip archives, or of single files (compressed, if the URL is the name with ``.gz``).
        documents: the documents of each split; a document is the names of two of these files.
        sentences: ``sentences[split](path)`` yields the sentences of a file, where it is not simply
            a sentence a line.
        recipe: options of :func:`~fairseq_odeformers.corpora.parallel_text.prepare`.
        optional: archives that what is given with ``--from`` may lack, and with them the splits
            whose documents they have.
    """

    langs: tuple[str, str]
    archives: Mapping[str, Sequence[str]]
    documents: Mapping[str, Sequence[tuple[str, str]]]
    sentences: Mapping[str, Callable[[Path], Iterable[str]]] = field(default_factory=dict)
    recipe: Mapping[str, Any] = field(default_factory=dict)
    optional: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def write_text(self, raw: Path, plain: Path) -> Files:
        """Write the text of each split, one sentence a line, to ``{split}.{lang}`` in *plain*.

        Splits whose documents are not in *raw* are left out.

        Raises:
            ValueError: a document in *raw* has not as many sentences as its translation.
        """
        documents = {
            split: [(raw / source, raw / target) for source, target in names]
            for split, names in self.documents.items()
            if all((raw / name).exists() for pair in names for name in pair)
        }

        def files(folder: Path, split: str) -> tuple[Path, Path]:
            source, target = self.langs
            return folder / f"{split}.{source}", folder / f"{split}.{target}"

        def write(folder: Path) -> None:
            for split, paths in documents.items():
                concatenate(paths, self.sentences.get(split, read_lines), files(folder, split))

        paths = [path for pairs in documents.values() for pair in pairs for path in pair]
        build(plain, {"raw": fingerprints(paths)}, write)
        return {split: files(plain, split) for split in documents}


def concatenate(
    documents: Iterable[tuple[Path, Path]],
    sentences: Callable[[Path], Iterable[str]],
    files: tuple[Path, Path],
) -> None:
    """Write the sentences of parallel documents, one after the other, to a pair of files.

    Raises:
        ValueError: a document has not as many sentences as its translation.
    """
    for document in documents:
        counts = []
        for path, file in zip(document, files):
            counts.append(0)
            with open(file, "a", encoding="utf-8") as stream:
                for sentence in sentences(path):
                    stream.write(sentence + "\n")
                    counts[-1] += 1
        if counts[0] != counts[1]:
            described = (f"{path} has {count:,}" for path, count in zip(document, counts))
            raise ValueError(f"sentences do not pair up: {', '.join(described)}")


def prepare_published(
    name: str,
    corpora: Sequence[Corpus],
    bpe_operations: int,
    arguments: Sequence[str] | None = None,
) -> None:
    """Prepare a published corpus; an error ends the program with a message of one line.

    Args:
        name: as in ``prepare-{name}.sh``.
        corpora: if there are several, the first argument of the script chooses the language pair.
        bpe_operations: default of ``--bpe-operations``.
    """
    pairs = {"-".join(corpus.langs): corpus for corpus in corpora}
    default_out = f"data/{name}-{{pair}}" if len(pairs) > 1 else f"data/{name}"
    parser = make_parser(
        name,
        source="archive (tar, zip) of the corpus, or folder that has its files or its archives "
        "under their published names (default: download it)",
        out=f"where to put the result, in DIR/data-bin (default: {default_out})",
    )
    if len(pairs) > 1:
        parser.add_argument("pair", choices=pairs, help="source and target language")
    else:
        parser.set_defaults(pair=next(iter(pairs)))
    parser.add_argument(
        "--bpe-operations",
        metavar="N",
        type=positive_int,
        default=bpe_operations,
        help="merges of the joint byte-pair encoding (default: %(default)s)",
    )
    args = parser.parse_args(arguments)
    corpus = pairs[args.pair]
    out = args.out or Path(default_out.format(pair=args.pair))
    raw = out / "raw"
    check_source(parser, args.source, raw)
    with reporting(parser.prog, out, "sacremoses", "subword_nmt"):
        downloads = dict.fromkeys([*corpus.archives, *corpus.optional])
        source = args.source or fetch(downloads, out / "download")
        extract(source, {**corpus.archives, **present(source, corpus.optional)}, raw)
        data_bin = prepare(
            corpus.write_text(raw, out / "plain"),
            out,
            *corpus.langs,
            bpe_operations=args.bpe_operations,
            workers=args.workers,
            **corpus.recipe,
        )
        logging.info(f"{data_bin} is ready for fairseq-train")
