"""ListOps (Nangia and Bowman, 2018), with the lengths of the Long Range Arena (Tay et al., 2021).

An example is a nested expression of digits, and its class is the value, 0 to 9::

    [MAX 2 9 [MIN 4 7 ] 0 ]  ->  9

``[MED`` is the median, truncated, and ``[SM`` is the sum modulo 10. Published files contain binary
trees, ``( ( ( [MAX 2 ) 9 ) ] )``. As in the Long Range Arena, the parentheses are dropped, because
the brackets already determine the tree; the brackets are kept, so that there are 15 tokens.

Expressions are drawn as in the Long Range Arena. A node is an operator with probability 1/4;
otherwise, and always at the maximum depth, it is a digit. The root has depth 1. An operator has 2
to ``max_args`` arguments. Operators, digits and numbers of arguments are uniform. The length is the
number of tokens. Each expression with ``min_length < length < max_length`` is kept once.
"""

import hashlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count, islice, starmap
from pathlib import Path
from statistics import median

import numpy as np

from fairseq_odeformers.errors import InputError
from fairseq_odeformers.options import flag
from odeformers.parser import integer

from .common.command import SPLIT_NAMES, add_number, make_parser, parse_options, preparing, step
from .common.labels import Labels
from .common.tables import read_plain
from .common.tokens import map_rows

