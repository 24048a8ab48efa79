"""A user's parallel text becomes a data set; errors name the mistakes in it."""

import gzip
import lzma
import random
import re
from collections import Counter
from pathlib import Path

import pytest
from published import write_folder
from script_helpers import binarized_lines, lines

from fairseq_odeformers.registry import Kind
from odeformers.compare.experiment import find_test_sets
from odeformers.compare.outcome import read_texts

LANGS = ("de", "en")
WORDS = {"de": "Hund Katze Maus läuft".split(), "en": "dog cat mouse runs".split()}


def sentences(size, seed):
    """Pairs of a sentence and its translation, word by word."""
    drawn = random.Random(seed)
    places = [[drawn.randrange(4) for _ in range(6)] for _ in range(size)]
    return [
        tuple(f"{number} {' '.join(WORDS[lang][n] for n in row)}." for lang in LANGS)
        for number, row in enumerate(places)
    ]


def files(**splits):
    return {
        f"{split}.{lang}": "".join(pair[side] + "\n" for pair in pairs).encode()
        for split, pairs in splits.items()
        for side, lang in enumerate(LANGS)
    }


def folder_of(path, **changes):
    drawn_by = {"train": (60, 1), "val": (7, 2), "test": (5, 3), "test2016": (6, 4)}
    own = files(**{split: sentences(*sizes) for split, sizes in drawn_by.items()})
    return write_folder(path, {**own, **changes})


LINE = "parallel -s de -t en --bpe-operations 30"


def test_files_of_a_folder_become_the_splits(prepare, tmp_path):
    """Files may be compressed, ``val`` is the validation set, and test sets keep their names."""
    source = folder_of(tmp_path / "own")
    for name, packer in (("train.de", gzip), ("val.en", gzip), ("test2016.en", lzma)):
        suffix = ".gz" if packer == gzip else ".xz"
        (source / (name + suffix)).write_bytes(packer.compress((source / name).read_bytes()))
        (source / name).unlink()
    log = prepare(LINE, source, "--keep-case")
    assert "60 train, 7 valid, 5 test, 6 test2016 pairs" in log
    splits = {"train": (60, 1), "valid": (7, 2), "test": (5, 3), "test2016": (6, 4)}
    for split, drawn_by in splits.items():
        for side, lang in enumerate(LANGS):
            expected = [pair[side].replace(".", " .") for pair in sentences(*drawn_by)]
            actual = binarized_lines(prepare.out / "data-bin", split, "de-en", lang)
            assert actual == expected


def test_names_may_have_hyphens_and_dots(prepare, tmp_path):
    """Languages and test sets may have such names, and each set has its own sentences."""
    names = {"test": 3, "test.2016": 5, "test.2017-06": 4, "valid": 7}
    splits = {split: sentences(size, size) for split, size in {**names, "train": 60}.items()}
    renamed = {name.replace(".en", ".pt-br"): text for name, text in files(**splits).items()}
    source, out = write_folder(tmp_path / "own", renamed), prepare.out
    prepare("parallel -s de -t pt-br --bpe-operations 9", source)
    for split, size in names.items():
        assert len(lines(out / "plain" / f"{split}.pt-br")) == size
        actual = binarized_lines(out / "data-bin", split, "de-pt-br", "pt-br")
        assert len(actual) == size, split


def test_comparisons_use_the_references_as_published(prepare, tmp_path):
    """Tokens in lower case would not determine the reference's spaces and case."""
    references = [f"Press  'F{n}' ({n} %), then wait ." for n in range(5)]
    pairs = [(text, references[n]) for n, (text, _) in enumerate(sentences(5, 3))]
    prepare(LINE, folder_of(tmp_path / "own", **files(test=pairs)))
    options = {"task": "translation", "source-lang": "de", "target-lang": "en"}
    test_sets = find_test_sets(Kind.TRANSLATION, tmp_path / "out" / "data-bin", options)
    assert read_texts(Path(test_sets["test"])) == references
    assert not (tmp_path / "out" / "plain" / "train.en").exists()


