"""Labelled text in word pieces: IMDb, AG News, and your tables.

IMDb (Maas et al., 2011) has 25,000 film reviews for training and as many for testing, negative or
positive. AG News (Zhang et al., 2015) has 120,000 and 7,600 news items of four subjects; the text
is the title and the description. Neither has a validation set: a tenth of the training texts of
each class, drawn at random, is held out. On IMDb its accuracy is higher than on the test set (for a
bag of words by 1.3 points), because it shares films with the training set, which the test set does
not. To choose the best epoch by the test set, as papers do, train with ``--valid-subset test``.

Text becomes the pieces of an uncased BERT (Devlin et al., 2019) and ends with ``</s>``. Of BERT's
special pieces, ``[CLS] [PAD] [SEP] [UNK]`` are fairseq's ``<s> <pad> </s> <unk>``, and ``[MASK]``
is the ``<mask>`` that ``sentence_prediction`` adds when it loads the dictionary. So an embedding
has as many rows as the vocabulary has pieces.
"""

import argparse
import csv
import logging
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from unicodedata import category, normalize

import numpy as np
from tqdm import tqdm

from fairseq_odeformers.blame import did_you_mean
from fairseq_odeformers.data.classification import (
    is_class_name,
    make_dictionary,
    write_dictionaries,
    write_split,
)
from fairseq_odeformers.data.word_pieces import (
    SPECIAL,
    learn_pieces,
    load_tokenizer,
    read_pieces,
    write_normalization,
)
from fairseq_odeformers.files import build, decode_lines, sha256
from fairseq_odeformers.options import real_number

from .archives import fetch, fingerprint, locate, read_files
from .command import add_number, add_path, make_parser, parse_options, preparing

logger = logging.getLogger(__name__)

VOCAB_SIZE = 30_522
VALID_FRACTION = 0.1
SEED = 1  # for the texts that are held out
RARE = 0.2  # of the mean number of texts per class; a class with fewer may be misspelt
BATCH_SIZE = 1024  # texts that are encoded at a time

Example = tuple[str | None, str]  # class, None in a test set without labels, and text


def read_imdb(path: Path, lines: Iterator[str]) -> Iterator[Example]:
    """A review is a file in a folder with the name of its class; ``<br />`` is a line break."""
    yield path.parent.name, "\n".join(lines).replace("<br />", "\n")


AG_NEWS = {"1": "World", "2": "Sports", "3": "Business", "4": "Sci/Tech"}
AG_NEWS_URL = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv"


def read_agnews(path: Path, lines: Iterator[str]) -> Iterator[Example]:
    """A quoted table of class, title and description."""
    table = csv.reader((line + "\n" for line in lines), strict=True)
    try:
        for row in table:
            if len(row) != 3 or row[0] not in AG_NEWS:
                raise csv.Error("expected class (1 to 4), title and description")
            yield AG_NEWS[row[0]], " ".join(row[1:])
    except csv.Error as error:
        raise ValueError(f"{path}, line {table.line_num}: {error}") from error


def read_tsv(path: Path, lines: Iterator[str]) -> Iterator[Example]:
    """A table of class and text; what follows the first tab is text.

    If no line of ``test.tsv`` has a tab, its texts have no class.
    """
    rows = list(lines)
    unlabelled = path.name == "test.tsv" and not any("\t" in line for line in rows)
    for number, line in enumerate(rows, start=1):
        if unlabelled:
            yield None, line
            continue
        label, tab, text = line.partition("\t")
        label = label.strip()
        if not (label and tab):
            raise ValueError(f"{path}, line {number}: {line[:40]!r} is not a class, a tab and text")
        if not is_class_name(label):
            raise ValueError(f"{path}, line {number}: no class can be called {label!r}")
        yield label, text


class Dataset(NamedTuple):
    """How a data set is published.

    Attributes:
        read: ``read(path, lines)`` yields the examples of a file.
        files: patterns of the files of each split, as for ``Path.match``. Each has to match a file,
            except in ``valid``.
        classes: the classes in their order; None to sort the classes of the training file.
        urls: the published archive or files.
    """

    read: Callable[[Path, Iterator[str]], Iterator[Example]]
    files: dict[str, tuple[str, ...]]
    classes: Sequence[str] | None
    urls: tuple[str, ...]


DATASETS = {
    "imdb": Dataset(
        read_imdb,
        {
            "train": ("train/neg/[0-9]*.txt", "train/pos/[0-9]*.txt"),
            "test": ("test/neg/[0-9]*.txt", "test/pos/[0-9]*.txt"),
        },
        ("neg", "pos"),
        ("https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",),
    ),
    "agnews": Dataset(
        read_agnews,
        {"train": ("train.csv",), "valid": ("valid.csv",), "test": ("test.csv",)},
        tuple(AG_NEWS.values()),
        (f"{AG_NEWS_URL}/train.csv", f"{AG_NEWS_URL}/test.csv"),
    ),
    "tsv": Dataset(
        read_tsv,
        {"train": ("train.tsv",), "valid": ("valid.tsv",), "test": ("test.tsv",)},
        None,
        (),
    ),
}


