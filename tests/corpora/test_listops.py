"""Expressions have the values of their definition, are drawn as they should be, and are read."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from fairseq.data import Dictionary, data_utils
from script_helpers import contents

from fairseq_odeformers.corpora import listops
from fairseq_odeformers.corpora.listops import Shape, evaluate, generate, parse, prepare, read

SHAPE = Shape(min_length=20, max_length=60, max_depth=5, max_args=4)


def nested(tokens):
    """An expression as lists, ``["[MAX", 2, ["[MIN", 4, 7]]``, and its depth and arguments."""
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


def binary(tree):
    """The published form of an expression, with the parentheses of a binary tree."""
    if isinstance(tree, int):
        return str(tree)
    text = tree[0]
    for branch in [*map(binary, tree[1:]), "]"]:
        text = f"( {text} {branch} )"
    return text


def examples(count, shape=SHAPE, seed=1, workers=1):
    return list(itertools.islice(generate(shape, seed, workers), count))


@pytest.fixture(scope="module")
def drawn():
    return examples(3000)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("7", 7),
        ("[MIN 4 2 9 ]", 2),
        ("[MAX 4 2 9 ]", 9),
        ("[MED 1 2 ]", 1),
        ("[MED 9 8 1 3 ]", 5),
        ("[MED 9 0 2 ]", 2),
        ("[SM 4 6 ]", 0),
        ("[SM 9 9 9 9 ]", 6),
        ("[MAX 2 9 [MIN 4 7 ] 0 ]", 9),
        ("[SM [MED 3 4 ] [MAX 1 8 ] [SM 5 6 7 ] ]", 9),
        ("( ( ( ( [MAX 2 ) 9 ) ( ( ( [MIN 4 ) 7 ) ] ) ) ] )", 9),
        ("( ( ( [SM 6 ) 7 ) ] )", 3),
    ],
)
def test_known_values(text, expected):
    assert evaluate(parse(text)) == expected


def test_depth_has_no_limit():
    assert evaluate(["[SM"] * 50_000 + ["3"] + ["]"] * 50_000) == 3


def test_drawn_expressions_are_within_bounds_and_have_their_values(drawn):
    for tokens, label in drawn:
        assert SHAPE.min_length < len(tokens) < SHAPE.max_length
        rest = list(tokens)
        tree, depth, args = nested(rest)
        assert rest == []
        assert depth <= SHAPE.max_depth and args <= SHAPE.max_args
        assert label == str(value(tree)) == str(evaluate(parse(binary(tree))))


def test_bounds_are_reached(drawn):
    lengths = {len(tokens) for tokens, _ in drawn}
    assert (min(lengths), max(lengths)) == (SHAPE.min_length + 1, SHAPE.max_length - 1)
    shapes = [nested(list(tokens))[1:] for tokens, _ in drawn]
    assert max(depth for depth, _ in shapes) == SHAPE.max_depth
    assert max(args for _, args in shapes) == SHAPE.max_args


def test_all_expressions_of_a_small_kind_are_drawn_once(monkeypatch):
    """Of one operator and two digits there are 400; none is left out, and no others are found."""
    monkeypatch.setattr(listops, "PATIENCE", 10)
    found = []
    with pytest.raises(ValueError, match="^found no more than 400 different expressions of Shape"):
        for tokens, _ in generate(Shape(3, 5, max_depth=2, max_args=2), seed=1, workers=1):
            found.append(" ".join(tokens))
    expected = itertools.product(listops.OPERATORS, range(10), range(10))
    assert sorted(found) == sorted(f"{operator} {a} {b} ]" for operator, a, b in expected)


def test_nodes_are_drawn_as_in_the_long_range_arena():
    """The numbers of operators and arguments over 40,000 trees, within five standard deviations."""
    rng = np.random.default_rng(1)
    levels = [listops.grow(Shape(1, 10**9, 3, 5), rng) for _ in range(10)]
    for depth, probability in enumerate([0.25, 0.25, 0]):
        args = np.concatenate([draw[depth] for draw in levels])
        operators = (args > 0).sum()
        deviation = math.sqrt(len(args) * probability * (1 - probability))
        assert abs(operators - len(args) * probability) <= 5 * deviation
        counts = Counter(args[args > 0].tolist())
        assert set(counts) == ({2, 3, 4, 5} if probability else set())
        for count in counts.values():
            assert abs(count - operators / 4) < 5 * math.sqrt(operators * 3 / 16)


def test_tokens_are_uniform(drawn):
    counts = Counter(token for tokens, _ in drawn for token in tokens)
    for symbols in (listops.DIGITS, listops.OPERATORS):
        total = sum(counts[symbol] for symbol in symbols)
        for symbol in symbols:
            assert counts[symbol] / total == pytest.approx(1 / len(symbols), rel=0.05)


def test_no_expression_is_drawn_twice(drawn):
    assert len({tuple(tokens) for tokens, _ in drawn}) == len(drawn)


def test_another_seed_gives_other_expressions(drawn):
    known = {tuple(tokens) for tokens, _ in drawn}
    assert not known & {tuple(tokens) for tokens, _ in examples(100, seed=2)}


def test_the_data_set_does_not_depend_on_the_workers(tmp_path):
    sizes = {"train": 1500, "valid": 20, "test": 10}
    folders = [
        prepare(tmp_path / f"out{workers}", sizes, SHAPE, seed=3, workers=workers)
        for workers in (1, 3)
    ]
    assert contents(folders[0]) == contents(folders[1])


def test_fairseq_reads_the_data_set(tmp_path, drawn):
    """The splits are disjoint parts of one stream, with its classes; the end is marked."""
    sizes = {"train": 40, "valid": 20, "test": 10}
    folder = prepare(tmp_path / "out", sizes, SHAPE, seed=1, workers=2)
    columns = {}
    for part in ("input0", "label"):
        dictionary = Dictionary.load(str(folder / part / "dict.txt"))
        columns[part] = []
        for split, size in sizes.items():
            dataset = data_utils.load_indexed_dataset(str(folder / part / split), dictionary)
            assert len(dataset) == size
            assert all(ids[-1] == dictionary.eos() for ids in dataset)
            columns[part] += [dictionary.string(ids) for ids in dataset]
    read_back = zip(columns["input0"], columns["label"])
    assert list(read_back) == [(" ".join(tokens), label) for tokens, label in drawn[:70]]


def write_published(path, layout, pairs):
    """The files of the Long Range Arena end their lines as the csv module does."""
    rows = [(binary(nested(list(tokens))[0]), label) for tokens, label in pairs]
    if layout == "lra":
        text = "".join(f"{tree}\t{label}\r\n" for tree, label in [("Source", "Target"), *rows])
    else:
        text = "".join(f"{label}\t{tree}\n" for tree, label in rows)
    path.write_bytes(text.encode())


@pytest.mark.parametrize("layout", ["lra", "spinn"])
def test_published_files_are_read(layout, tmp_path, drawn):
    write_published(tmp_path / "basic_train.tsv", layout, drawn[:50])
    assert list(read(tmp_path / "basic_train.tsv")) == drawn[:50]


@pytest.mark.parametrize(
    "line, message",
    [
        ("", " is '', expected class<TAB>tree"),
        ("4 ( [MAX", " is '4 ( [MAX', expected class<TAB>tree"),
        ("4\t", ": expected an expression, found nothing"),
        ("4\t[MUL 4 ]", ": token 1 is [MUL, expected a digit, [MIN, [MAX, [MED, [SM"),
        ("4\t[MAX ]", ": token 2 is ], expected a digit, [MIN, [MAX, [MED, [SM"),
        ("4\t[MAX 4 10 ]", ": token 3 is 10, expected a digit, [MIN, [MAX, [MED, [SM or ]"),
        ("4\t( [MAX 4 ] ) ]", ": token 4 is ], expected the end of the expression"),
        ("4\t4 [MAX", ": token 2 is [MAX, expected the end of the expression"),
        ("4\t[MAX 4 [MIN 3 ]", ": expected ] for [MAX, token 1, found the end"),
        ("5\t[MAX 4 3 ]", ": class is '5', expected 4, the value of the tree"),
        ("[MAX 4 3 ]\t4", ": class is '[MAX 4 3 ]', expected 4, the value of the tree"),
    ],
)
def test_a_bad_line_is_named(line, message, tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text(f"4\t( ( [MAX 4 ) ] )\n{line}\n")
    lines = read(path)
    assert next(lines) == (["[MAX", "4", "]"], "4")
    with pytest.raises(ValueError) as error:
        next(lines)
    assert str(error.value) == f"{path}, line 2{message}"


def test_a_line_that_is_not_utf8_is_named(tmp_path):
    (tmp_path / "train.tsv").write_bytes(b"4\t4\n4\t\xff\n")
    with pytest.raises(ValueError, match="train.tsv, line 2: not UTF-8"):
        list(read(tmp_path / "train.tsv"))


@pytest.mark.parametrize("text", ["", "Source\tTarget\r\n"])
def test_a_file_without_examples_is_an_error(text, tmp_path):
    (tmp_path / "train.tsv").write_text(text)
    with pytest.raises(ValueError, match="train.tsv has no examples"):
        list(read(tmp_path / "train.tsv"))


@pytest.mark.parametrize(
    "options, message",
    [
        (["--max-args", "1"], "--max-args 1: expected 2 or more"),
        (
            ["--min-length", "30", "--max-length", "31"],
            "--max-length 31: expected 32 or more, as lengths lie strictly between it and "
            "--min-length",
        ),
        (
            ["--min-length", "26", "--max-depth", "3", "--max-args", "4"],
            "--min-length 26: expected less than 26, the largest length at depth 3 with "
            "4 arguments",
        ),
    ],
)
def test_bad_options(options, message, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["listops.py", "--out", str(tmp_path / "out"), *options])
    with pytest.raises(SystemExit) as stopped:
        listops.main()
    assert stopped.value.code == f"odeformers prepare listops: error: {message}"
    assert list(tmp_path.iterdir()) == []


def test_main(tmp_path, monkeypatch, capsys):
    options = "--train 5 --valid 2 --test 1 --min-length 5 --max-length 30 --seed 4 --workers 1"
    monkeypatch.setattr("sys.argv", ["listops.py", "--out", str(tmp_path), *options.split()])
    listops.main()
    assert f"{tmp_path / 'data-bin'} is ready for fairseq-train" in capsys.readouterr().out
    expected = prepare(
        tmp_path / "again",
        {"train": 5, "valid": 2, "test": 1},
        Shape(min_length=5, max_length=30),
        seed=4,
        workers=1,
    )
    assert contents(tmp_path / "data-bin") == contents(expected)
