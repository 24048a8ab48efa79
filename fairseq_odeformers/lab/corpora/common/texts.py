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
from collections.abc import Callable, Iterator, Mapping, Sequence
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

from .command import add_number, add_path, make_parser, parse_options, preparing, step
from .corpus import Corpus, Files, fingerprint
from .labels import Encoded, Labels, hold_out

logger = logging.getLogger(__name__)

VOCAB_SIZE = 30_522
VALID_FRACTION = 0.1
POSITIONS = 512  # tokens that sentence_prediction takes by default
SEED = 1  # for the texts that are held out
BATCH_SIZE = 1024  # texts that are encoded at a time


class Text(NamedTuple):
    label: str | None  # None in a test set without labels
    text: str
    place: str  # the file, and perhaps the line


Splits = dict[str, list[Text]]


def by_split(read: Callable[[Path], Iterator[Text]], files: Files) -> dict[str, Iterator[Text]]:
    """The texts of each split, which the first part of a file's name says."""
    splits = {}
    for split in ("train", "test", "valid"):
        found = [path for name, path in files.items() if name.split("/")[0].split(".")[0] == split]
        splits[split] = chain.from_iterable(map(read, found))
    return splits


def read_splits(corpus: Corpus[Labels], files: Files) -> Splits:
    """The texts of each split; ``valid`` may be missing, and so may labels of ``test``.

    Empty texts are dropped from the training set alone.

    Raises:
        ValueError: another split has none, or the files begin with the same line, whose class no
            other line has.
    """
    splits = {}
    for split, texts in corpus.read(files).items():
        labelled = [t._replace(label=t.label and normalize("NFC", t.label)) for t in texts]
        if labelled or split != "valid":
            splits[split] = labelled
    if empty := [split for split, texts in splits.items() if not texts]:
        raise ValueError(f"{', '.join(files)}: there are no lines for {' and '.join(empty)}")
    first, *others = (texts[0] for texts in splits.values())
    count = sum(text.label == first.label for texts in splits.values() for text in texts)
    if first.label and count == len(splits) and all(text[:2] == first[:2] for text in others):
        raise ValueError(
            f"{first.place}: {first.label!r} looks like a header; remove it in each file"
        )
    return splits


def check_classes(splits: Splits, classes: Sequence[str]) -> None:
    """Check the classes of texts.

    Raises:
        ValueError: a text has another class, or none of the training texts has one.
    """
    names = {*classes}
    for text in chain(*splits.values()):
        if text.label and text.label not in names:
            known = ", ".join(name[:40] for name in classes[:5]) + ", ..." * (len(classes) > 5)
            raise ValueError(
                f"{text.place}: {text.label[:40]} is not one of {known}; correct the line, "
                "CLASS<tab>TEXT, or add training texts of it"
            )
    if absent := names.difference(text.label for text in splits["train"]):
        raise ValueError(f"there is no training text of class {', '.join(sorted(absent))}")


def write_pieces(splits: Splits, labels: Labels, vocab: Path, folder: Path) -> None:
    """Write the texts of each split as pieces of *vocab*.

    Texts that become the same pieces, but have several classes, are warned of.
    """
    pieces = read_pieces(vocab)
    dictionary = make_dictionary(piece for piece in pieces if piece not in SPECIAL)
    tokenizer = load_tokenizer(vocab)
    symbols = np.array([dictionary.index(piece) for piece in pieces])  # <unk> for other pieces

    def encode(split: str) -> Iterator[Encoded]:
        classes = defaultdict(set)  # of the texts of the same pieces
        for start in range(0, len(splits[split]), BATCH_SIZE):
            batch = splits[split][start : start + BATCH_SIZE]
            encodings = tokenizer.encode_batch_fast([text.text for text in batch])
            for text, encoding in zip(batch, encodings):
                tokens = np.append(symbols[encoding.ids], dictionary.eos())
                if encoding.ids:
                    classes[tokens.tobytes()].add(text.label)
                yield (tokens,), text.label
        if count := sum(len(each) > 1 for each in classes.values()):
            logger.warning(
                f"{split}: {count:,} texts have several classes, at least once they are split into "
                "word pieces; case, spaces and marks that --strip-accents drops tell none apart"
            )

    labels.write({split: encode(split) for split in splits}, dictionary, folder)


def prepare_texts(
    name: str, source: str, corpora: Mapping[str, Corpus[Labels]], arguments: Sequence[str]
) -> None:
    """The command ``odeformers prepare {name}``, whose argument chooses one of the corpora.

    Args:
        source: help of ``--from``.
    """
    what = "Prepare labelled text for fairseq-train --task sentence_prediction."
    parser = make_parser(name, what, source, out="data/{data}")
    parser.add_argument("data", metavar="DATA", choices=corpora, help=", ".join(corpora))
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
    if args.source is None and not corpus.downloads[0].url:
        parser.error(f"{args.data} needs --from")
    os.environ["RAYON_NUM_THREADS"] = str(args.workers)  # read by tokenizers
    with preparing(args):
        prepare(corpus, args)


def prepare(corpus: Corpus[Labels], args: argparse.Namespace) -> None:
    """Write the binarised data, with the word pieces in ``vocab.txt``."""
    if args.vocab:
        read_pieces(args.vocab)
    strip_accents = args.strip_accents or args.vocab is not None
    files = corpus.files(args.source, args.out)

    def make(folder: Path) -> None:
        splits = read_splits(corpus, files)
        classes = corpus.writer.classes
        classes = classes or sorted({text.label for text in splits["train"] if text.label})
        kept = [text for text in splits["train"] if text.text.strip()]
        if dropped := len(splits["train"]) - len(kept):
            logger.info(f"dropped {dropped:,} empty training texts")
        splits["train"] = kept
        check_classes(splits, classes)
        if "valid" not in splits and args.valid_fraction:
            labels = (text.label for text in kept)
            draw = np.random.RandomState(SEED).permutation
            splits["train"], splits["valid"] = hold_out(kept, labels, args.valid_fraction, draw)
        pieces = folder / "vocab.txt"
        if args.vocab:
            shutil.copy(args.vocab, pieces)
        else:
            texts = [text.text for text in splits["train"]]
            learn_pieces(texts, args.vocab_size, pieces, strip_accents)
        write_normalization(pieces, strip_accents)
        labels = replace(corpus.writer, classes=classes, positions=POSITIONS)
        write_pieces(splits, labels, pieces, folder)

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