def test_references_with_lost_spaces_are_counted(prepare, tmp_path):
    pairs = sentences(5, 3)
    unclear = [*pairs[:3], ("Ein Hund", "a/b runs."), pairs[4]]
    message = "test: 20% of the texts in en have different spacing .* line 4: 'a / b runs.'"
    assert re.search(message, prepare(LINE, folder_of(tmp_path / "own", **files(test=unclear))))


def test_training_pairs_are_cleaned_by_subwords(prepare, tmp_path):
    """The log has the number of dropped pairs by reason, and other splits stay whole."""
    rare = "αβγδεζηθικλμνξο"  # a token, and fifteen subwords
    odd = [
        ("", "dog"),
        (f"{rare} {rare}", "1 " * 15),
        (f"{rare} {rare}", "1 " * 14),
        (f"{rare} {rare} π", "1 " * 16),
    ]
    train = [*sentences(60, 1), *odd]
    source = folder_of(tmp_path / "own", **files(train=train, test=odd))
    line = "parallel -s de -t en --bpe-operations 12 --max-tokens 30 --max-ratio 2"
    log = prepare(line, source)
    bpe = prepare.out / "bpe"
    assert len(lines(bpe / "train.de")) == 61 and lines(bpe / "train.en")[-1] == " ".join("1" * 15)
    assert len(lines(bpe / "test.de")) == 4
    message = "leaves 61 of 64 training pairs .* 1 with .*; 1 with more than 30 subwords; 1 with"
    assert re.search(message, log)


def write_pairs(path, pairs):
    path.write_text("".join("\t".join(pair) + "\n" for pair in pairs), "utf-8")
    return path


def plain_splits(out):
    """The pairs of each split as they are tokenised, in lower case."""
    splits = ("train", "valid", "test")
    sides = [[lines(out / "tokenized" / f"{split}.{lang}") for lang in LANGS] for split in splits]
    return {split: list(zip(*pair)) for split, pair in zip(splits, sides)}


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("options", ["", "-s de -t en", "-t en"])
def test_two_files_are_divided_like_one_table(swapped, options, prepare, tmp_path):
    """The extensions of the files name the languages, in the order of the files."""
    pairs = sentences(60, 1)
    source = write_pairs(tmp_path / "own.tsv", pairs)
    prepare(LINE, source, out=tmp_path / "table")
    folder = write_folder(tmp_path / "own", files(**{"corpus": pairs}))
    (folder / "corpus.en.gz").write_bytes(gzip.compress((folder / "corpus.en").read_bytes()))
    paths = [folder / "corpus.de", folder / "corpus.en.gz"]
    if swapped and not options:
        options = "-s de"
    order = reversed(paths) if swapped else paths
    prepare(f"parallel {options} --bpe-operations 30", None, "--from", *order)
    assert plain_splits(prepare.out) == plain_splits(tmp_path / "table")


def test_two_files_need_languages_and_equal_lengths(prepare, tmp_path):
    (tmp_path / "a").write_text("x\n" * 9)
    (tmp_path / "b").write_text("x\n" * 8)
    both = ["--from", tmp_path / "a", tmp_path / "b"]
    prepare.refuses("required: -s/--source-lang, -t/--target-lang", "parallel", None, *both)
    prepare.refuses("sentences do not pair up", LINE, None, *both)
    prepare.refuses("or two files, source and target", LINE, None, *both, tmp_path / "a")


@pytest.mark.parametrize("names, options", [("c.txt c.en", "-t en"), ("c.de c.txt.gz", "")])
def test_a_suffix_of_any_text_is_no_language(names, options, prepare, tmp_path):
    paths = [tmp_path / name for name in names.split()]
    for path in paths:
        path.write_bytes(gzip.compress(b"x\n") if path.suffix == ".gz" else b"x\n")
    message = "the ending .txt is not a language; pass -s and -t"
    prepare.refuses(message, f"parallel {options}", None, "--from", *paths)


def test_a_suffix_names_the_other_language(prepare, tmp_path):
    folder = write_folder(tmp_path / "own", files(corpus=sentences(60, 1)))
    (folder / "corpus.de").rename(folder / "corpus.txt")
    paths = [folder / "corpus.txt", folder / "corpus.en"]
    prepare("parallel -s de --bpe-operations 30", None, "--from", *paths)
    assert plain_splits(prepare.out)


