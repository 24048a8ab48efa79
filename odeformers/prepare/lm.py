"""Your own tokenised text for a language model, one sentence or paragraph per line."""

from collections.abc import Sequence

from .common.corpus import Download
from .common.lines import Lines, prepare_lines, text_corpus

SOURCE = (
    "folder or archive (tar, zip) with train.txt, valid.txt and optionally test.txt, tokenised "
    "text with one sentence or paragraph per line (plain, .gz, .bz2 or .xz); or one such file to "
    "divide: its last tenth becomes the test set, the tenth before it the validation set"
)
CORPUS = text_corpus(Lines(), [Download("", ["train.txt", "valid.txt", "test.txt"])])


def main(arguments: Sequence[str]) -> None:
    prepare_lines("lm", SOURCE, CORPUS, arguments)
