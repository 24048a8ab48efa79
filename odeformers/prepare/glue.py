"""GLUE (Wang et al., 2019): the eight tasks that pretrained models are fine-tuned on.

The published files are tables of tab-separated values without quoting. Their sentences become text
like the pretraining corpus: with normalised punctuation, in lower-case Moses tokens, and in BPE
subwords with codes learned on the training sentences by default. The result for a task, such as
``RTE-bin``, contains the folders ``input0``, ``input1`` (for pairs) and ``label`` that
``fairseq-train --task sentence_prediction`` loads. Test sets have no labels and keep their order.
MNLI's mismatched sets are ``valid1`` and ``test1``. STS-B's scores are divided by 5.
"""

import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

from fairseq.data import Dictionary
from sacremoses import MosesPunctNormalizer

from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import fingerprints, read_lines, reading
from fairseq_odeformers.text.moses import make_moses_tokenizer
from fairseq_odeformers.text.raw_text import read_codes

from .common import tokens
from .common.command import add_number, add_path, make_parser, parse_options, preparing, step
from .common.corpus import Corpus, Download, Files, fingerprint
from .common.labels import POSITIONS, Encoded, Labels
from .common.settings import check_sources
from .common.tables import read_plain

logger = logging.getLogger(__name__)

URL = "https://dl.fbaipublicfiles.com"
SPLITS = {"train": "train.tsv", "valid": "dev.tsv", "test": "test.tsv"}
MNLI_SPLITS = {
    "train": "train.tsv",
    "valid": "dev_matched.tsv",
    "valid1": "dev_mismatched.tsv",
    "test": "test_matched.tsv",
    "test1": "test_mismatched.tsv",
}
BINARY = ("0", "1")
ENTAILMENT = ("entailment", "not_entailment")
MAX_SCORE = 5
UNDECIDED_LABEL = "-"  # MultiNLI's label for pairs on which the annotators do not agree

# MRPC is published as Microsoft's corpus and a list of the pairs in GLUE's development set.
MSR_TRAIN, MSR_TEST = "msr_paraphrase_train.txt", "msr_paraphrase_test.txt"
MSR_DEV_IDS = "mrpc_dev_ids.tsv"
MSR = {
    f"{URL}/senteval/senteval_data/{MSR_TRAIN}": (
        "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89"
    ),
    f"{URL}/senteval/senteval_data/{MSR_TEST}": (
        "a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784"
    ),
    f"{URL}/glue/data/{MSR_DEV_IDS}": (
        "971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7"
    ),
}


@dataclass(frozen=True)
class Tables:
    """Reader of the published tables of a task.

    Attributes:
        sentences: columns of one or two sentences.
        archive: name and SHA-256 of the published archive.
        label: column of the label.
        labels: labels in the order of the classes; empty for a score from 0 to 5.
        files: file of each split.
        header: columns of the files with labels, if these files have no header line.
        ragged: whether to skip fragments of lines in the files with labels.
    """

    sentences: tuple[str, ...]
    archive: tuple[str, str] = ("", "")
    label: str = "label"
    labels: tuple[str, ...] = BINARY
    files: Mapping[str, str] = field(default_factory=lambda: SPLITS)
    header: tuple[str, ...] = ()
    ragged: bool = False

    def read(self, files: Files) -> Mapping[str, Iterable[list[str]]]:
        """Read the sentences of each example and, except in test sets, its label."""
        paths = {Path(name).name: path for name, path in files.items()}
        return {split: self.read_split(split, paths[name]) for split, name in self.files.items()}

    def read_split(self, split: str, path: Path) -> Iterator[list[str]]:
        rows = self.read_labelled(path)
        if split.startswith("test"):
            rows = (row for _, row in read_table(path, self.sentences))
        if (first := next(rows, None)) is None:
            raise InputError(f"{path} has no examples; give the complete file")
        yield from chain([first], rows)

    def read_labelled(self, path: Path, others: Sequence[str] = ()) -> Iterator[list[str]]:
        """Yield the sentences of each example, *others*, and the label."""
        columns = (*self.sentences, *others, self.label)
        undecided = 0
        for number, row in read_table(path, columns, self.header, self.ragged):
            if row[-1] == UNDECIDED_LABEL:
                undecided += 1
            else:
                yield [*row[:-1], self.target(row[-1], f"{path}, line {number}")]
        if undecided:
            logger.info(f"{path}: skipped {undecided:,} with label {UNDECIDED_LABEL}")

    def target(self, label: str, place: str) -> str:
        """Check a label and return it; a score is divided by the largest possible one."""
        if label in self.labels:
            return label
        with suppress(ValueError):
            if not self.labels and 0 <= (score := float(label)) <= MAX_SCORE:
                return str(score / MAX_SCORE)
        expected = ", ".join(self.labels) or f"0 to {MAX_SCORE}"
        raise InputError(f"{place}: {self.label} is {label!r}, expected {expected}")

    def downloads(self, task: str) -> list[Download]:
        name, sha256 = self.archive
        files = [f"{task}/{file}" for file in self.files.values()]
        return [Download(f"{URL}/glue/data/{name}", files, sha256)]


