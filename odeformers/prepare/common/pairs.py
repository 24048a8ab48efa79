"""Sentence pairs that ``fairseq-train`` reads, made from raw parallel text.

The steps follow fairseq's translation examples: Moses tokenisation, lower-casing, cleaning of the
training pairs by length, a joint BPE, and ``fairseq-preprocess`` with a joined dictionary. The
splits are ``train``, ``valid``, and test sets with names that begin with ``test``.
"""

import logging
import re
import shutil
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from sacremoses import MosesPunctNormalizer

from fairseq_odeformers.data.binarised import count_examples
from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import read_lines
from fairseq_odeformers.text.detokenize import choose_references, make_detokenizer
from fairseq_odeformers.text.moses import make_moses_tokenizer
from odeformers.prepare import CORPORA

from . import tokens
from .checks import check_data, find_longest, fold
from .command import add_number, make_parser, parse_options, preparing, show_progress, step
from .corpus import Corpus, Files, fingerprint_each

logger = logging.getLogger(__name__)

# Warn if detokenisation changes the spaces of at least this share of the test texts.
MAX_RESPACED_SHARE = 0.01
MAX_COPIED_SHARE = 0.01  # warn if at least this share of pairs consists of the same text twice
MAX_DROPPED_SHARE = 0.1  # warn if more than this share of the training pairs is left out
EVALUATION = (".sgm", ".xml")  # extensions of evaluation sets from WMT and IWSLT
SEGMENT_TAG = re.compile(r'<seg id="[0-9]+">\s*|\s*</seg>\s*')
POSITIONS = 1024  # maximum number of subwords per sentence in fairseq's models by default

Pair = tuple[str, str]


def read_published(path: Path) -> Iterator[str]:
    """Yield the lines of a file, or the segments (``<seg id="...">`` lines) of an evaluation set.

    Entities such as ``&amp;`` stay as published.
    """
    for line in read_lines(path):
        if path.suffix not in EVALUATION:
            yield line
        elif "<seg id" in line:
            yield SEGMENT_TAG.sub("", line)


def read_sentences(path: Path) -> Iterator[str]:
    """Read lines by :func:`read_published`; segments get the apostrophe of the training text."""
    published = read_published(path)
    return map(replace_apostrophes, published) if path.suffix in EVALUATION else published


def replace_apostrophes(text: str) -> str:
    return text.replace("’", "'")


def read_documents(
    documents: Mapping[str, Sequence[Sequence[str]]],
    files: Files,
    sentences: Callable[[Path], Iterable[str]] = read_sentences,
) -> dict[str, Iterator[Pair]]:
    """Read the pairs of each split, skipping missing files.

    Args:
        documents: documents of each split, each as the names of two files.
        sentences: function that yields the sentences of a file.
    """
    return {
        split: chain.from_iterable(pair_up(files[a], files[b], sentences) for a, b in pairs)
        for split, pairs in documents.items()
        if files.keys() >= {*chain(*pairs)}
    }


def pair_up(
    first: Path, second: Path, sentences: Callable[[Path], Iterable[str]] = read_lines
) -> Iterator[Pair]:
    """Yield the pairs of two files.

    Raises:
        InputError: one file has more lines than the other, or both are empty.
    """
    number = 0
    pairs = zip_longest(sentences(first), sentences(second))
    for number, (source, target) in enumerate(pairs, start=1):
        if source is None or target is None:
            shorter, longer = (first, second) if source is None else (second, first)
            count = number + sum(1 for _ in pairs)
            raise InputError(
                f"sentences do not pair up: {shorter} has {number - 1:,}, and {longer} has "
                f"{count:,}; line N of one must be the translation of line N of the other"
            )
        yield source, target
    if not number:
        raise InputError(f"{first} and {second} are empty; write one sentence per line")


