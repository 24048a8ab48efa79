"""Labelled text in word pieces: how it is divided, and the command line that prepares it.

Text becomes the pieces of an uncased BERT (Devlin et al., 2019) and ends with ``</s>``. Of BERT's
special pieces, ``[CLS] [PAD] [SEP] [UNK]`` are fairseq's ``<s> <pad> </s> <unk>``, and ``[MASK]``
is the ``<mask>`` that ``sentence_prediction`` adds when it loads the dictionary. So an embedding
has as many rows as the vocabulary has pieces.
"""

import argparse
import logging
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

import numpy as np

from fairseq_odeformers.data.classification import make_dictionary
from fairseq_odeformers.data.word_pieces import (
    SPECIAL,
    learn_pieces,
    load_tokenizer,
    read_pieces,
    write_normalization,
)
from fairseq_odeformers.files import sha256
from fairseq_odeformers.options import real_number

from .command import add_number, add_path, make_parser, parse_options, preparing
from .corpus import Corpus
from .labels import Encoded, Labels, check_number
from .log import step
from .source import File, Files, fingerprint

logger = logging.getLogger(__name__)

VOCAB_SIZE = 30_522
VALID_FRACTION = 0.1
POSITIONS = 512  # tokens that sentence_prediction takes by default
SEED = 1  # for the texts that are held out
BATCH_SIZE = 1024  # texts that are encoded at a time


class Text(NamedTuple):
    label: str | None  # None in a test set without labels
    text: str
    file: File
    line: int = 1

    @property
    def place(self) -> str:
        return f"{self.file.name}, line {self.line}"


Splits = dict[str, list[Text]]


def by_split(read: Callable[[File], Iterator[Text]], files: Files) -> dict[str, Iterator[Text]]:
    """The texts of each split, which the first part of a file's name says."""
    splits = {}
    for split in ("train", "test", "valid"):
        found = [file for name, file in files.items() if name.split("/")[0].split(".")[0] == split]
        splits[split] = chain.from_iterable(map(read, found))
    return splits


def read_splits(corpus: Corpus[Labels], files: Files) -> Splits:
    """The texts of each split; ``valid`` may be missing.

    Raises:
        ValueError: another split has none.
    """
    splits = {}
    for split, texts in corpus.read(files).items():
        splits[split] = [
            text._replace(label=text.label and normalize("NFC", text.label)) for text in texts
        ]
    if empty := [split for split in ("train", "test") if not splits.get(split)]:
        raise ValueError(f"{', '.join(files)}: there are no lines for {' and '.join(empty)}")
    return {split: texts for split, texts in splits.items() if texts}


def find_classes(classes: Sequence[str], splits: Splits) -> Sequence[str]:
    """The published *classes*, or else the training texts'; a text of another one is refused."""
    train = splits["train"]
    labels = [text.label for text in train if text.label]  # each has one
    table = train[0].file
    published, classes = bool(classes), classes or sorted({*labels})
    shown = ", ".join(name[:40] for name in classes[:5]) + ", ..." * (len(classes) > 5)
    if not published and len(classes) > max(9, len(labels) / 2):
        raise ValueError(
            f"{table.name} has {len(classes):,} classes in {len(labels):,} lines: {shown}; a line "
            "is CLASS<tab>TEXT: swap the columns, or give pairs to odeformers prepare parallel"
        )
    if not published:
        check_header(splits)
    check_number(dict.fromkeys(labels), table.name)
    names = {*classes}
    for text in (text for texts in splits.values() for text in texts):
        if text.label and text.label not in names:
            raise ValueError(
                f"{text.place}: {text.label[:40]} is not one of {shown}; add texts of it to "
                f"{Path(table.name).name}, or correct the line, CLASS<tab>TEXT"
            )
    return classes


def check_header(splits: Splits) -> None:
    """Check that the files do not begin with the same line, with a class that no other line has.

    Raises:
        ValueError: they do.
    """
    first, *others = (texts[0] for texts in splits.values())
    count = sum(text.label == first.label for texts in splits.values() for text in texts)
    if first.label and count == len(splits) and all(text[:2] == first[:2] for text in others):
        raise ValueError(
            f"{first.place}: {first.label!r} looks like a header; remove it in each file"
        )


def keep_texts(texts: Sequence[Text], classes: Sequence[str]) -> list[Text]:
    """The training texts that are not empty; other splits keep theirs, in the order of the file."""
    kept = [text for text in texts if text.text.strip()]
    if len(kept) < len(texts):
        logger.info(f"dropped {len(texts) - len(kept):,} empty training texts")
    if absent := set(classes).difference(text.label for text in kept):
        source = Path(texts[0].file.name).parent
        raise ValueError(f"{source} has no training text of class {', '.join(sorted(absent))}")
    return kept


