"""GLUE (Wang et al., 2019): the eight tasks that pretrained models are fine-tuned on.

The published files are tables of tab-separated values without quoting. Their sentences become text
like the pretraining corpus: with normalised punctuation, in lower-case Moses tokens, byte-pair
encoded, by default with codes learned on the training sentences. The result of a task, such as
``RTE-bin``, has the folders ``input0``, ``input1`` (for pairs) and ``label`` that ``fairseq-train
--task sentence_prediction`` loads. Test sets have no labels and keep their
order. MNLI's mismatched sets are ``valid1`` and ``test1``. STS-B's scores are divided by 5.
"""

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import Dictionary
from sacremoses import MosesPunctNormalizer

from fairseq_odeformers.data.moses import make_moses_tokenizer
from fairseq_odeformers.data.raw_text import read_codes
from fairseq_odeformers.files import fingerprints, read_lines, reading

from .common import tokens
from .common.command import add_number, add_path, make_parser, parse_options, preparing
from .common.corpus import Corpus, choose
from .common.labels import Encoded, Labels
from .common.log import step
from .common.source import Download, File, Files, Source, fingerprint
from .common.texts import POSITIONS

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
UNDECIDED = "-"  # MultiNLI's label of pairs on which the annotators do not agree

MSR_TRAIN, MSR_TEST, MSR_DEV_IDS = MSR_FILES = (
    "msr_paraphrase_train.txt",
    "msr_paraphrase_test.txt",
    "mrpc_dev_ids.tsv",
)


@dataclass(frozen=True)
class Tables:
    """Reads the published tables of a task.

    Attributes:
        sentences: the columns of one or two sentences.
        label: the column of the label.
        labels: the labels in the order of the classes; none for a score from 0 to 5.
        files: the file of each split.
        header: the columns of the files with labels, if these have no header line.
        ragged: whether some lines of the files with labels are fragments, to be skipped.
    """

    sentences: tuple[str, ...]
    label: str = "label"
    labels: tuple[str, ...] = BINARY
    files: Mapping[str, str] = field(default_factory=lambda: SPLITS)
    header: tuple[str, ...] = ()
    ragged: bool = False

    def read(self, files: Files) -> dict[str, Iterator[list[str]]]:
        """The sentences of each example and, but in test sets, its label."""
        found = {Path(name).name: file for name, file in files.items()}
        return {
            split: self.read_examples(found[name], not split.startswith("test"))
            for split, name in self.files.items()
        }

    def read_examples(self, file: File, labelled: bool) -> Iterator[list[str]]:
        """The sentences of each example, and :meth:`target` of its label if it has one."""
        if labelled:
            columns = (*self.sentences, self.label)
            table = read_table(file, columns, self.header, self.ragged)
        else:
            table = read_table(file, self.sentences)
        count = undecided = 0
        for number, row in table:
            if labelled:
                if row[-1] == UNDECIDED:
                    undecided += 1
                    continue
                if (target := self.target(row[-1])) is None:
                    expected = ", ".join(self.labels) or f"0 to {MAX_SCORE}"
                    raise ValueError(
                        f"{file.name}, line {number}: {self.label} is {row[-1]!r}, expected "
                        f"{expected}"
                    )
                row[-1] = target
            count += 1
            yield row
        if not count:
            raise ValueError(f"{file.name} has no examples")
        if undecided:
            logger.info(f"{file.name}: skipped {undecided:,} with label {UNDECIDED}")

    def target(self, label: str) -> str | None:
        """The label, or the score divided by the largest one; None if it is not of this task."""
        if self.labels:
            return label if label in self.labels else None
        try:
            score = float(label)
        except ValueError:
            return None
        return str(score / MAX_SCORE) if 0 <= score <= MAX_SCORE else None