@dataclass(frozen=True)
class Pairs:
    """Writer of a parallel corpus.

    Attributes:
        langs: source and target language.
        bpe_operations: number of merges of the joint BPE, learned on the training pairs; None to
            fit it to these pairs.
        lowercase: whether to lower-case the text.
        normalized_splits: splits with punctuation normalised by Moses and with spaces in place of
            non-printing characters.
        aggressive_hyphens: whether to split words at hyphens (``a-b`` to ``a @-@ b``).
        max_tokens: maximum length of a side of a training pair.
        max_ratio: maximum ratio between the lengths of the two sides of a training pair.
        clean_byte_pairs: whether these lengths are counted in subwords instead of Moses tokens. In
            this case, BPE is learned before the cleaning.
        valid_interval: N, if a corpus has no ``valid`` and every N-th cleaned training pair goes
            there.
    """

    langs: tuple[str, str]
    bpe_operations: int | None
    lowercase: bool = True
    normalized_splits: tuple[str, ...] = ()
    aggressive_hyphens: bool = False
    max_tokens: int = 175
    max_ratio: float = 1.5
    clean_byte_pairs: bool = False
    valid_interval: int | None = None

    def write(
        self,
        read: Callable[[], Mapping[str, Iterable[Pair]]],
        inputs: dict[str, Any],
        out: Path,
        workers: int,
    ) -> None:
        """Tokenise, clean, encode and binarise a parallel corpus.

        All pairs of ``valid`` and test sets are kept, so that they stay aligned with the text.
        fairseq translates an empty line like any other, but ``fairseq-generate`` needs
        ``--skip-invalid-size-inputs-valid-test`` for sentences of more than 1,024 tokens.

        Args:
            read: function that returns the pairs of each split; it is only called if needed.
            inputs: everything that determines the pairs, as JSON values.
            out: folder with one folder for the result of each step: ``tokenized``, ``plain``,
                ``codes``, ``bpe`` and ``data-bin``. The file ``data-bin/code`` contains the BPE
                codes for ``fairseq-interactive --bpe subword_nmt --bpe-codes``.
        """
        tokenized, code = out / "tokenized", out / "codes" / "code"
        all_inputs = {**inputs, **asdict(self)}
        later = ["bpe_operations"]  # options that the tokenised text does not depend on
        if self.clean_byte_pairs:
            later += ["max_tokens", "max_ratio"]
        text_inputs = {name: value for name, value in all_inputs.items() if name not in later}
        tokenize = partial(self.tokenize, read, workers)
        step("step 1 of 4: reading and tokenising", tokenized, text_inputs, tokenize)
        train = [tokenized / f"train.{lang}" for lang in self.langs]
        merges = self.bpe_operations
        if merges is None:
            merges = all_inputs["bpe_operations"] = tokens.fit_merges(train)
        references = partial(self.write_references, read, tokenized)
        plain_inputs = {**inputs, "langs": self.langs}
        step("writing plain references", out / "plain", plain_inputs, references)

        def learn(folder: Path) -> None:
            tokens.learn_codes(tokens.count_words(train), merges, folder / code.name)

        what = f"step 2 of 4: learning subwords (BPE, at most {merges:,} merges)"
        step(what, code.parent, {**text_inputs, "bpe_operations": merges}, learn)
        encode = partial(self.encode, tokenized, code, workers)
        step("step 3 of 4: splitting words into subwords", out / "bpe", all_inputs, encode)
        binarize = partial(self.binarize, out / "bpe", code, workers)
        step("step 4 of 4: fairseq-preprocess", out / "data-bin", all_inputs, binarize)

    def tokenize(self, read: Callable, workers: int, folder: Path) -> None:
        """Write all splits in Moses tokens, cleaned if lengths are counted in these tokens.

        All pairs are read first, so that a bad line is found before minutes of tokenising.
        """
        counts, same = Counter(), Counter()
        for split, (source, target) in show_progress(tokens.flatten(read()), "reading"):
            counts[split] += 1
            same[split] += bool(source.strip()) and fold(source) == fold(target)
        logger.info(", ".join(f"{count:,} {split}" for split, count in counts.items()) + " pairs")
        for split, count in (+same).items():
            logger.log(
                logging.WARNING if count >= MAX_COPIED_SHARE * counts[split] else logging.INFO,
                f"{split}: {count:,} of {counts[split]:,} pairs have the same text on both sides; "
                "from such pairs, a model learns to copy",
            )
        rows = tokens.flatten(read())
        pairs = tokens.map_rows(_make_tokenizer, (self,), rows, workers, "tokenising")
        if not self.clean_byte_pairs:
            pairs = self.clean(pairs)
        tokens.write_rows(pairs, folder, self.langs)

    def write_references(self, read: Callable, tokenized: Path, folder: Path) -> None:
        """Write the pairs of all splits but ``train`` untokenised, as references for translations.

        Warn about test sets whose spaces detokenisation does not restore.
        """
        splits = {split: pairs for split, pairs in read().items() if split != "train"}
        tokens.write_rows(tokens.flatten(splits), folder, self.langs)
        lang = self.langs[1]
        detokenize = make_detokenizer(lang)
        for path in sorted(folder.glob(f"test*.{lang}")):
            published, of_tokens = list(read_lines(path)), read_lines(tokenized / path.name)
            references, changed = choose_references(list(of_tokens), published, detokenize)
            if changed and changed / len(published) >= MAX_RESPACED_SHARE:
                line = next(n for n, text in enumerate(published) if text != references[n])
                logger.warning(
                    f"{path.stem}: {changed / len(published):.0%} of the texts in {lang} have "
                    f"different spacing after detokenisation, such as line {line + 1}: "
                    f"{references[line]!r}; translations are compared with these"
                )

    def encode(self, tokenized: Path, code: Path, workers: int, folder: Path) -> None:
        """Write all splits in subwords, cleaned if lengths are counted in subwords."""
        rows = tokens.flatten(tokens.read_rows(tokenized, self.langs))
        pairs = tokens.map_rows(_make_encoder, (code,), rows, workers, "encoding")
        if self.clean_byte_pairs:
            pairs = self.clean(pairs)
        tokens.write_rows(pairs, folder, self.langs)

    def binarize(self, bpe: Path, code: Path, workers: int, folder: Path) -> None:
        """Run ``fairseq-preprocess``, and rename test sets, because fairseq numbers them."""
        source, target = self.langs
        tests = sorted(path.stem for path in bpe.glob(f"test*.{source}"))
        tokens.fairseq_preprocess(
            *["--source-lang", source, "--target-lang", target, "--joined-dictionary"],
            *["--trainpref", str(bpe / "train"), "--validpref", str(bpe / "valid")],
            f"--testpref={','.join(str(bpe / split) for split in tests)}",
            *["--destdir", str(folder), "--workers", str(workers)],
        )
        # Begin with the last set, because a new name may be fairseq's name for a later set.
        for number, split in reversed(list(enumerate(tests))):
            for lang in self.langs:
                for ending in (f".{source}-{target}.{lang}.{kind}" for kind in ("bin", "idx")):
                    (folder / f"test{number or ''}{ending}").rename(folder / f"{split}{ending}")
        shutil.copy(code, folder)
        check_data(folder, POSITIONS)

    def clean(self, rows: Iterable[tokens.SplitRow]) -> Iterator[tokens.SplitRow]:
        """Leave out training pairs with an empty or long side or with very different lengths.

        Every ``valid_interval``-th of the remaining pairs goes to ``valid``.
        """
        unit = "subwords" if self.clean_byte_pairs else "tokens"
        remedies = {
            "with an empty side": "fill both sides",
            f"with more than {self.max_tokens} {unit}": "divide long texts into sentences",
            f"with a ratio above {self.max_ratio:g}": "for text without spaces between words, "
            "divide it into words first, or raise --max-ratio",
        }
        reasons = [*remedies]
        dropped, kept = Counter(), 0
        for split, pair in rows:
            shorter, longer = sorted(len(sentence.split()) for sentence in pair)
            faults = shorter == 0, longer > self.max_tokens, longer > self.max_ratio * shorter
            if split == "train" and any(faults):
                dropped[reasons[faults.index(True)]] += 1
                continue
            if split == "train":
                kept += 1
                if self.valid_interval and kept % self.valid_interval == 0:
                    split = "valid"
            yield split, pair
        total = kept + dropped.total()
        left_out = "".join(f"; {dropped[reason]:,} {reason}" for reason in reasons)
        logger.log(
            logging.WARNING if kept < (1 - MAX_DROPPED_SHARE) * total else logging.INFO,
            f"cleaning leaves {kept:,} of {total:,} training pairs (left out: {left_out[2:]})",
        )
        if kept < (least := self.valid_interval or 1):
            reason = max(remedies, key=dropped.__getitem__) if dropped.total() > kept else ""
            raise InputError(
                f"cleaning leaves {kept} of {total} training pairs; at least {least} must remain: "
                f"{remedies.get(reason, 'give more pairs')}"
            )


