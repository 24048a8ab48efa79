"""Parallel corpora as they are published, and the command line that prepares one."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fairseq_odeformers.corpora.archives import extract, fetch, members
from fairseq_odeformers.corpora.cli import check_overlap, make_parser, preparing
from fairseq_odeformers.corpora.parallel_text import Files, Recipe, prepare
from fairseq_odeformers.files import build, fingerprints, read_lines
from fairseq_odeformers.options import positive_int


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
        optional: downloads that the source given with ``--from`` may lack. The splits of their
            documents are then left out.
    """

    recipe: Recipe
    archives: Mapping[str, Sequence[str]]
    documents: Mapping[str, Sequence[tuple[str, str]]]
    sentences: Mapping[str, Callable[[Path], Iterable[str]]] = field(default_factory=dict)
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
            source, target = self.recipe.langs
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


def prepare_published(name: str, corpora: Sequence[Corpus], arguments: Sequence[str]) -> None:
    """The command line ``odeformers prepare {name}``.

    Args:
        corpora: if there are several, the first argument chooses the language pair.
    """
    pairs = {"-".join(corpus.recipe.langs): corpus for corpus in corpora}
    default_out = f"data/{name}-{{pair}}" if len(pairs) > 1 else f"data/{name}"
    parser = make_parser(
        name,
        f"Prepare {name} for fairseq-train --task translation.",
        out=default_out,
        source="archive (tar, zip) of the corpus, or folder that has its files or its archives "
        "under their published names (default: download it)",
    )
    if len(pairs) > 1:
        parser.add_argument("pair", choices=pairs, help="source and target language")
    else:
        parser.set_defaults(pair=next(iter(pairs)))
    parser.add_argument(
        "--bpe-operations",
        metavar="N",
        type=positive_int,
        default=corpora[0].recipe.bpe_operations,
        help="merges of the joint byte-pair encoding (default: %(default)s)",
    )
    args = parser.parse_args(arguments)
    corpus = pairs[args.pair]
    recipe = replace(corpus.recipe, bpe_operations=args.bpe_operations)
    out = args.out or Path(default_out.format(pair=args.pair))
    raw = out / "raw"
    check_overlap(parser, args.source, raw)
    with preparing(out):
        downloads = dict.fromkeys([*corpus.archives, *corpus.optional])
        source = args.source or fetch(downloads, out / "download")
        found = {
            url: names for url, names in corpus.optional.items() if any(members(source, names))
        }
        extract(source, {**corpus.archives, **found}, raw)
        data_bin = prepare(corpus.write_text(raw, out / "plain"), out, recipe, args.workers)
        logging.info(f"{data_bin} is ready for fairseq-train")