def read_table(
    file: File, columns: Sequence[str], header: Sequence[str] = (), ragged: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Line number and values of *columns* for each line of a table; see :class:`Tables`."""
    lines = (line.rstrip("\r").split("\t") for line in file.lines())
    names = header or next(lines, [""])
    if missing := [column for column in columns if column not in names]:
        raise ValueError(
            f"{file.name} has no column {', '.join(missing)}; its columns are {', '.join(names)}"
        )
    places = [names.index(column) for column in columns]
    fragments = 0
    for number, row in enumerate(lines, start=1 if header else 2):
        if ragged and len(row) != len(names):
            fragments += 1
        elif len(row) <= max(places):
            raise ValueError(f"{file.name}, line {number} has {len(row)} of {len(names)} columns")
        else:
            yield number, [row[place] for place in places]
    if fragments:
        logger.info(f"{file.name}: skipped {fragments:,} lines without {len(names)} columns")


def split_mrpc(files: Files) -> dict[str, File]:
    """MRPC's ``train.tsv``, ``dev.tsv`` and ``test.tsv`` from Microsoft's files."""
    tables = TABLES["MRPC"]
    columns = (tables.label, *tables.sentences)
    dev_ids = {line.strip() for line in files[MSR_DEV_IDS].lines()}
    splits = {"train": ["\t".join(columns)], "dev": ["\t".join(columns)]}
    for _, row in read_table(files[MSR_TRAIN], ("#1 ID", "#2 ID", *columns)):
        split = "dev" if "\t".join(row[:2]) in dev_ids else "train"
        splits[split].append("\t".join(row[2:]))
    if len(splits["dev"]) == 1:
        raise ValueError(f"{MSR_DEV_IDS} names no pair of {MSR_TRAIN}")
    texts = {f"MRPC/{split}.tsv": "\n".join(lines).encode() for split, lines in splits.items()}
    contents = {name: File(name, content) for name, content in texts.items()}
    return {**contents, "MRPC/test.tsv": files[MSR_TEST]}


PAIR = ("sentence1", "sentence2")
NLI = ("entailment", "neutral", "contradiction")
TABLES = {
    "CoLA": Tables(("sentence",), header=("source", "label", "star", "sentence")),
    "SST-2": Tables(("sentence",)),
    "MRPC": Tables(("#1 String", "#2 String"), "Quality"),
    "STS-B": Tables(PAIR, "score", labels=()),
    "QQP": Tables(("question1", "question2"), "is_duplicate", ragged=True),
    "MNLI": Tables(PAIR, "gold_label", NLI, MNLI_SPLITS),
    "QNLI": Tables(("question", "sentence"), labels=ENTAILMENT),
    "RTE": Tables(PAIR, labels=ENTAILMENT),
}
# What is at each address, below URL. MRPC is published as Microsoft's corpus and a list of the
# pairs that are GLUE's development set.
SHA256 = {
    "glue/data/CoLA.zip": "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff",
    "glue/data/SST-2.zip": "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa",
    "glue/data/STS-B.zip": "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85",
    "glue/data/QQP-clean.zip": "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0",
    "glue/data/MNLI.zip": "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633",
    "glue/data/QNLIv2.zip": "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5",
    "glue/data/RTE.zip": "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee",
    f"senteval/senteval_data/{MSR_TRAIN}": (
        "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89"
    ),
    f"senteval/senteval_data/{MSR_TEST}": (
        "a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784"
    ),
    f"glue/data/{MSR_DEV_IDS}": "971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7",
}
ARCHIVES = {"QQP": "QQP-clean", "QNLI": "QNLIv2"}  # that are not called as the task


def make_corpora(name: str) -> list[Corpus[Labels]]:
    """A task, for each way to name its files."""
    tables = TABLES[name]
    names = [f"{name}/{file}" for file in tables.files.values()]
    path = f"glue/data/{ARCHIVES.get(name, name)}.zip"
    downloads = [[Download(f"{URL}/{path}" if path in SHA256 else "", names, SHA256.get(path, ""))]]
    if name == "MRPC":
        paths = [path for file in MSR_FILES for path in SHA256 if Path(path).name == file]
        downloads += [[Download(f"{URL}/{p}", [Path(p).name], SHA256[p]) for p in paths]]
    labels = Labels(tables.labels, len(tables.sentences))
    return [Corpus(Source(parts), tables.read, labels) for parts in downloads]


TASKS = {name: make_corpora(name) for name in TABLES}


def prepare(
    names: Sequence[str],
    source: Path | None,
    out: Path,
    vocabulary: tuple[Path, Path] | None,
    bpe_operations: int,
    workers: int,
) -> None:
    """The binarised data of each task, with the byte-pair codes in ``code``.

    Args:
        source: None to download the published files.
        vocabulary: subword-nmt's codes and fairseq's dictionary; None to learn both on the training
            sentences of all named tasks.
    """
    if vocabulary:
        read_codes(vocabulary[0])
        with reading(vocabulary[1], "is no dictionary of fairseq's"):
            Dictionary.load(str(vocabulary[1]))
    inputs = {name: tokenize(name, source, out, workers) for name in names}
    tokenized = out / "tokenized"
    if vocabulary is None:
        learned = out / "vocabulary"
        texts = [
            tokenized / name / f"train.input{number}"
            for name in names
            for number in range(TASKS[name][-1].writer.inputs)
        ]
        learn = partial(learn_vocabulary, texts, bpe_operations)
        what = f"learning subwords (BPE, at most {bpe_operations:,} merges)"
        step(what, learned, {"text": inputs, "bpe_operations": bpe_operations}, learn)
        vocabulary = learned / "code", learned / "dict.txt"
    codes = fingerprints(vocabulary)
    for name in names:
        labels = TASKS[name][-1].writer
        make = partial(binarize, labels, tokenized / name, vocabulary, workers)
        what = f"{name}: splitting words into subwords"
        step(what, out / f"{name}-bin", {**inputs[name], "vocabulary": codes}, make)


def tokenize(name: str, given: Path | None, out: Path, workers: int) -> dict[str, Any]:
    """Write each column of each split of a task: ``out/tokenized/RTE/train.input0``, ...

    Returns what determines the text, as inputs of ``build``.
    """
    corpus = choose(TASKS[name], given)
    files = corpus.files(given, out)
    if MSR_TRAIN in files:
        files = split_mrpc(files)
    count = corpus.writer.inputs
    columns = [*(f"input{number}" for number in range(count)), "label"]

    def make(folder: Path) -> None:
        for split, rows in corpus.read(files).items():
            progress = f"{name}, {split}"
            rows = tokens.map_rows(_make_row_tokenizer, (count,), rows, workers, progress)
            labelled = not split.startswith("test")
            tokens.write_rows(zip(repeat(split), rows), folder, columns[: count + labelled])

    inputs = {"from": fingerprint(files)}
    step(f"{name}: reading and tokenising", out / "tokenized" / name, inputs, make)
    return inputs


def _make_row_tokenizer(sentences: int) -> Callable[[tokens.Row], tokens.Row]:
    tokenize = make_tokenizer()
    return lambda row: [*map(tokenize, row[:sentences]), *row[sentences:]]


def make_tokenizer() -> Callable[[str], str]:
    """A function that makes text like the pretraining corpus: lower-case Moses tokens."""
    normalize = MosesPunctNormalizer("en").normalize
    tokenize = make_moses_tokenizer("en", escape=False)
    return lambda text: tokenize(normalize(text).lower())


def learn_vocabulary(texts: Sequence[Path], bpe_operations: int, folder: Path) -> None:
    """Learn a joint byte-pair encoding, ``code``, and its dictionary, ``dict.txt``."""
    words = tokens.count_words(texts)
    tokens.learn_codes(words, bpe_operations, folder / "code")
    bpe = read_codes(folder / "code")
    dictionary = Dictionary()
    for word, count in words.items():
        for symbol in bpe.segment(word).split():
            dictionary.add_symbol(symbol, n=count)
    dictionary.finalize(padding_factor=8)
    dictionary.save(str(folder / "dict.txt"))


def binarize(
    labels: Labels, tokenized: Path, vocabulary: tuple[Path, Path], workers: int, folder: Path
) -> None:
    """Encode and binarise the tokenised sentences of a task, and its labels; scores stay text."""
    codes, dictionary = vocabulary
    shutil.copy(codes, folder / "code")

    def encode(split: str) -> Iterator[Encoded]:
        columns = (tokenized / f"{split}.input{number}" for number in range(labels.inputs))
        texts = zip(*map(read_lines, columns))
        progress = f"{tokenized.name}, {split}"
        sentences = tokens.map_rows(_make_indexer, vocabulary, texts, workers, progress)
        path = tokenized / f"{split}.label"
        classes = read_lines(path) if path.exists() and labels.classes else repeat(None)
        return zip(sentences, classes)

    splits = [split for split in MNLI_SPLITS if (tokenized / f"{split}.input0").exists()]
    labels.write({s: encode(s) for s in splits}, Dictionary.load(str(dictionary)), folder)
    if not labels.classes:
        (folder / "label").mkdir(exist_ok=True)
        for path in tokenized.glob("*.label"):
            shutil.copy(path, folder / "label")


def _make_indexer(codes: Path, dictionary: Path) -> Callable[[tokens.Row], list[np.ndarray]]:
    """A function that returns the indices of the subwords of each text of a row."""
    encode = tokens.make_bpe_encoder(codes)
    symbols = Dictionary.load(str(dictionary))

    def index(row: tokens.Row) -> list[np.ndarray]:
        return [symbols.encode_line(text, add_if_not_exist=False).numpy() for text in encode(row)]

    return index


def main(arguments: Sequence[str]) -> None:
    parser = make_parser(
        "glue",
        "Prepare GLUE tasks for fairseq-train --task sentence_prediction.",
        source="folder with the published files or the unpacked tasks, or an archive of them "
        "(default: download the files)",
        tasks=TASKS,
    )
    codes = parser.add_mutually_exclusive_group()
    what = "BPE codes of the pretraining corpus (default: learn BPE on the tasks)"
    add_path(codes, "--bpe-codes", what)
    add_number(codes, "--bpe-operations", 32_000, "merges of the joint BPE")
    what = "fairseq's dictionary of the pretraining corpus, needed with --bpe-codes"
    add_path(parser, "--dict", what)
    args = parse_options(parser, arguments)
    if bool(args.bpe_codes) != bool(args.dict):
        parser.error("--bpe-codes and --dict belong together; give both or neither")
    names = list(TASKS if "all" in args.tasks else dict.fromkeys(args.tasks))
    vocabulary = (args.bpe_codes, args.dict) if args.bpe_codes else None
    options = args.source, args.out, vocabulary, args.bpe_operations, args.workers
    with preparing(args, POSITIONS):
        prepare(names, *options)