def find_positions(data_bin: Path) -> list[str]:
    """Return the options with which models read the longest text of validation and test sets."""
    if (longest := find_longest(data_bin)) <= POSITIONS:
        return []
    return [f"--max-{side}-positions {longest}" for side in ("source", "target")]


def _make_tokenizer(writer: Pairs) -> Callable[[tokens.SplitRow], tokens.SplitRow]:
    langs = writer.langs
    normalizers = [MosesPunctNormalizer(lang) for lang in langs]
    tokenizers = [make_moses_tokenizer(lang, writer.aggressive_hyphens) for lang in langs]

    def tokenize_row(row: tokens.SplitRow) -> tokens.SplitRow:
        split, pair = row
        if split in writer.normalized_splits:
            texts = (n.normalize(text) for n, text in zip(normalizers, pair))
            pair = tuple(map(_replace_non_printing, texts))
        texts = (tokenize_text(text) for tokenize_text, text in zip(tokenizers, pair))
        return split, tuple(text.lower() if writer.lowercase else text for text in texts)

    return tokenize_row


def _replace_non_printing(text: str) -> str:
    """Replace characters of the Unicode categories C (control, ...) by spaces."""
    if text.isprintable():
        return text
    return "".join(" " if unicodedata.category(c).startswith("C") else c for c in text)