def test_long_pairs_are_not_held_out(prepare, tmp_path):
    """A held-out pair has no more words than a training pair may have, nor a very long word."""
    pairs, long = sentences(60, 1), ["dog cat " * 51, "ab" * 501]
    odd = [(f"{n} {text}", f"{n} {text}") for n in range(9) for text in long]
    source = write_pairs(tmp_path / "own.tsv", pairs + odd)
    prepare.refuses("18 of them too long; --valid 30", f"{LINE} --valid 30 --test 31", source)
    line = f"{LINE} --valid 30 --test 29 --max-tokens 101"
    assert "19 train, 30 valid, 29 test pairs" in prepare(line, source)
    held_out = [plain_splits(prepare.out)[split] for split in ("valid", "test")]
    assert max(len(side) for pairs in held_out for pair in pairs for side in pair) < 100


def test_the_options_that_long_pairs_need_are_shown(prepare, tmp_path):
    """A comparison takes the data with these options, and other data need none."""
    long = " ".join("1" * 1100)
    for name, pairs, needed in (
        ("long", [*sentences(5, 3), (long, long)], " with --max-source-positions 1101 --max-ta"),
        ("short", sentences(5, 3), ""),
    ):
        out = tmp_path / f"{name}-out"
        log = prepare(LINE, folder_of(tmp_path / name, **files(test=pairs)), out=out)
        assert log.splitlines()[-1].split("ready for fairseq-train")[1].startswith(needed)
        assert bool(needed) == ("positions" in log.splitlines()[-1])


def test_pairs_with_the_same_text_on_both_sides_are_counted(prepare, tmp_path):
    pairs = [*sentences(60, 1), ("Same", "same"), ("", ""), *[("a b", "a  b")] * 2]
    log = prepare(LINE, folder_of(tmp_path / "own", **files(train=pairs)))
    assert "train: 3 of 64 pairs have the same text on both sides" in log


def test_one_file_is_divided_at_random(prepare, tmp_path):
    """The seed determines the sets, which keep the order of the file."""
    pairs = [tuple(side.replace(".", " .") for side in pair) for pair in sentences(60, 1)]
    source = write_pairs(tmp_path / "own.tsv", pairs)
    line = f"{LINE} --valid 9 --test 7 --keep-case"
    prepare(f"{line} --seed 5", source)
    splits = plain_splits(prepare.out)
    assert {split: len(part) for split, part in splits.items()} == dict(train=44, valid=9, test=7)
    assert sorted(sum(splits.values(), [])) == sorted(pairs)
    assert all(sorted(part, key=pairs.index) == part for part in splits.values())
    prepare(f"{line} --seed 6", source, out=tmp_path / "other")
    assert splits != plain_splits(tmp_path / "other")


def test_sets_and_merges_are_small_for_little_text(prepare, tmp_path):
    """Each set has a tenth of the pairs, and the log states the few merges; words stay whole."""
    log = prepare("parallel -s de -t en", write_pairs(tmp_path / "own.tsv", sentences(60, 1)))
    sizes = [len(lines(prepare.out / f"bpe/{name}.de")) for name in ("train", "valid", "test")]
    assert sizes == [48, 6, 6]
    assert " at most 1,000 merges, chosen by the size of the text" in log
    assert "48 train, 6 valid, 6 test pairs" in log
    for lang in LANGS:
        bpe, tokenized = (prepare.out / f"{name}/train.{lang}" for name in ("bpe", "tokenized"))
        assert lines(bpe) == lines(tokenized)


def test_held_out_pairs_share_no_side_with_another_set(prepare, tmp_path):
    pairs = [(f"S{n % 40}", f"t {n % 50}") for n in range(60)] + [("s39", "new"), ("old", "T  49")]
    prepare(f"{LINE} --valid 9 --test 9", write_pairs(tmp_path / "own.tsv", pairs))
    splits = plain_splits(prepare.out)
    for side in (0, 1):
        keys = {split: {pair[side] for pair in part} for split, part in splits.items()}
        assert max(Counter(key for part in keys.values() for key in part).values()) == 1
    assert len(splits["train"]) == len(pairs) - 18