def hold_out(texts: Sequence[Text], fraction: float) -> tuple[list[Text], list[Text]]:
    """Split off *fraction* of each class at random, always the same; both parts keep the order."""
    places = defaultdict(list)
    for place, text in enumerate(texts):
        places[text.label].append(place)
    random = np.random.RandomState(SEED)
    drawn = {
        place
        for of_class in places.values()
        for place in random.permutation(of_class)[: int(len(of_class) * fraction)]
    }
    if not drawn:
        raise ValueError(
            f"--valid-fraction {fraction}: of {len(texts)} training texts this leaves none for "
            "validation"
        )
    kept = [text for place, text in enumerate(texts) if place not in drawn]
    return kept, [texts[place] for place in sorted(drawn)]


def write_pieces(splits: Splits, labels: Labels, vocab: Path, folder: Path) -> None:
    """Write the texts of each split as pieces of *vocab*."""
    pieces = read_pieces(vocab)
    dictionary = make_dictionary(piece for piece in pieces if piece not in SPECIAL)
    tokenizer = load_tokenizer(vocab)
    symbols = np.array([dictionary.index(piece) for piece in pieces])  # <unk> for other pieces

    def encode(split: str) -> Iterator[Encoded]:
        texts_of_pieces: dict[bytes, set[tuple]] = {}
        for start in range(0, len(splits[split]), BATCH_SIZE):
            batch = splits[split][start : start + BATCH_SIZE]
            encodings = tokenizer.encode_batch_fast([text.text for text in batch])
            for text, encoding in zip(batch, encodings):
                tokens = np.append(symbols[encoding.ids], dictionary.eos())
                if encoding.ids:
                    texts_of_pieces.setdefault(tokens.tobytes(), set()).add(text[:2])
                yield (tokens,), text.label
        warn_of_several_classes(split, texts_of_pieces.values())

    places = {text.label: text.place for text in reversed(splits["train"]) if text.label}
    encoded = {split: encode(split) for split in splits}
    labels.write(encoded, dictionary, folder, places)


def warn_of_several_classes(split: str, groups: Iterable[set[tuple]]) -> None:
    """Warn of texts that have several classes, as they are or only once split into word pieces.

    Args:
        groups: the classes and texts of a split whose texts have the same word pieces.
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


def prepare_texts(
    name: str, source: str, corpora: Mapping[str, Corpus[Labels]], arguments: Sequence[str]
) -> None:
    """The command ``odeformers prepare {name}``; of several corpora, its argument chooses one.

    Args:
        source: help of ``--from``.
    """
    several = len(corpora) > 1
    what = "Prepare labelled text for fairseq-train --task sentence_prediction."
    parser = make_parser(name, what, source, out="data/{data}")
    if several:
        parser.add_argument("data", metavar="DATA", choices=corpora, help=", ".join(corpora))
    else:
        parser.set_defaults(data=next(iter(corpora)))
    vocabulary = parser.add_mutually_exclusive_group()
    what = "vocab.txt of an uncased BERT (default: learn word pieces on the training texts)"
    add_path(vocabulary, "--vocab", what)
    add_number(vocabulary, "--vocab-size", VOCAB_SIZE, "number of word pieces to learn")
    what = (
        "share of each class of the training texts to hold out if there is no validation file; 0 "
        "for no validation set"
    )
    add_number(parser, "--valid-fraction", VALID_FRACTION, what, fraction)
    what = (
        "drop accents and other marks, as BERT's uncased vocabulary needs it (implied by --vocab)"
    )
    parser.add_argument("--strip-accents", action="store_true", help=what)
    args = parse_options(parser, arguments)
    corpus = corpora[args.data]
    if args.source is None and not any(download.url for download in corpus.source.downloads):
        parser.error(f"{args.data} needs --from")
    os.environ["RAYON_NUM_THREADS"] = str(args.workers)  # read by tokenizers
    with preparing(args, POSITIONS):
        prepare(corpus, args)


def prepare(corpus: Corpus[Labels], args: argparse.Namespace) -> None:
    """Write the binarised data, with the word pieces in ``vocab.txt``."""
    if args.vocab:
        read_pieces(args.vocab)
    strip_accents = args.strip_accents or args.vocab is not None
    files = corpus.files(args.source, args.out)

    def make(folder: Path) -> None:
        splits = read_splits(corpus, files)
        classes = find_classes(corpus.writer.classes, splits)
        splits["train"] = keep_texts(splits["train"], classes)
        if "valid" not in splits and args.valid_fraction:
            splits["train"], splits["valid"] = hold_out(splits["train"], args.valid_fraction)
        pieces = folder / "vocab.txt"
        if args.vocab:
            shutil.copy(args.vocab, pieces)
        else:
            texts = [text.text for text in splits["train"]]
            learn_pieces(texts, args.vocab_size, pieces, strip_accents)
        write_normalization(pieces, strip_accents)
        write_pieces(splits, replace(corpus.writer, classes=classes), pieces, folder)

    inputs = {
        "data": args.data,
        "from": fingerprint(files),
        "vocab": sha256(args.vocab) if args.vocab else args.vocab_size,
        "valid_fraction": args.valid_fraction,
        "strip_accents": strip_accents,
    }
    step("dividing texts into word pieces", args.out / "data-bin", inputs, make)


def fraction(text: str) -> float:
    """The type of an option that is a share of the texts."""
    value = real_number(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text}: give a number from 0 to below 1")
    return value