def _make_encoder(code: Path) -> Callable[[tokens.SplitRow], tokens.SplitRow]:
    encode_texts = tokens.make_bpe_encoder(code)
    return lambda row: (row[0], encode_texts(row[1]))


def prepare_pairs(
    name: str, corpora: Sequence[Corpus[Pairs]], arguments: Sequence[str], published: int = 0
) -> None:
    """Run the command ``odeformers prepare {name}``; an argument chooses one of several corpora.

    Args:
        published: approximate number of training pairs in the paper that describes the corpus.
    """
    pairs = {"-".join(corpus.writer.langs): corpus for corpus in corpora}
    title = CORPORA[name].split()[0].rstrip(",")
    parser = make_parser(
        name,
        f"Prepare {title} for fairseq-train --task translation.",
        out=f"data/{name}-{{pair}}" if len(pairs) > 1 else None,
        outs=" or ".join(f"data/{name}-{pair}" for pair in pairs) if len(pairs) > 1 else "",
        source="archive (tar, zip) of the corpus, or folder with its files or archives under their "
        "published names (default: download the corpus)",
    )
    parser.set_defaults(pair=next(iter(pairs)))
    if len(pairs) > 1:
        parser.add_argument("pair", choices=pairs, help="source and target language")
    merges = corpora[0].writer.bpe_operations
    add_number(parser, "--bpe-operations", merges, "number of merges of the joint BPE")
    args = parse_options(parser, arguments)
    corpus = pairs[args.pair]
    with preparing(args) as needed:
        files = corpus.files(args.source, args.out)
        writer = replace(corpus.writer, bpe_operations=args.bpe_operations)
        inputs = {"raw": [*fingerprint_each(files).items()]}
        writer.write(partial(corpus.read, files), inputs, args.out, args.workers)
        needed += find_positions(args.out / "data-bin")
        count = count_examples(next(args.out.glob("data-bin/train.*.idx")))
        if abs(count - published) > published / 10 > 0:
            logger.warning(
                f"train has {count:,} pairs, but the paper has about {published:,}: is this "
                "a different release of the corpus, or a part of it?"
            )
