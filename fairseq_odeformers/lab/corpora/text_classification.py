"""Labelled text in word pieces: IMDb, AG News, and your tables.

IMDb (Maas et al., 2011) has 25,000 film reviews for training and as many for testing, negative or
positive. AG News (Zhang et al., 2015) has 120,000 and 7,600 news items of four subjects; the text
is the title and the description. Neither has a validation set: a tenth of the training texts of
each class, drawn at random, is held out. On IMDb its accuracy is higher than on the test set (for a
bag of words by 1.3 points), because it shares films with the training set, which the test set does
not. To choose the best epoch by the test set, as papers do, train with ``--valid-subset test``.
"""

import csv
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from fairseq_odeformers.data.classification import is_class_name
from fairseq_odeformers.files import read_lines

from .common.corpus import Corpus, Download, strip_compression
from .common.labels import Labels
from .common.tables import read_rows
from .common.texts import Text, by_split, prepare_texts


def read_imdb(path: Path) -> Iterator[Text]:
    """A review is a file in a folder with the name of its class; ``<br />`` is a line break."""
    text = "\n".join(read_lines(path)).replace("<br />", "\n")
    yield Text(path.parent.name, text, str(path))


AG_NEWS = {"1": "World", "2": "Sports", "3": "Business", "4": "Sci/Tech"}


def read_agnews(path: Path) -> Iterator[Text]:
    """A quoted table of class, title and description."""
    table = csv.reader((line + "\n" for line in read_lines(path)), strict=True)
    try:
        for row in table:
            if len(row) != 3 or row[0] not in AG_NEWS:
                raise csv.Error("expected class (1 to 4), title and description")
            yield Text(AG_NEWS[row[0]], " ".join(row[1:]), f"{path}, line {table.line_num}")
    except csv.Error as error:
        raise ValueError(f"{path}, line {table.line_num}: {error}") from error


def read_tsv(path: Path) -> Iterator[Text]:
    """A table of class and text; what follows the first tab is text.

    If no line of ``test.tsv`` has a tab, its texts have no class.
    """
    rows = list(read_rows(path))
    is_test = strip_compression(path.name) == "test.tsv"
    unlabelled = is_test and all(len(fields) == 1 for _, fields in rows)
    for number, (label, *parts) in rows:
        place = f"{path}, line {number}"
        if unlabelled:
            yield Text(None, label, place)
            continue
        label = label.strip()
        if not (label and parts):
            line = "\t".join([label, *parts])
            raise ValueError(f"{place}: {line[:40]!r} is not a class, a tab and text")
        if not is_class_name(label):
            raise ValueError(f"{place}: no class can be called {label!r}")
        yield Text(label, "\t".join(parts), place)


IMDB = Download(
    "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
    [f"{split}/{label}/[0-9]*.txt" for split in ("train", "test") for label in ("neg", "pos")],
    "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
)
AG_NEWS_URL = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv"
AG_NEWS_FILES = [
    Download(
        f"{AG_NEWS_URL}/train.csv",
        ["train.csv", "valid.csv"],
        "76a0a2d2f92b286371fe4d4044640910a04a803fdd2538e0f3f29a5c6f6b672e",
    ),
    Download(
        f"{AG_NEWS_URL}/test.csv",
        ["test.csv"],
        "521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699",
    ),
]
TABLES = Download("", ["train.tsv", "valid.tsv", "test.tsv"])
CORPORA = {
    "imdb": Corpus([IMDB], partial(by_split, read_imdb), Labels(("neg", "pos"))),
    "agnews": Corpus(
        AG_NEWS_FILES,
        partial(by_split, read_agnews),
        Labels(tuple(AG_NEWS.values())),
        optional=["valid.csv"],
    ),
    "tsv": Corpus([TABLES], partial(by_split, read_tsv), Labels(()), optional=["valid.tsv"]),
}
SOURCE = (
    "folder or archive (tar, zip) with the published files, or with train.tsv, test.tsv and "
    "perhaps valid.tsv of lines CLASS<tab>TEXT; test.tsv may have lines TEXT alone (default: "
    "download the published files)"
)


def main(arguments: Sequence[str]) -> None:
    prepare_texts("text-classification", SOURCE, CORPORA, arguments)
