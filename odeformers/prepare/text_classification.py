"""Labelled text in word pieces: IMDb, AG News, and the user's tables of texts or pairs of texts.

IMDb (Maas et al., 2011) has 25,000 negative and positive film reviews for training, and as many for
testing. AG News (Zhang et al., 2015) has 120,000 and 7,600 news items on four subjects; the text is
the title and the description. Neither has a validation set: a tenth of the training texts of each
class, drawn at random, is held out. On IMDb, validation accuracy is higher than test accuracy (for
a bag of words, by 1.3 points), because the validation set shares films with the training set, but
the test set does not. To choose the best epoch by the test set, as papers do, train with
``--valid-subset test``.

Text becomes word pieces, which are learned on the training texts or read from an uncased BERT's
``vocab.txt`` (Devlin et al., 2019), and ends with ``</s>``. BERT's special pieces ``[CLS] [PAD]
[SEP] [UNK]`` become fairseq's ``<s> <pad> </s> <unk>``, and ``[MASK]`` becomes the ``<mask>`` that
``sentence_prediction`` adds when it loads the dictionary. So an embedding has as many rows as the
vocabulary has pieces.
"""

import argparse
import logging
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from fairseq_odeformers.data.classification import make_dictionary
from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import is_blank, read_lines, sha256
from fairseq_odeformers.inference.texts import cut
from fairseq_odeformers.text.word_pieces import (
    SPECIAL,
    learn_pieces,
    load_tokenizer,
    read_pieces,
    write_normalization,
)

from .common.checks import fold, list_few
from .common.command import (
    add_columns,
    add_number,
    add_path,
    fraction,
    make_parser,
    parse_options,
    preparing,
    split_columns,
    step,
)
from .common.corpus import Corpus, Download, Files, fingerprint
from .common.labels import POSITIONS, Encoded, Labels, hold_out
from .common.tables import Example, read_labelled, split_quoted

logger = logging.getLogger(__name__)

VOCAB_SIZE = 30_522
VALID_FRACTION = TEST_FRACTION = 0.1
SEED = 1  # the seed of the draw of texts that are held out
BATCH_SIZE = 1024  # number of texts that are encoded at a time


Splits = dict[str, list[Example]]


def read_imdb(path: Path) -> Iterator[Example]:
    """Read a review from a file in a folder named after its class; ``<br />`` is a line break."""
    yield path.parent.name, ["\n".join(read_lines(path)).replace("<br />", "\n")]


AG_NEWS = {"1": "World", "2": "Sports", "3": "Business", "4": "Sci/Tech"}


def read_agnews(path: Path) -> Iterator[Example]:
    """Read a quoted table of class, title and description."""
    for number, row in split_quoted(path, read_lines(path), ","):
        if len(row) != 3 or row[0] not in AG_NEWS:
            fault = "expected class (1 to 4), title and description"
            raise InputError(f"{path}, line {number}: {fault}")
        yield AG_NEWS[row[0]], [" ".join(row[1:])]


def read_each(read: Callable[[Path], Iterator[Example]], files: Files) -> Splits:
    """Read the texts of each split; the name of a file begins with the name of its split."""
    splits: Splits = {}
    for name, path in files.items():
        if not (texts := list(read(path))):
            raise InputError(f"{path} has no texts; give the complete file")
        splits.setdefault(name.split("/")[0].split(".")[0], []).extend(texts)
    return splits


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
TABLE = "{0}.tsv|{0}.csv|{0}.jsonl"
TABLES = Download("", [TABLE.format(split) for split in ("train", "valid", "test")])
CORPORA = {
    "imdb": Corpus([IMDB], partial(read_each, read_imdb), Labels(("neg", "pos"))),
    "agnews": Corpus(
        AG_NEWS_FILES,
        partial(read_each, read_agnews),
        Labels(tuple(AG_NEWS.values())),
        optional=["valid.csv"],
    ),
    "tsv": Corpus([TABLES], read_labelled, Labels(()), optional=[TABLE.format("valid")]),
}
SOURCE = (
    "folder or archive (tar, zip) with the published files, or with train.tsv, test.tsv and "
    "optionally valid.tsv of lines CLASS<tab>TEXT (or .csv with CLASS,TEXT, or .jsonl with one "
    "object per line), where lines in test.tsv may only have TEXT; or one such file, to draw a "
    "test set from; tables of pairs need a header, such as label,text1,text2, or --columns "
    "(default: download the published files)"
)


def write_pieces(splits: Splits, labels: Labels, vocab: Path, folder: Path) -> None:
    """Write the texts of each split as pieces from *vocab*.

    Warn about texts that become the same pieces but have different classes.
    """
    pieces = read_pieces(vocab)
    dictionary = make_dictionary(piece for piece in pieces if piece not in SPECIAL)
    tokenizer = load_tokenizer(vocab)
    symbols = np.array([dictionary.index(piece) for piece in pieces])  # <unk> for other pieces

    def encode(split: str) -> Iterator[Encoded]:
        alike = defaultdict(dict)  # the texts with the same pieces, one per class
        for start in range(0, len(splits[split]), BATCH_SIZE):
            batch = splits[split][start : start + BATCH_SIZE]
            columns = zip(*(texts for _, texts in batch))
            encodings = zip(*(tokenizer.encode_batch_fast(list(column)) for column in columns))
            for (label, texts), parts in zip(batch, encodings):
                tokens = [np.append(symbols[part.ids], dictionary.eos()) for part in parts]
                if all(part.ids for part in parts):
                    alike[np.concatenate(tokens).tobytes()].setdefault(label, " | ".join(texts))
                yield tokens, label
        if unclear := [texts for texts in alike.values() if len(texts) > 1]:
            classes, [text, *_] = list_few([*unclear[0]]), unclear[0].values()
            unit = "text" if labels.inputs == 1 else "pair"
            what = f"1 {unit} has" if len(unclear) == 1 else f"{len(unclear):,} {unit}s have"
            logger.warning(
                f"{split}: {what} several classes, first {cut(text)!r} ({classes}); texts with "
                "the same word pieces are treated as one text"
            )

    labels.write({split: encode(split) for split in splits}, dictionary, folder)