def prepare(
    name: str,
    source: Path | None,
    out: Path,
    vocab: Path | None = None,
    vocab_size: int = VOCAB_SIZE,
    valid_fraction: float = VALID_FRACTION,
    strip_accents: bool = False,
) -> Path:
    """The binarised data in ``out/data-bin``, with the word pieces in ``vocab.txt``."""
    dataset = DATASETS[name]
    if vocab:
        read_pieces(vocab)
        strip_accents = True
    source = source or fetch(dataset.urls, out)
    patterns = list(chain.from_iterable(dataset.files.values()))
    for url in dataset.urls:
        source = locate(source, url, patterns)
    files = read_files(source, patterns, optional=dataset.files.get("valid", ()))

    def make(folder: Path) -> None:
        splits = read_splits(dataset, files, source)
        classes = find_classes(dataset, splits, source)
        splits["train"] = keep_texts(splits["train"], classes, source)
        if "valid" not in splits and valid_fraction:
            splits["train"], splits["valid"] = hold_out(splits["train"], valid_fraction)
        pieces = folder / "vocab.txt"
        if vocab:
            shutil.copy(vocab, pieces)
        else:
            learn_pieces([text for _, text in splits["train"]], vocab_size, pieces, strip_accents)
        write_normalization(pieces, strip_accents)
        binarize(splits, classes, pieces, folder)

    inputs = {
        "data": name,
        "from": fingerprint(files),
        "vocab": sha256(vocab) if vocab else vocab_size,
        "valid_fraction": valid_fraction,
        "strip_accents": strip_accents,
    }
    build(out / "data-bin", inputs, make)
    return out / "data-bin"


def read_splits(
    dataset: Dataset, files: dict[str, bytes], source: Path
) -> dict[str, list[Example]]:
    """The examples of each split; ``valid`` may be missing."""
    splits = {}
    for split, patterns in dataset.files.items():
        examples = []
        for name, content in files.items():
            if any(map(Path(name).match, patterns)):
                path = source / name
                read = dataset.read(path, decode_lines(BytesIO(content), path))
                examples += [(label and normalize("NFC", label), text) for label, text in read]
        if examples:
            splits[split] = examples
        elif split != "valid":
            raise ValueError(f"{source} has no lines in {', '.join(patterns)}")
    return splits


def find_classes(dataset: Dataset, splits: dict[str, list[Example]], source: Path) -> Sequence[str]:
    """The published classes, or else the training texts'; a text of another class is refused."""
    paths = {split: source / dataset.files[split][0] for split in splits}
    labels = [label for label, _ in splits["train"] if label]  # each has one
    classes = dataset.classes or sorted({*labels})
    shown = ", ".join(name[:40] for name in classes[:5]) + ", ..." * (len(classes) > 5)
    if not dataset.classes and len(classes) > max(9, len(labels) / 2):
        raise ValueError(
            f"{paths['train']} has {len(classes):,} classes in {len(labels):,} lines: {shown}; a "
            "line is CLASS<tab>TEXT: swap the columns, or give pairs to odeformers prepare parallel"
        )
    warn_of_names(classes, labels, {label for label, _ in splits["test"]}, paths["train"])
    names = {*classes}
    for split, examples in splits.items():
        for line, (label, _) in enumerate(examples, start=1):
            if label and label not in names:
                raise ValueError(
                    f"{paths[split]}, line {line}: {label[:40]} is not one of {shown}; add texts "
                    f"of it to {paths['train'].name}, or correct the line, CLASS<tab>TEXT"
                )
    return classes


def keep_texts(examples: list[Example], classes: Sequence[str], source: Path) -> list[Example]:
    """The training texts that are not empty; other splits keep theirs, in the order of the file."""
    kept = [example for example in examples if example[1].strip()]
    if len(kept) < len(examples):
        logger.info(f"dropped {len(examples) - len(kept):,} empty training texts")
    if absent := set(classes).difference(label for label, _ in kept):
        raise ValueError(f"{source} has no training text of class {', '.join(sorted(absent))}")
    return kept


def hold_out(examples: list[Example], fraction: float) -> tuple[list[Example], list[Example]]:
    """Split off *fraction* of each class at random, always the same; both parts keep the order."""
    places = defaultdict(list)
    for place, (label, _) in enumerate(examples):
        places[label].append(place)
    random = np.random.RandomState(SEED)
    drawn = {
        place
        for of_class in places.values()
        for place in random.permutation(of_class)[: int(len(of_class) * fraction)]
    }
    if not drawn:
        raise ValueError(
            f"--valid-fraction {fraction}: of {len(examples)} training texts this leaves none for "
            "validation"
        )
    kept = [example for place, example in enumerate(examples) if place not in drawn]
    return kept, [examples[place] for place in sorted(drawn)]


