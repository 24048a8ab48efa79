"""Your parallel text: two files per split, or one file of tab-separated pairs.

A folder has ``train.de`` and ``train.en``, ``valid.*`` or ``val.*``, and any number of test sets,
such as ``test.*`` and ``test2016.*``. One file has one pair per line, and its validation and test
set are drawn at random. Pairs whose source or target is in the file again, apart from case and
spaces, are never drawn, so that no side of a held-out pair is in another set. Files may be
compressed (``.gz``, ``.xz``).
"""

import argparse
import logging
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from fairseq_odeformers.files import check_path
from fairseq_odeformers.options import real_number

from .common.command import add_number, make_parser, parse_options, preparing
from .common.pairs import POSITIONS, Documents, Pair, Pairs
from .common.source import File
from .common.tables import read_rows

HELD_OUT = 2000  # pairs of a validation or test set that is drawn, or a tenth of all


def read_text_lines(file: File) -> Iterator[str]:
    return (line.rstrip("\r") for line in file.lines())


def find_documents(source: Path, langs: tuple[str, str]) -> tuple[Documents, dict[str, File]]:
    """The documents of each split in a folder, ``train`` first, and its files."""
    endings = "|".join(map(re.escape, langs))
    name = re.compile(rf"(train|valid|val|test.*?)\.({endings})(\.gz|\.xz)?")
    splits: dict[str, dict[str, Path]] = {"train": {}, "valid": {}}
    for path in sorted(source.iterdir()):
        if match := name.fullmatch(path.name):
            check_path(path.name, f"{source}:", ":,")
            split = "valid" if match[1] == "val" else match[1]
            other = splits.setdefault(split, {}).setdefault(match[2], path)
            if other != path:
                raise ValueError(f"{source} has both {other.name} and {path.name}; keep one")
    for split, paths in splits.items():
        if missing := [lang for lang in langs if lang not in paths]:
            raise ValueError(
                f"{source} has no {' and no '.join(f'{split}.{m}' for m in missing)}; it needs "
                f"train and valid files that end in .{langs[0]} and .{langs[1]} (-s, -t)"
            )
    found = {split: [paths[lang] for lang in langs] for split, paths in splits.items()}
    documents = {split: [[path.name for path in pair]] for split, pair in found.items()}
    files = {path.name: File(str(path), path) for pair in found.values() for path in pair}
    return Documents(documents, read_text_lines), files


def read_pairs(file: File, langs: Sequence[str]) -> Iterator[Pair]:
    """The pairs of a file of lines ``source<TAB>target``."""
    for number, pair in read_rows(file, langs):
        if len(pair) != 2:
            raise ValueError(
                f"{file.name}, line {number}: {len(pair)} columns; give source<TAB>target, with "
                "one tab"
            )
        yield pair[0], pair[1]