TSV = "".join(f"s{n}\tt{n}\n" for n in range(9)).encode()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"val.en": None}, "own has no valid.en; it needs"),
        (
            {"train.de": None, "train.en": None},
            "own has no train.de and no train.en; it needs .* in .de and .en .-s",
        ),
        ({"valid.de": b"x\n"}, "own has both val.de and valid.de; keep one"),
        ({"test.en": b"one\n"}, "own/test.en has 1, .*own/test.de has 5; line N"),
        ({"test.de": b"one\n"}, "own/test.de has 1, .*own/test.en has 5; line N"),
        ({"train.de": b"a\nF\xfcnf\n"}, "own/train.de, line 2: not UTF-8"),
        ({"test.de": b"", "test.en": b""}, "test.de and .*test.en are empty; write"),
        ({"train.de": None, "train.de.gz": b"x"}, "own/train.de.gz is damaged"),
        ({"test,a.de": b"x\n", "test,a.en": b"x\n"}, "own: test,a.de: .*','"),
        (
            {"one.tsv": TSV + b"a b\n"},
            "own/one.tsv, line 10: expected 2 columns, source<tab>target, found 1",
        ),
        (
            {"one.tsv": TSV + b"a\tb\tc\n"},
            "own/one.tsv, line 10: expected 2 columns, source<tab>target, found 3",
        ),
        *(
            ({"one.tsv": header + TSV}, "own/one.tsv, line 1: the header .* name them source and")
            for header in (b"de\tfr\n", b"German\tSource\n", b"source (en)\ttarget (de)\n")
        ),
        (
            {"one.tsv": b"de\ten\n" + TSV + b"a\tb\tc\n"},
            "own/one.tsv, line 11: expected 2 columns, .*, found 3",
        ),
        (
            {f"val.{lang}": f"{other}\nx\n".encode() for lang, other in (LANGS, LANGS[::-1])},
            "own/val.de, line 1: 'en' is the other language, and .*own/val.en has 'de'; swap",
        ),
        ({"test.de": b"a\rb\r", "test.en": b"a\rb\r"}, "own/test.de.* carriage return"),
        ({"one.tsv": TSV + b"\xff\tb\n"}, "own/one.tsv, line 10: not UTF-8"),
        (
            {"one.tsv": TSV[:-6]},
            "one.tsv: 8 of 8 pairs have sides .* --valid 4 and --test 4 need 8 .* smaller sets",
        ),
        (
            {"one.tsv": TSV * 2},
            "one.tsv: 0 of 18 pairs have sides .*text-classification tsv",
        ),
        ({"one.tsv": b""}, "own/one.tsv is empty"),
    ],
)
def test_bad_text_is_named(changes, message, prepare, tmp_path):
    """The error comes before the tokenisation, which takes minutes."""
    source, options = folder_of(tmp_path / "own"), []
    for name, data in changes.items():
        if data is None:
            (source / name).unlink()
        else:
            (source / name).write_bytes(data)
    if "one.tsv" in changes:
        source, options = source / "one.tsv", ["--valid", 4, "--test", 4]
    assert " train, " not in prepare.refuses(message, LINE, source, *options)


@pytest.mark.parametrize(
    "header, order",
    [
        ("", "st"),
        ("source\ttarget\n", "st"),
        ("DE\tEN\n", "st"),
        ('"German"\t"English"\n', "st"),
        ("Englisch\tDeutsch\n", "ts"),
        ("Deutsch\tEnglish\n", "st"),
        ("target\tsource\n", "ts"),
        ("id\ten-GB\tde_AT\n", "its"),
        ("Source (de)\tNotes\tTarget (en)\n", "sit"),
    ],
)
def test_a_spreadsheet_is_read_as_it_looks(header, order, prepare, tmp_path):
    """Quotes and header are not part of the text, and the header names the sides of the pairs."""
    pairs = [(f'der "{n}". Hund', f"the {n}th dog") for n in range(40)]
    outs = [tmp_path / "plain", tmp_path / "quoted"]
    prepare(LINE, write_pairs(tmp_path / "plain.tsv", pairs), out=outs[0])
    rows = ({"s": f'"{s.replace(QUOTE, QUOTE * 2)}"', "t": t, "i": "7"} for s, t in pairs)
    source = write_pairs(tmp_path / "quoted.csv", [[row[cell] for cell in order] for row in rows])
    source.write_text(header + source.read_text())
    prepare(LINE, source, out=outs[1])
    assert plain_splits(outs[0]) == plain_splits(outs[1])
    assert "der &quot; 39 &quot; . hund" in "".join(lines(outs[1] / "tokenized" / "train.de"))