def hold_out_texts(
    examples: Sequence[Example], split: str, fraction: float, avoid: bool
) -> tuple[list[Example], list[Example]]:
    """Split off *fraction* of each class, drawn at random; both parts keep the order.

    Args:
        avoid: whether to draw examples without repeated texts first. Examples with a text that
            occurs in another example (apart from case and spaces) come next, and entire examples
            that are repeated come last.
    """
    keys = [tuple(map(fold, texts)) if avoid else () for _, texts in examples]
    wholes, parts = Counter(keys), Counter(chain(*keys))
    draw = np.random.RandomState(SEED).permutation

    def order(places: list[int]) -> list[int]:
        return sorted(draw(places), key=occurs_again)

    def occurs_again(place: int) -> tuple[bool, bool]:
        key = keys[place]
        return wholes[key] > 1, any(parts[part] > 1 for part in key)

    return hold_out(examples, (label for label, _ in examples), fraction, order, split)


def prepare(corpus: Corpus[Labels], table: Path | None, args: argparse.Namespace) -> None:
    """Write the binarised data, with the word pieces in ``vocab.txt``.

    Args:
        table: table to divide, or None if the corpus has a test set.
    """
    if args.vocab:
        read_pieces(args.vocab)
    strip_accents = args.strip_accents or args.vocab is not None
    files = {"train": table} if table else corpus.files(args.source, args.out)
    shares = {"test": args.test_fraction} if table else {}
    shares["valid"] = args.valid_fraction

    def make(folder: Path) -> None:
        splits = {split: list(texts) for split, texts in corpus.read(files).items()}
        inputs = len(splits["train"][0][1])
        train = [example for example in splits["train"] if not any(map(is_blank, example[1]))]
        if dropped := len(splits["train"]) - len(train):
            what = "empty training texts" if inputs == 1 else "training pairs with an empty text"
            logger.info(f"dropped {dropped:,} {what}")
        classes = corpus.writer.classes or sorted({label for label, _ in train})
        for split, share in shares.items():
            if split not in splits and share:
                logger.info(f"{split}: held out from the training texts, {share:g} of each class")
                train, splits[split] = hold_out_texts(train, split, share, table is not None)
        splits["train"] = train
        pieces = folder / "vocab.txt"
        if args.vocab:
            shutil.copy(args.vocab, pieces)
        else:
            texts = [*chain(*(texts for _, texts in train))]
            learn_pieces(texts, args.vocab_size, pieces, strip_accents)
        write_normalization(pieces, strip_accents)
        labels = replace(corpus.writer, classes=classes, inputs=inputs, positions=POSITIONS)
        write_pieces(splits, labels, pieces, folder)

    inputs = {
        "data": args.data,
        "from": fingerprint(files),
        "vocab": sha256(args.vocab) if args.vocab else args.vocab_size,
        **{f"{split}_fraction": share for split, share in shares.items()},
        "strip_accents": strip_accents,
        **({"columns": args.columns} if args.columns else {}),
    }
    step("dividing texts into word pieces", args.out / "data-bin", inputs, make)


def main(arguments: Sequence[str]) -> None:
    what = "Prepare labelled text for fairseq-train --task sentence_prediction."
    outs = "data/imdb, data/agnews or data/tsv"
    parser = make_parser("text-classification", what, SOURCE, out="data/{data}", outs=outs)
    what = "imdb, agnews, or tsv for your own tables"
    parser.add_argument("data", metavar="DATA", choices=CORPORA, help=what)
    vocabulary = parser.add_mutually_exclusive_group()
    what = "vocab.txt of an uncased BERT (default: learn word pieces on the training texts)"
    add_path(vocabulary, "--vocab", what)
    add_number(vocabulary, "--vocab-size", VOCAB_SIZE, "number of word pieces to learn")
    what = (
        "share of the training texts of each class to hold out if there is no validation file, or "
        "0 for no validation set"
    )
    add_number(parser, "--valid-fraction", VALID_FRACTION, what, fraction)
    what = (
        "share of the texts of each class to hold out as the test set if --from is one table "
        f"(default: {TEST_FRACTION})"
    )
    add_number(parser, "--test-fraction", None, what, fraction)
    what = (
        "drop accents and other marks, as needed for BERT's uncased vocabulary (implied by --vocab)"
    )
    parser.add_argument("--strip-accents", action="store_true", help=what)
    add_columns(parser, "class", "text", pairs=True)
    args = parse_options(parser, arguments)
    corpus = CORPORA[args.data]
    if args.columns:
        if args.data != "tsv":
            parser.error(f"--columns {args.columns}: {args.data} has fixed columns")
        read = partial(read_labelled, columns=split_columns(args.columns))
        corpus = replace(corpus, read=read)
    if args.source is None and not corpus.downloads[0].url:
        parser.error(f"{args.data} needs --from")
    endings = [".tsv", ".csv", ".jsonl", ".txt"] if args.data == "tsv" else []
    table = corpus.one_text(args.source, *endings)
    if table is None and args.test_fraction is not None:
        parser.error("--test-fraction divides one table; the source has a test set")
    if table and args.test_fraction is None:
        args.test_fraction = TEST_FRACTION
    os.environ["RAYON_NUM_THREADS"] = str(args.workers)  # read by the library tokenizers
    with preparing(args):
        prepare(corpus, table, args)