def choose_sizes(file: File, langs: Sequence[str], chosen: dict[str, int | None]) -> dict[str, int]:
    """The number of pairs of each set to draw: as chosen, or a tenth of the file."""
    lines = sum(1 for _ in read_pairs(file, langs))
    if not lines:
        raise ValueError(f"{file.name} is empty; give a pair per line, source<TAB>target")
    share = max(1, min(HELD_OUT, lines // 10))
    sizes = {split: size or share for split, size in chosen.items()}
    logging.info(f"{sizes['valid']:,} pairs are for valid, and {sizes['test']:,} for test")
    return sizes


def split_pairs(
    file: File, langs: Sequence[str], sizes: dict[str, int], seed: int
) -> dict[str, list[Pair]]:
    """The pairs of each split of a file of lines ``source<TAB>target``, drawn at random.

    Args:
        sizes: number of pairs of each split but ``train``, which has the rest.
    """
    pairs = list(read_pairs(file, langs))
    keys = [[" ".join(side.casefold().split()) for side in pair] for pair in pairs]
    sources, targets = (Counter(side) for side in zip(*keys))
    alone = [
        number
        for number, (source, target) in enumerate(keys)
        if source and target and sources[source] == targets[target] == 1
    ]
    wanted = sum(sizes.values())
    if len(alone) < wanted or len(pairs) <= wanted:
        sets = " and ".join(f"--{split} {size}" for split, size in sizes.items())
        raise ValueError(
            f"{file.name} has {len(pairs):,} pairs, and {len(alone):,} whose sides no other pair "
            f"has; {sets} take {wanted:,} of these, and some pairs must be left to train with; "
            "lines CLASS<tab>TEXT are for odeformers prepare text-classification tsv"
        )
    drawn = iter(random.Random(seed).sample(alone, wanted))
    split_of = {next(drawn): split for split, size in sizes.items() for _ in range(size)}
    splits: dict[str, list[Pair]] = {split: [] for split in ("train", *sizes)}
    for number, pair in enumerate(pairs):
        splits[split_of.get(number, "train")].append(pair)
    return splits


def main(arguments: Sequence[str]) -> None:
    parser = make_parser(
        "parallel",
        "Prepare your parallel text for fairseq-train --task translation.",
        out="data/own",
        source="folder with train, valid and test files of both languages (train.de, train.en, "
        "...), or a file of tab-separated pairs; plain, .gz or .xz",
        required=True,
    )
    for option, text in (("-s", "source"), ("-t", "target")):
        parser.add_argument(
            option, f"--{text}-lang", metavar="LANG", required=True, help=f"{text} language"
        )
    parser.add_argument("--keep-case", action="store_true", help="do not lower-case the text")
    add_number(parser, "--max-tokens", 100, "largest number of subwords per training sentence")
    add_number(parser, "--max-ratio", 2, "largest length ratio of a training pair", ratio)
    what = "merges of the joint BPE (default: fit the text)"
    add_number(parser, "--bpe-operations", None, what)
    for split in ("valid", "test"):
        what = f"number of {split} pairs to draw from one file"
        add_number(parser, f"--{split}", None, f"{what} (default: a tenth, at most {HELD_OUT:,})")
    add_number(parser, "--seed", 1, "seed of the draw", int)
    args = parse_options(parser, arguments)
    check_languages(parser, args.source_lang, args.target_lang)
    if args.source.is_dir() and (args.valid or args.test):
        parser.error("--valid and --test divide one file; the folder has a file for each set")
    langs = args.source_lang, args.target_lang
    writer = Pairs(
        langs,
        args.bpe_operations,
        lowercase=not args.keep_case,
        max_tokens=args.max_tokens,
        max_ratio=args.max_ratio,
        clean_byte_pairs=True,
    )
    with preparing(args, POSITIONS):
        if args.source.is_dir():
            documents, files = find_documents(args.source, langs)
            read, draw = partial(documents.read, files), {}
        else:
            files = {args.source.name: (file := File(str(args.source), args.source))}
            sizes = choose_sizes(file, langs, {"valid": args.valid, "test": args.test})
            read = partial(split_pairs, file, langs, sizes, args.seed)
            draw = {"sizes": sizes, "seed": args.seed}
        raw = [(name, file.sha256()) for name, file in files.items()]
        writer.write(read, {"raw": raw, **draw}, args.out, args.workers)


def check_languages(parser: argparse.ArgumentParser, source: str, target: str) -> None:
    """Check that both languages make names of files that fairseq tells apart."""
    if source == target:
        parser.error(f"-s and -t are both {source}; they name the endings of two files")
    for option, lang, other in (("-s", source, target), ("-t", target, source)):
        check_path(lang, option, ":,/ ")
        if lang.endswith(f".{other}"):
            parser.error(f"{option} {lang}: test.{lang} would be a test set in {other}, too")


def ratio(text: str) -> float:
    """The type of an option that is a ratio of two lengths."""
    value = real_number(text)
    if not value >= 1:
        raise argparse.ArgumentTypeError(f"{text}: give 1 or more")
    return value
