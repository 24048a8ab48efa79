"""The user's parallel text: two files per split, or one table of pairs.

A folder contains ``train.de`` and ``train.en``, ``valid.*`` or ``val.*``, and any number of test
sets, such as ``test.*`` and ``test2016.*``. Two files ``corpus.de`` and ``corpus.en``, or one table
with one pair per line, are divided: validation and test pairs are drawn at random. A pair is only
drawn if its source and its target occur in no other pair, apart from case and spaces, so that no
side of a held-out pair is in another set. Pairs that are too long to translate are not drawn
either. Files may be compressed (``.gz``, ``.bz2``, ``.xz``).
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path

from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import check_path, fingerprints
from odeformers.parser import real_number

from .common.checks import fold
from .common.command import (
    SPLIT_NAMES,
    add_columns,
    add_number,
    make_parser,
    parse_options,
    preparing,
    split_columns,
)
from .common.corpus import is_archive, read_text, strip_compression
from .common.pairs import Pair, Pairs, find_positions, pair_up
from .common.tables import find_columns, name_sides, read_pairs

MAX_DRAWN_PAIRS = 2000  # a drawn set contains a tenth of all pairs, but at most this number
NO_LANGUAGES = {"txt", "text", "csv", "tsv", "jsonl"}  # extensions of any text
MAX_SIDE_LENGTH = 1000  # maximum number of letters (possible subwords) of a side that is drawn


def find_documents(source: Path, langs: Sequence[str]) -> dict[str, tuple[Path, Path]]:
    """Find the two files of each split in a folder, ``train`` first."""
    endings = "|".join(map(re.escape, langs))
    name = re.compile(rf"(train|valid|val|test.*?)\.({endings})")
    splits: dict[str, dict[str, Path]] = {"train": {}, "valid": {}}
    for path in sorted(source.iterdir()):
        if match := name.fullmatch(strip_compression(path.name)):
            check_path(path.name, f"{source}:", ":,")
            split = "valid" if match[1] == "val" else match[1]
            other = splits.setdefault(split, {}).setdefault(match[2], path)
            if other != path:
                raise InputError(f"{source} has both {other.name} and {path.name}; keep one")
    for split, paths in splits.items():
        if missing := [lang for lang in langs if lang not in paths]:
            raise InputError(
                f"{source} has no {' and no '.join(f'{split}.{m}' for m in missing)}; it needs "
                f"train and valid files that end in .{langs[0]} and .{langs[1]} (-s, -t)"
            )
    source_lang, target_lang = langs
    return {split: (paths[source_lang], paths[target_lang]) for split, paths in splits.items()}


def read_folder(
    documents: Mapping[str, tuple[Path, Path]], headers: Collection[str]
) -> dict[str, Iterator[Pair]]:
    """Read the pairs of each split; the files of splits in *headers* begin with a header."""
    return {
        split: islice(pair_up(*paths, read_text), split in headers, None)
        for split, paths in documents.items()
    }


def has_header(paths: tuple[Path, Path], langs: Sequence[str]) -> bool:
    """Return whether the first lines of two files name their sides or languages instead of a pair.

    Raises:
        InputError: each line names the other side.
    """
    cells = [next(read_text(path), "") for path in paths]
    columns = find_columns(f"{paths[0]}, line 1", cells, name_sides(langs))
    if columns == [1, 0]:
        raise InputError(
            f"{paths[0]}, line 1: {cells[0]!r} is the other language, and {paths[1]} has "
            f"{cells[1]!r}; swap the names of the files, or correct the lines"
        )
    return bool(columns)


def split_pairs(
    name: str,
    pairs: Sequence[Pair],
    sizes: Mapping[str, int | None],
    seed: int,
    longest: int = MAX_SIDE_LENGTH,
) -> dict[str, list[Pair]]:
    """Split pairs at random.

    Args:
        name: name of the file or files, for messages.
        sizes: number of pairs in each split except ``train``, which gets the rest; None for a tenth
            of the pairs.
        longest: maximum number of words of a side that is drawn. Sides with more than
            :data:`MAX_SIDE_LENGTH` letters are not drawn either, so that their subwords fit into a
            model with the default number of positions.
    """
    share = max(1, min(MAX_DRAWN_PAIRS, len(pairs) // 10))
    sizes = {split: size or share for split, size in sizes.items()}
    keys = [[*map(fold, pair)] for pair in pairs]
    counts = [Counter(side) for side in zip(*keys)]
    alone = [
        number
        for number, sides in enumerate(keys)
        if all(side and count[side] == 1 for side, count in zip(sides, counts))
    ]
    fitting = [n for n in alone if not any(is_long(side, longest) for side in pairs[n])]
    wanted = sum(sizes.values())
    if len(fitting) < wanted or len(pairs) <= wanted:
        sets = " and ".join(f"--{split} {size}" for split, size in sizes.items())
        long = f", {len(alone) - len(fitting):,} of them too long" if alone != fitting else ""
        remedy = "choose smaller sets, or add pairs"
        if 2 * len(alone) < len(pairs):
            labels = "odeformers prepare text-classification tsv"
            remedy += f"; if the lines are CLASS<tab>TEXT, use {labels}"
        raise InputError(
            f"{name}: {len(alone):,} of {len(pairs):,} pairs have sides that no other pair has"
            f"{long}; {sets} need {wanted:,} of these, and some pairs must be left for training; "
            f"{remedy}"
        )
    drawn = iter(random.Random(seed).sample(fitting, wanted))
    split_of = {next(drawn): split for split, size in sizes.items() for _ in range(size)}
    splits: dict[str, list[Pair]] = {split: [] for split in ("train", *sizes)}
    for number, pair in enumerate(pairs):
        splits[split_of.get(number, "train")].append(pair)
    return splits


def is_long(side: str, words: int) -> bool:
    """Return whether a side may have too many subwords for a model; see :func:`split_pairs`."""
    return len(side) > MAX_SIDE_LENGTH or len(side.split()) > words


def order_files(
    parser: argparse.ArgumentParser, args: argparse.Namespace
) -> tuple[Path, Path] | None:
    """Return the two files of ``--from``, source first, or None if there is only one path.

    The languages need not be given if they are the extensions of the files.
    """
    if len(args.source) == 1:
        return None
    if len(args.source) > 2 or any(path.is_dir() for path in args.source):
        given = " ".join(map(str, args.source))
        parser.error(f"--from {given}: pass a folder, a table, or two files, source and target")
    first, second = args.source
    endings = [Path(strip_compression(path.name)).suffix[1:] for path in args.source]
    given = args.source_lang, args.target_lang
    others = [ending for ending in endings if ending not in {*given, *NO_LANGUAGES}]
    if len(others) < given.count(None) and (plain := NO_LANGUAGES.intersection(endings)):
        ending = min(plain)
        parser.error(
            f"--from {first} {second}: the ending .{ending} is not a language; pass -s and -t"
        )
    args.source_lang = args.source_lang or (others.pop(0) if others else "")
    args.target_lang = args.target_lang or (others.pop(0) if others else "")
    swapped = endings == [args.target_lang, args.source_lang]
    return (second, first) if swapped else (first, second)


def read_two(paths: tuple[Path, Path], langs: Sequence[str]) -> list[Pair]:
    """Read the pairs of two files, without a header."""
    return [*islice(pair_up(*paths, read_text), int(has_header(paths, langs)), None)]


def main(arguments: Sequence[str]) -> None:
    parser = make_parser(
        "parallel",
        "Prepare your parallel text for fairseq-train --task translation.",
        out="data/own",
        source="folder with train, valid and test files of both languages (train.de, train.en, "
        "...); or two files of pairs (corpus.de corpus.en), or one table (tab-separated, .csv or "
        ".jsonl), to divide; plain, .gz, .bz2 or .xz",
        required=True,
        several=True,
    )
    for option, text in (("-s", "source"), ("-t", "target")):
        what = f"{text} language (default: from the extensions of two files)"
        parser.add_argument(option, f"--{text}-lang", metavar="LANG", help=what)
    parser.add_argument(
        "--keep-case",
        action="store_true",
        help="keep upper-case letters (default: lower-case the text)",
    )
    what = "maximum number of subwords per training sentence, and of words per sentence drawn for "
    add_number(parser, "--max-tokens", 100, f"{what}validation or test")
    add_number(
        parser,
        "--max-ratio",
        2,
        "maximum ratio of the lengths of the two sentences of a training pair",
        ratio,
    )
    what = "number of merges of the joint BPE (default: chosen by the size of the text)"
    add_number(parser, "--bpe-operations", None, what)
    for split in ("valid", "test"):
        what = f"number of {SPLIT_NAMES[split]} pairs to draw if --from is not a folder"
        add_number(
            parser, f"--{split}", None, f"{what} (default: a tenth, at most {MAX_DRAWN_PAIRS:,})"
        )
    add_number(parser, "--seed", 1, "random seed", int)
    add_columns(parser, "source", "target")
    args = parse_options(parser, arguments)
    two = order_files(parser, args)
    [source, *_] = args.source
    if not (args.source_lang and args.target_lang):
        more = "" if two or source.is_dir() else f"; if {source} is one of two files, pass both"
        needed = "-s/--source-lang, -t/--target-lang"
        parser.error(f"the following arguments are required: {needed}{more}")
    check_languages(parser, args.source_lang, args.target_lang)
    for path in args.source:
        if not path.is_dir() and is_archive(path):
            parser.error(f"--from {path}: an archive; unpack it, and pass the folder")
    if source.is_dir() and (args.valid or args.test):
        parser.error("--valid and --test divide pairs; the folder has a file for each set")
    if args.columns and (two or source.is_dir()):
        parser.error("--columns: only one table needs it; there is a file for each language")
    langs = args.source_lang, args.target_lang
    writer = Pairs(
        langs,
        args.bpe_operations,
        lowercase=not args.keep_case,
        max_tokens=args.max_tokens,
        max_ratio=args.max_ratio,
        clean_byte_pairs=True,
    )
    with preparing(args) as needed:
        if source.is_dir():
            documents = find_documents(source, langs)
            headers = [split for split, paths in documents.items() if has_header(paths, langs)]
            read = partial(read_folder, documents, headers)
            inputs = {"raw": fingerprints(chain(*documents.values()))}
        else:
            chosen = {"valid": args.valid, "test": args.test}
            columns = split_columns(args.columns)
            pairs = read_two(two, langs) if two else read_pairs(source, langs, columns)
            name = " and ".join(map(str, args.source))
            splits = split_pairs(name, pairs, chosen, args.seed, args.max_tokens)
            read = partial(dict, splits)
            sizes = {split: len(splits[split]) for split in chosen}
            raw = fingerprints(two or args.source)
            inputs = {"raw": raw, "sizes": sizes, "seed": args.seed}
            inputs |= {"columns": args.columns} if args.columns else {}
        writer.write(read, inputs, args.out, args.workers)
        needed += find_positions(args.out / "data-bin")


def check_languages(parser: argparse.ArgumentParser, source: str, target: str) -> None:
    """Check that fairseq can tell file names with the two languages apart."""
    if source == target:
        parser.error(f"-s and -t are both {source}; they name the endings of two files")
    for option, lang, other in (("-s", source, target), ("-t", target, source)):
        check_path(lang, option, ":,/ ")
        if lang.endswith(f".{other}"):
            parser.error(f"{option} {lang}: test.{lang} would also be a test set in {other}")


def ratio(text: str) -> float:
    """Parse an option that is a ratio of two lengths."""
    value = real_number(text)
    if not value >= 1:
        raise argparse.ArgumentTypeError(f"{text}: give 1 or more")
    return value
