"""Expressions have their defined values, are drawn as published, and are read from files."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from script_helpers import labelled_texts

from odeformers.prepare import listops
from odeformers.prepare.listops import Shape, generate, read

SHAPE = Shape(min_length=20, max_length=60, max_depth=5, max_args=4)


def nested(tokens):
    """An expression as lists, ``["[MAX", 2, ["[MIN", 4, 7]]``, with its depth and arguments."""
    if tokens[0].isdigit():
        return int(tokens.pop(0)), 1, 0
    tree, depths, args = [tokens.pop(0)], [], []
    while tokens[0] != "]":
        branch, depth, most = nested(tokens)
        tree.append(branch)
        depths.append(depth)
        args.append(most)
    tokens.pop(0)
    return tree, 1 + max(depths), max(len(depths), *args)


def value(tree):
    """The definition of the operators, literally."""
    if isinstance(tree, int):
        return tree
    args = np.array([value(branch) for branch in tree[1:]])
    return {
        "[MIN": lambda: args.min(),
        "[MAX": lambda: args.max(),
        "[MED": lambda: math.trunc(np.median(args)),
        "[SM": lambda: args.sum() % 10,
    }[tree[0]]()


def examples(count, seed=1):
    return list(itertools.islice(generate(SHAPE, seed, workers=1), count))


@pytest.fixture(scope="module")
def drawn():
    return examples(3000)


def test_drawn_expressions_reach_their_bounds(drawn):
    """All expressions differ and have their values, and another seed gives others.

    Their tokens are uniform.
    """
    sizes = set()
    for tokens, label in drawn:
        rest = list(tokens)
        tree, depth, args = nested(rest)
        assert rest == []
        sizes.add((len(tokens), depth, args))
        assert label == str(value(tree))
    lengths, depths, args = map(set, zip(*sizes))
    assert (min(lengths), max(lengths)) == (SHAPE.min_length + 1, SHAPE.max_length - 1)
    assert (max(depths), max(args)) == (SHAPE.max_depth, SHAPE.max_args)
    known = {tuple(tokens) for tokens, _ in drawn}
    assert len(known) == len(drawn)
    assert not known & {tuple(tokens) for tokens, _ in examples(100, seed=2)}
    counts = Counter(token for tokens, _ in drawn for token in tokens)
    for symbols in (listops.DIGITS, listops.OPERATORS):
        share = sum(counts[symbol] for symbol in symbols) / len(symbols)
        assert [counts[symbol] for symbol in symbols] == pytest.approx([share] * len(symbols), 0.05)


def test_all_expressions_of_a_small_kind_are_drawn_once(monkeypatch):
    """All 400 expressions of one operator and two digits are found, and no others."""
    monkeypatch.setattr(listops, "PATIENCE", 10)
    results = []
    with pytest.raises(ValueError, match="--max-args 2: found only 400 "):
        for tokens, _ in generate(Shape(3, 5, max_depth=2, max_args=2), seed=1, workers=1):
            results.append(" ".join(tokens))
    expected = itertools.product(listops.OPERATORS, range(10), range(10))
    assert sorted(results) == sorted(f"{operator} {a} {b} ]" for operator, a, b in expected)


def test_nodes_are_drawn_as_in_the_long_range_arena():
    """Over 40,000 trees, numbers of operators and arguments are within five standard deviations."""
    rng = np.random.default_rng(1)
    trees = [listops.grow(Shape(1, 10**9, 3, 5), rng)[0] for _ in range(10)]
    for depth, probability in enumerate([0.25, 0.25, 0]):
        args = np.concatenate([levels[depth][0] for levels in trees])
        operators = (args > 0).sum()
        deviation = math.sqrt(len(args) * probability * (1 - probability))
        assert abs(operators - len(args) * probability) <= 5 * deviation
        counts = Counter(args[args > 0].tolist())
        assert set(counts) == ({2, 3, 4, 5} if probability else set())
        for count in counts.values():
            assert abs(count - operators / 4) < 5 * math.sqrt(operators * 3 / 16)


def test_the_command_writes_data_for_fairseq(prepare, drawn):
    """The splits are disjoint parts of one stream with its classes, for any number of workers.

    The end of an expression is marked.
    """
    sizes = {"train": 40, "valid": 20, "test": 10}
    options = "--min-length 20 --max-length 60 --max-depth 5 --max-args 4 --seed 1"
    split_sizes = [f"--{split}={size}" for split, size in sizes.items()]
    prepare(f"listops {options}", None, *split_sizes, workers=2)
    splits = [labelled_texts(prepare.out / "data-bin", split) for split in sizes]
    assert [*map(len, splits)] == [*sizes.values()]
    assert sum(splits, []) == [(label, " ".join(tokens)) for tokens, label in drawn[:70]]


def test_published_files_are_read(tmp_path):
    """Published expressions are binary trees, on lines that end as the csv module ends them."""
    tree = "( ( ( [MAX 2 ) ( ( ( [MIN 4 ) 7 ) ] ) ) ] )"
    (tmp_path / "train.tsv").write_bytes(f"Source\tTarget\r\n{tree}\t4\r\n5\t5\r\n".encode())
    expected = [("[MAX 2 [MIN 4 7 ] ]".split(), "4"), (["5"], "5")]
    assert list(read(tmp_path / "train.tsv")) == expected


HEADER = "Source\tTarget"


@pytest.mark.parametrize(
    "lines, number",
    [
        ([], 1),
        (["[MAX 4 ]\t4"], 1),
        ([HEADER, "[MAX 4 ]\t4", ""], 3),
        ([HEADER, "[MAX 4 ] 4"], 2),
        ([HEADER, "[MAX 4 ]\t10"], 2),
        ([HEADER, "4\t[MAX 4 ]"], 2),
        ([HEADER, "[MUL 4 ]\t4"], 2),
        ([HEADER, "[MAX 4 10 ]\t4"], 2),
        ([HEADER, "\t4"], 2),
        ([HEADER, "[MAX 4 [MIN 3 ]\t4"], 2),
        ([HEADER, "4\t4\t4"], 2),
    ],
)
def test_a_bad_line_is_named(lines, number, tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(ValueError, match=f"^{path}, line {number} is "):
        list(read(path))


@pytest.mark.parametrize(
    "shape", [Shape(30, 31, 5, 4), Shape(26, 2000, max_depth=3, max_args=4), Shape(40, 30, 5, 4)]
)
def test_impossible_shapes_are_named(shape, monkeypatch):
    monkeypatch.setattr(listops, "PATIENCE", 3)
    options = f"^--min-length {shape.min_length} --max-length {shape.max_length} .* found only 0 "
    with pytest.raises(ValueError, match=options):
        next(generate(shape, seed=1, workers=1))