def warn_of_names(
    classes: Sequence[str], labels: Sequence[str], tested: Container[str | None], path: Path
) -> None:
    """Warn of names that may be misspelt, each in one line.

    These are classes of a single text; rare classes that the test set does not have, or that have
    a name like another's; and classes that look alike: their names differ in spaces, invisible
    characters, or the case of letters.

    Args:
        labels: of the lines of the training file *path*.
        tested: the classes of the test set.
    """
    looks, rare = defaultdict(list), {}
    mean = len(labels) / len(classes)
    for label, count in Counter(labels).items():
        if count <= max(1, RARE * mean) and count < mean:
            meant = did_you_mean(label, {*classes} - {label})
            if meant or count == 1 or label not in tested:
                which = "the only text" if count == 1 else f"the first of {count} texts"
                place = f"{path}, line {labels.index(label) + 1}: "
                rare[label] = place, f"{which} of class {label}; {meant or 'is it misspelt?'}"
    for name in classes:
        seen = "".join(char for char in normalize("NFKC", name) if category(char) != "Cf")
        looks[" ".join(seen.split()).casefold()].append(name)
    for names in looks.values():
        if len(names) > 1:
            places = [rare.pop(name)[0] for name in names if name in rare]
            place = next(iter(places), "")
            logger.warning(f"{place}classes that look alike: {', '.join(map(ascii, names))}")
    for place, fault in rare.values():
        logger.warning(place + fault)


def binarize(
    splits: dict[str, list[Example]], classes: Sequence[str], vocab: Path, folder: Path
) -> None:
    """Write the dictionaries and the splits of a data set."""
    pieces = read_pieces(vocab)
    dictionary = make_dictionary(piece for piece in pieces if piece not in SPECIAL)
    write_dictionaries(folder, 1, dictionary, classes)
    tokenizer = load_tokenizer(vocab)
    symbols = np.array([dictionary.index(piece) for piece in pieces])  # <unk> for other pieces

    examples_of_pieces: dict[bytes, set[Example]] = {}

    def encode(examples: Sequence[Example]) -> Iterator[tuple[tuple[np.ndarray], str]]:
        for start in range(0, len(examples), BATCH_SIZE):
            labels, texts = zip(*examples[start : start + BATCH_SIZE])
            for label, text, encoding in zip(labels, texts, tokenizer.encode_batch_fast(texts)):
                tokens = np.append(symbols[encoding.ids], dictionary.eos())
                examples_of_pieces.setdefault(tokens.tobytes(), set()).add((label, text))
                yield (tokens,), label

    for split, examples in splits.items():
        examples_of_pieces.clear()
        counts = Counter(label for label, _ in examples)
        labelled = None not in counts
        described = ", ".join(f"{counts[label]:,} {label}" for label in classes if labelled)
        logger.info(f"{split}: {len(examples):,} texts ({described or 'without classes'})")
        progress = tqdm(encode(examples), split, len(examples), unit=" texts", disable=None)
        write_split(folder, split, progress, labelled)
        warn_of_several_classes(split, examples_of_pieces.values())


def warn_of_several_classes(split: str, groups: Iterable[set[Example]]) -> None:
    """Warn of texts that have several classes, as they are or only once split into word pieces.

    Args:
        groups: the examples of a split whose texts have the same word pieces.
    """
    several = [group for group in groups if len({label for label, _ in group}) > 1]
    differ = sum(len({text for _, text in group}) == len(group) for group in several)
    if same := len(several) - differ:
        logger.warning(f"{split}: {same:,} texts occur with several classes")
    if differ:
        logger.warning(
            f"{split}: {differ:,} texts have several classes once split into word pieces; what "
            "tells them apart may be case, spaces, or a mark that --strip-accents drops"
        )


def main(arguments: Sequence[str]) -> None:
    parser = make_parser(
        "text-classification",
        "Prepare labelled text for fairseq-train --task sentence_prediction.",
        out="data/{data}",
        source="folder or archive (tar, zip) with the published files, or with train.tsv, test.tsv "
        "and perhaps valid.tsv of lines CLASS<tab>TEXT; test.tsv may have lines TEXT alone "
        "(default: download the published files)",
    )
    parser.add_argument("data", metavar="DATA", choices=DATASETS, help=", ".join(DATASETS))
    vocabulary = parser.add_mutually_exclusive_group()
    what = "vocab.txt of an uncased BERT (default: learn word pieces on the training texts)"
    add_path(vocabulary, "--vocab", what)
    add_number(vocabulary, "--vocab-size", VOCAB_SIZE, "number of word pieces to learn")
    add_number(
        parser,
        "--valid-fraction",
        VALID_FRACTION,
        "share of each class of the training texts to hold out if there is no validation file; 0 "
        "for no validation set",
        fraction,
    )
    parser.add_argument(
        "--strip-accents",
        action="store_true",
        help="drop accents and other marks, as BERT's uncased vocabulary needs it (implied by "
        "--vocab)",
    )
    args = parse_options(parser, arguments)
    if args.source is None and not DATASETS[args.data].urls:
        parser.error(f"{args.data} needs --from")
    os.environ["RAYON_NUM_THREADS"] = str(args.workers)  # read by tokenizers
    options = args.vocab, args.vocab_size, args.valid_fraction, args.strip_accents
    with preparing(args):
        prepare(args.data, args.source, args.out, *options)


def fraction(text: str) -> float:
    """The type of an option that is a share of the texts."""
    value = real_number(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text}: give a number from 0 to below 1")
    return value
