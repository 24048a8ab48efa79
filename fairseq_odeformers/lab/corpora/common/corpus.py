"""What a corpus is."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from .source import Files, Source, find

Writer = TypeVar("Writer")


@dataclass(frozen=True)
class Corpus(Generic[Writer]):
    """A corpus, published or of the user's.

    Attributes:
        source: where its files are.
        read: returns the examples of each split from the files. Examples are what the writer takes:
            pairs of sentences, inputs with their class, or lines.
        writer: writes these examples as fairseq reads them.
        extracted: whether the files are copied to a folder first, or read in place, into memory.
    """

    source: Source
    read: Callable[[Files], Mapping[str, Iterable[Any]]]
    writer: Writer
    extracted: bool = False

    def files(self, given: Path | None, out: Path, folder: str = "raw") -> Files:
        """The files, taken from *given* or else downloaded; *folder* of *out* is for copies."""
        if self.extracted:
            return self.source.extract(given, out, folder)
        return self.source.read(given, out)


def choose(corpora: Sequence[Corpus[Writer]], given: Path | None) -> Corpus[Writer]:
    """Of several ways to name the files of a corpus, the one whose first file is in *given*.

    It is the last one if none is, and the published one if nothing is given.
    """
    if given is None:
        return next(c for c in corpora if any(download.url for download in c.source.downloads))
    for corpus in corpora:
        [(origin, names), *_] = corpus.source.origins(given).items()
        if any(find(origin, names[:1])):
            return corpus
    return corpora[-1]
