"""Your parallel text: two files per split, or one table of pairs.

A folder has ``train.de`` and ``train.en``, ``valid.*`` or ``val.*``, and any number of test sets,
such as ``test.*`` and ``test2016.*``. One file has one pair per line, and its validation and test
set are drawn at random. Pairs whose source or target is in the file again, apart from case and
spaces, are never drawn, so that no side of a held-out pair is in another set. Files may be
compressed (``.gz``, ``.bz2``, ``.xz``).
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path

from fairseq_odeformers.files import check_path, fingerprints
from odeformers.arguments import real_number

from .common.checks import fold
from .common.command import (
    add_columns,
    add_number,
    make_parser,
    parse_options,
    preparing,
    split_columns,
)
from .common.corpus import ending_of, read_text, strip_compression
from .common.pairs import Pair, Pairs, pair_up
from .common.tables import find_columns, name_sides, read_pairs

ARCHIVES = (".tar", ".tgz", ".tbz2", ".txz", ".zip")
HELD_OUT = 2000  # pairs of a validation or test set that is drawn, or a tenth of all


def find_documents(source: Path, langs: Sequence[str]) -> dict[str, tuple[Path, Path]]:
    """The two files of each split in a folder, ``train`` first."""
    endings = "|".join(map(re.escape, langs))
    name = re.compile(rf"(train|valid|val|test.*?)\.({endings})")
    splits: dict[str, dict[str, Path]] = {"train": {}, "valid": {}}
    for path in sorted(source.iterdir()):
        if match := name.fullmatch(strip_compression(path.name)):
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
    source_lang, target_lang = langs
    return {split: (paths[source_lang], paths[target_lang]) for split, paths in splits.items()}


def read_folder(
    documents: Mapping[str, tuple[Path, Path]], headers: Collection[str]
) -> dict[str, Iterator[Pair]]:
    """The pairs of each split, whose two files begin with a header if it is in *headers*."""
    return {
        split: islice(pair_up(*paths, read_text), split in headers, None)
        for split, paths in documents.items()
    }


def has_header(paths: tuple[Path, Path], langs: Sequence[str]) -> bool:
    """Whether the first lines of two files name their sides, or languages, instead of a pair.

    Raises:
        ValueError: each names the other side.
    """
    cells = [next(read_text(path), "") for path in paths]
    columns = find_columns(f"{paths[0]}, line 1", cells, name_sides(langs))
    if columns == [1, 0]:
        raise ValueError(
            f"{paths[0]}, line 1: {cells[0]!r} is the other language, and {paths[1]} has "
            f"{cells[1]!r}; swap the names of the files, or correct the lines"
        )
    return bool(columns)


def split_pairs(
    path: Path, pairs: Sequence[Pair], sizes: Mapping[str, int | None], seed: int
) -> dict[str, list[Pair]]:
    """The pairs of each split of a file, drawn at random.

    Args:
        path: of the file, in messages.
        sizes: number of pairs of each split but ``train``, which has the rest; None for a tenth of
            the file.
    """
    share = max(1, min(HELD_OUT, len(pairs) // 10))
    sizes = {split: size or share for split, size in sizes.items()}
    keys = [[*map(fold, pair)] for pair in pairs]
    counts = [Counter(side) for side in zip(*keys)]
    alone = [
        number
        for number, sides in enumerate(keys)
        if all(side and count[side] == 1 for side, count in zip(sides, counts))
    ]
    wanted = sum(sizes.values())
    if len(alone) < wanted or len(pairs) <= wanted:
        sets = " and ".join(f"--{split} {size}" for split, size in sizes.items())
        raise ValueError(
            f"{path} has {len(pairs):,} pairs, and {len(alone):,} whose sides no other pair "
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
        "...), or one table of pairs (tab-separated, .csv or .jsonl); plain, .gz, .bz2 or .xz",
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
    add_columns(parser, "source", "target")
    args = parse_options(parser, arguments)
    check_languages(parser, args.source_lang, args.target_lang)
    if not args.source.is_dir() and ending_of(args.source) in ARCHIVES:
        parser.error(f"--from {args.source}: an archive; unpack it, and give the folder")
    if args.source.is_dir() and (args.valid or args.test):
        parser.error("--valid and --test divide one file; the folder has a file for each set")
    if args.source.is_dir() and args.columns:
        parser.error("--columns: for one table; the folder has a file for each language")
    langs = args.source_lang, args.target_lang
    writer = Pairs(
        langs,
        args.bpe_operations,
        lowercase=not args.keep_case,
        max_tokens=args.max_tokens,
        max_ratio=args.max_ratio,
        clean_byte_pairs=True,
    )
    with preparing(args):
        if args.source.is_dir():
            documents = find_documents(args.source, langs)
            headers = [split for split, paths in documents.items() if has_header(paths, langs)]
            read = partial(read_folder, documents, headers)
            inputs = {"raw": fingerprints(chain(*documents.values()))}
        else:
            chosen = {"valid": args.valid, "test": args.test}
            pairs = read_pairs(args.source, langs, split_columns(args.columns))
            splits = split_pairs(args.source, pairs, chosen, args.seed)
            read = partial(dict, splits)
            sizes = {split: len(splits[split]) for split in chosen}
            inputs = {"raw": fingerprints([args.source]), "sizes": sizes, "seed": args.seed}
            inputs |= {"columns": args.columns} if args.columns else {}
        writer.write(read, inputs, args.out, args.workers)


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