@pytest.mark.parametrize(
    "first, is_name", [("Quelltext;Zieltext", True), ("der Hund schläft;the dog sleeps", False)]
)
def test_a_first_pair_that_may_be_a_header_is_warned_of(first, is_name, prepare, tmp_path):
    """The warning names the option that makes it a header."""
    pairs = [f"der {n}. Hund;the {n}th dog" for n in range(40)]
    (source := tmp_path / "own.csv").write_text("\n".join([first, *pairs]), "utf-8")
    log = prepare(LINE, source, out=tmp_path / "pairs")
    assert is_name == ("line 1: Quelltext | Zieltext is the first pair; if it is a header" in log)
    if is_name:
        log = prepare(f"{LINE} --columns Quelltext,Zieltext", source)
        assert "is the first pair" not in log and "32 train" in log


QUOTE = '"'


@pytest.mark.parametrize("header", [("source", "target"), ("DE", "English")])
def test_a_header_of_two_files_is_no_pair(header, prepare, tmp_path, warnings):
    """A header may be in each split or in one; two equal lines, such as a label, are a pair."""
    pairs = {"train": sentences(60, 1), "val": sentences(7, 2), "test": [("Text", "Text")] * 5}
    prepare(LINE, write_folder(tmp_path / "plain", files(**pairs)), out=tmp_path / "expected")
    headed = {**pairs, "train": [header, *pairs["train"]], "val": [header, *pairs["val"]]}
    prepare(LINE, write_folder(tmp_path / "headed", files(**headed)))
    assert plain_splits(prepare.out) == plain_splits(tmp_path / "expected")
    assert len(lines(prepare.out / "plain" / "test.de")) == 5


def test_quotes_of_plain_text_are_kept(prepare, tmp_path):
    pairs = [(f'"{n}" sagt er', f'"{n}"') for n in range(40)] + [("sie", 'also "she"')]
    prepare(LINE, write_pairs(tmp_path / "own.tsv", pairs))
    splits = plain_splits(prepare.out)
    assert all("&quot;" in target for part in splits.values() for _, target in part)


def test_a_folder_may_be_named_like_an_archive(prepare, tmp_path):
    (source := tmp_path / "own.tar").mkdir()
    prepare.refuses("own.tar has no train.de", LINE, source)


def test_an_ambiguous_table_is_refused(prepare, tmp_path):
    pairs = [*sentences(20, 1), ('"er sagt ""ja"""', "x"), ('ein "Wort"', "y")]
    message = "own.tsv, line 21: quoted as by a spreadsheet"
    prepare.refuses(message, LINE, write_pairs(tmp_path / "own.tsv", pairs))


@pytest.mark.parametrize(
    "options, message",
    [
        ("-s d:e -t en", "-s d:e: .*':'"),
        ("-s de -t e,n", "-t e,n: .*','"),
        ("-s de -t pt.de", "-t pt.de: test.pt.de would also be a test set in de"),
        ("-s de -t en --out {}/a:b", "--out .*/a:b: .*':'"),
        ("-s de -t en --out {}/a,b", "--out .*/a,b: .*','"),
    ],
)
def test_names_with_fairseqs_separators_are_refused_first(options, message, prepare, tmp_path):
    source = folder_of(tmp_path / "own")
    out = tmp_path / options.split("--out {}/")[1] if "--out" in options else None
    prepare.refuses(message, f"parallel {options.split(' --out')[0]}", source, out=out)
    assert [path.name for path in tmp_path.iterdir()] == ["own"]