DIGITS = {str(digit): digit for digit in range(10)}
OPERATORS: dict[str, Callable[[list[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda args: int(median(args)),
    "[SM": lambda args: sum(args) % 10,
}
OPERATOR_NAMES = list(OPERATORS)
END = "]"
VOCABULARY = [*DIGITS, *OPERATORS, END]
WRITER = Labels([*DIGITS], symbols=VOCABULARY)

OPERATOR_PROBABILITY = 0.25
TREES = 4096  # number of trees drawn at a time; the result of a seed depends on it
PATIENCE = 200  # give up after this number of draws in a row without a new expression


def read(path: Path) -> Iterator[tuple[list[str], str]]:
    """Yield the tokens and the class of each example in a file of the Long Range Arena.

    A line is ``tree<TAB>class``; the first line is ``Source<TAB>Target``.
    """
    rows = read_plain(path)
    if (header := next(rows, (1, []))[1]) != ["Source", "Target"]:
        raise InputError(f"{path}, line 1 is {header!r}, expected Source<TAB>Target")
    for number, (tree, *labels) in rows:
        tokens = [token for token in tree.split() if token not in ("(", ")")]
        paired = sum(token in OPERATORS for token in tokens) == tokens.count(END)
        valid = tokens and {*tokens} <= {*VOCABULARY} and {*labels} <= {*DIGITS}
        if not (paired and valid and len(labels) == 1):
            raise InputError(f"{path}, line {number} is {tree[:80]!r}, expected tree<TAB>class")
        yield tokens, labels[0]


def to_numbers(tokens: Sequence[str], label: str) -> tuple[list[list[int]], str]:
    """Convert an example to the form that :meth:`.Labels.write_numbers` accepts."""
    return [[*map(VOCABULARY.index, tokens)]], label


@dataclass(frozen=True)
class Shape:
    """Limits of the expressions that are drawn; both lengths are exclusive."""

    min_length: int = 500
    max_length: int = 2000
    max_depth: int = 10
    max_args: int = 10


def generate(shape: Shape, seed: int, workers: int) -> Generator[tuple[list[str], str], None, None]:
    """Yield the tokens and the class of random expressions, all distinct, without end.

    The expressions do not depend on the number of processes, *workers*.
    """
    seen = set()
    misses = 0
    for examples in map_rows(_make_draw, (shape, seed), count(), workers, "drawing", chunk_size=1):
        before = len(seen)
        for tokens, label in examples:
            digest = hashlib.blake2b(" ".join(tokens).encode(), digest_size=16).digest()
            if digest not in seen:
                seen.add(digest)
                yield tokens, label
        misses = misses + 1 if len(seen) == before else 0
        if misses == PATIENCE:
            options = " ".join(f"{flag(name)} {value}" for name, value in asdict(shape).items())
            raise InputError(
                f"{options}: found only {before:,} distinct expressions; ask for fewer, or for "
                "different lengths"
            )


def _make_draw(shape: Shape, seed: int) -> Callable[[int], list[tuple[list[str], str]]]:
    return lambda number: draw(shape, np.random.default_rng([seed, number]))


def draw(shape: Shape, rng: np.random.Generator) -> list[tuple[list[str], str]]:
    """Draw ``TREES`` random expressions; return the tokens and classes of those that fit."""
    levels, length = grow(shape, rng)
    drawn = [
        (rng.integers(len(OPERATORS), size=len(args)), rng.integers(len(DIGITS), size=len(args)))
        for args, _ in levels
    ]
    chosen = (shape.min_length < length) & (length < shape.max_length)
    texts: list[str] = []  # like the values, one per node of a level
    values: list[int] = []
    for (args, tree), (operators, digits) in zip(reversed(levels), reversed(drawn)):
        nodes = np.flatnonzero(chosen[tree])
        texts_below, values_below = iter(texts), iter(values)
        texts, values = [], []
        for size, operator, digit in zip(*(x[nodes].tolist() for x in (args, operators, digits))):
            name = OPERATOR_NAMES[operator]
            if size:
                texts.append(" ".join([name, *islice(texts_below, size), END]))
                values.append(OPERATORS[name](list(islice(values_below, size))))
            else:
                texts.append(str(digit))
                values.append(digit)
    return [(text.split(), str(value)) for text, value in zip(texts, values)]


def grow(shape: Shape, rng: np.random.Generator) -> tuple[list[tuple[np.ndarray, ...]], np.ndarray]:
    """Draw ``TREES`` random trees. Trees that get too long stop growing.

    Returns:
        For each level, arrays over its nodes, in the order of their parents: the number of
        arguments (0 for a digit) and the number of the tree. And the number of tokens per tree.
    """
    levels = []
    tree = np.arange(TREES)
    length = np.zeros(TREES)
    for depth in range(1, shape.max_depth + 1):
        growing = (depth < shape.max_depth) & (length[tree] < shape.max_length)
        operator = growing & (rng.random(len(tree)) < OPERATOR_PROBABILITY)
        args = np.where(operator, rng.integers(2, shape.max_args + 1, len(tree)), 0)
        levels.append((args, tree))
        length += np.bincount(tree, 1 + operator, minlength=TREES)
        tree = np.repeat(tree, args)
    return levels, length


def main(arguments: Sequence[str]) -> None:
    parser = make_parser(
        "listops", "Generate ListOps, by default with the lengths of the Long Range Arena."
    )
    sizes = {"train": 96_000, "valid": 2_000, "test": 2_000}
    for split, size in sizes.items():
        add_number(parser, f"--{split}", size, f"number of {SPLIT_NAMES[split]} examples")
    add_number(parser, "--seed", 1, "random seed")
    tokens = "this many tokens"
    add_number(parser, "--min-length", Shape.min_length, f"drop expressions with at most {tokens}")
    add_number(parser, "--max-length", Shape.max_length, f"drop expressions with at least {tokens}")
    add_number(parser, "--max-depth", Shape.max_depth, "maximum depth of a tree; 1 for only a root")
    what, at_least_two = "maximum number of arguments of an operator", partial(integer, minimum=2)
    add_number(parser, "--max-args", Shape.max_args, what, at_least_two)
    args = parse_options(parser, arguments)
    shape = Shape(args.min_length, args.max_length, args.max_depth, args.max_args)
    sizes = {split: getattr(args, split) for split in sizes}

    def make(folder: Path) -> None:
        with closing(generate(shape, args.seed, args.workers)) as drawn:
            examples = starmap(to_numbers, drawn)
            splits = {split: islice(examples, size) for split, size in sizes.items()}
            WRITER.write_numbers(splits, folder)

    with preparing(args):
        inputs = {"sizes": sizes, "shape": asdict(shape), "seed": args.seed}
        step("drawing expressions", args.out / "data-bin", inputs, make)