class Microsoft(Tables):
    """Reader of MRPC from Microsoft's files; a list names the pairs of the development set."""

    def read(self, files: Files) -> Mapping[str, Iterable[list[str]]]:
        ids = {line.strip() for line in read_lines(files[MSR_DEV_IDS])}
        train, valid = [], []
        for *texts, one, two, label in self.read_labelled(files[MSR_TRAIN], ("#1 ID", "#2 ID")):
            (valid if f"{one}\t{two}" in ids else train).append([*texts, label])
        if not valid:
            raise InputError(f"{files[MSR_DEV_IDS]} names no pair of {MSR_TRAIN}")
        return {"train": train, "valid": valid, "test": self.read_split("test", files[MSR_TEST])}

    def downloads(self, task: str) -> list[Download]:
        return [Download(url, [Path(url).name], sha256) for url, sha256 in MSR.items()]


def read_table(
    path: Path, columns: Sequence[str], header: Sequence[str] = (), ragged: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line of a table and its *columns*; see :class:`Tables`."""
    rows = read_plain(path)
    names = header or next(rows, (1, [""]))[1]
    if missing := [column for column in columns if column not in names]:
        raise InputError(
            f"{path} has no column {', '.join(missing)}; its columns are {', '.join(names)}"
        )
    places = [names.index(column) for column in columns]
    fragments = 0
    for number, row in rows:
        if ragged and len(row) != len(names):
            fragments += 1
        elif len(row) <= max(places):
            raise InputError(f"{path}, line {number} has {len(row)} of {len(names)} columns")
        else:
            yield number, [row[place] for place in places]
    if fragments:
        logger.info(f"{path}: skipped {fragments:,} lines without {len(names)} columns")


PAIR = ("sentence1", "sentence2")
TABLES = {
    "CoLA": Tables(
        ("sentence",),
        ("CoLA.zip", "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff"),
        header=("source", "label", "star", "sentence"),
    ),
    "SST-2": Tables(
        ("sentence",),
        ("SST-2.zip", "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa"),
    ),
    "MRPC": Microsoft(("#1 String", "#2 String"), label="Quality"),
    "STS-B": Tables(
        PAIR,
        ("STS-B.zip", "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85"),
        "score",
        labels=(),
    ),
    "QQP": Tables(
        ("question1", "question2"),
        ("QQP-clean.zip", "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0"),
        "is_duplicate",
        ragged=True,
    ),
    "MNLI": Tables(
        PAIR,
        ("MNLI.zip", "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633"),
        "gold_label",
        ("entailment", "neutral", "contradiction"),
        MNLI_SPLITS,
    ),
    "QNLI": Tables(
        ("question", "sentence"),
        ("QNLIv2.zip", "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5"),
        labels=ENTAILMENT,
    ),
    "RTE": Tables(
        PAIR,
        ("RTE.zip", "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee"),
        labels=ENTAILMENT,
    ),
}
TASKS = {
    task: Corpus(
        tables.downloads(task),
        tables.read,
        Labels(tables.labels, len(tables.sentences), positions=POSITIONS),
    )
    for task, tables in TABLES.items()
}


def tokenize(name: str, given: Path | None, out: Path, workers: int) -> str:
    """Write each column of each split of a task: ``out/tokenized/RTE/train.input0``, ...

    Returns:
        The fingerprint of the task's published files.
    """
    corpus = TASKS[name]
    files = corpus.files(given, out, f"raw/{name}")

    def make(folder: Path) -> None:
        rows = tokens.flatten(corpus.read(files))
        tokenizer = _make_row_tokenizer, (corpus.writer.inputs,)
        tokenized = tokens.map_rows(*tokenizer, rows, workers, name)
        tokens.write_rows(tokenized, folder, columns_of(corpus.writer))

    digest = fingerprint(files)
    what = f"{name}: reading and tokenising"
    step(what, out / "tokenized" / name, {"from": digest}, make)
    return digest


def columns_of(labels: Labels) -> list[str]:
    """Return the names of the columns of a row."""
    return [*(f"input{number}" for number in range(labels.inputs)), "label"]


def make_tokenizer() -> Callable[[str], str]:
    """Make a function that turns text into lower-case Moses tokens, like those for pretraining."""
    normalize = MosesPunctNormalizer("en").normalize
    tokenize = make_moses_tokenizer("en", escape=False)
    return lambda text: tokenize(normalize(text).lower())


def _make_row_tokenizer(sentences: int) -> Callable[[tokens.SplitRow], tokens.SplitRow]:
    tokenize = make_tokenizer()
    return lambda row: (row[0], [*map(tokenize, row[1][:sentences]), *row[1][sentences:]])


def learn_vocabulary(texts: Sequence[Path], bpe_operations: int, folder: Path) -> None:
    """Learn joint BPE codes and their dictionary; write them to ``code`` and ``dict.txt``."""
    words = tokens.count_words(texts)
    tokens.learn_codes(words, bpe_operations, folder / "code")
    bpe = read_codes(folder / "code")
    dictionary = Dictionary()
    for word, count in words.items():
        for symbol in bpe.segment(word).split():
            dictionary.add_symbol(symbol, n=count)
    dictionary.finalize(padding_factor=8)
    dictionary.save(str(folder / "dict.txt"))


def binarize(labels: Labels, tokenized: Path, codes: Path, dictionary: Path, folder: Path) -> None:
    """Encode and binarise the tokenised sentences and the labels of a task; scores stay text."""
    shutil.copy(codes, folder / "code")
    segment = tokens.make_bpe_encoder(codes)
    symbols = Dictionary.load(str(dictionary))

    def encode(rows: Iterator[tokens.Row]) -> Iterator[Encoded]:
        for row in rows:
            texts, label = segment(row[: labels.inputs]), row[labels.inputs :]
            ids = [symbols.encode_line(text, add_if_not_exist=False) for text in texts]
            yield ids, label[0] if label and labels.classes else None

    splits = tokens.read_rows(tokenized, columns_of(labels))
    labels.write({split: encode(rows) for split, rows in splits.items()}, symbols, folder)
    if not labels.classes:
        (folder / "label").mkdir(exist_ok=True)
        for path in tokenized.glob("*.label"):
            shutil.copy(path, folder / "label")


def main(arguments: Sequence[str]) -> None:
    parser = make_parser(
        "glue",
        "Prepare GLUE tasks for fairseq-train --task sentence_prediction.",
        source="folder with the published files or the unpacked tasks, or an archive with these "
        "(default: download the files)",
        tasks=TASKS,
    )
    codes = parser.add_mutually_exclusive_group()
    what = "file with the BPE codes of the pretraining corpus (default: learn BPE on the tasks)"
    add_path(codes, "--bpe-codes", what)
    add_number(codes, "--bpe-operations", 32_000, "number of merges of the joint BPE")
    what = "fairseq's dictionary of the pretraining corpus; required with --bpe-codes"
    add_path(parser, "--dict", what)
    args = parse_options(parser, arguments)
    if bool(args.bpe_codes) != bool(args.dict):
        parser.error("--bpe-codes and --dict belong together; pass both or neither")
    names = list(TASKS if "all" in args.tasks else dict.fromkeys(args.tasks))
    with preparing(args):
        if args.bpe_codes:
            read_codes(args.bpe_codes)
            with reading(args.dict, "is not a dictionary of fairseq"):
                Dictionary.load(str(args.dict))
        inputs = {
            name: {"from": tokenize(name, args.source, args.out, args.workers)} for name in names
        }
        texts = {name: args.out / "tokenized" / name for name in names}
        vocabulary = args.bpe_codes, args.dict
        if not args.bpe_codes:
            learned = args.out / "vocabulary"
            train = [path for text in texts.values() for path in sorted(text.glob("train.input?"))]
            learn = partial(learn_vocabulary, train, args.bpe_operations)
            what = f"learning subwords (BPE, at most {args.bpe_operations:,} merges)"
            step(what, learned, {"text": inputs, "bpe_operations": args.bpe_operations}, learn)
            vocabulary = learned / "code", learned / "dict.txt"
        codes = fingerprints(vocabulary)
        inputs = {name: {**inputs[name], "vocabulary": codes} for name in names}
        for name in names:
            check_sources(args.out / f"{name}-bin", inputs[name])
        for name in names:
            make = partial(binarize, TASKS[name].writer, texts[name], *vocabulary)
            what = f"{name}: splitting words into subwords"
            step(what, args.out / f"{name}-bin", inputs[name], make)
