import itertools
import os
import random
import subprocess
import sys

import pytest
from script_helpers import demo_module

cldr = demo_module("cldr")

SIZES = {"train": 400, "valid": 40, "test": 40}


def read(folder, split):
    return [(folder / f"{split}.{lang}").read_text("utf-8").splitlines() for lang in ("de", "en")]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    cldr.write_corpus(folder, **SIZES, seed=1)
    return folder


def test_splits_have_their_sizes_and_no_empty_line(corpus):
    for split, size in SIZES.items():
        for lines in read(corpus, split):
            assert len(lines) == size
            assert all(line == line.strip() != "" for line in lines)


def test_no_sentence_occurs_twice_in_any_case(corpus):
    for side in (0, 1):
        lines = [line.lower() for split in SIZES for line in read(corpus, split)[side]]
        assert len(set(lines)) == sum(SIZES.values())


def test_same_seed_same_files_whatever_the_hash_seed(corpus, tmp_path):
    options = itertools.chain(*([f"--{split}", str(size)] for split, size in SIZES.items()))
    subprocess.run(
        [sys.executable, cldr.__file__, "--out", str(tmp_path), *options],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        check=True,
    )
    for path in corpus.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()
    assert len(list(tmp_path.iterdir())) == 6


def test_another_seed_gives_other_sentences(corpus, tmp_path):
    cldr.write_corpus(tmp_path, **SIZES, seed=2)
    assert not set(read(tmp_path, "train")[0]) & set(read(corpus, "test")[0])


def test_held_out_pairs_do_not_depend_on_the_size_of_train(corpus, tmp_path):
    cldr.write_corpus(tmp_path, **{**SIZES, "train": 3}, seed=1)
    for split in ("valid", "test"):
        assert read(tmp_path, split) == read(corpus, split)


def test_productions_use_the_same_known_fields_on_both_sides():
    for productions in cldr.PRODUCTIONS.values():
        for de, en in productions:
            assert sorted(cldr.fields(de)) == sorted(cldr.fields(en))
            for field in cldr.fields(de):
                symbol = field.rstrip("2")
                assert symbol in cldr.PRODUCTIONS or symbol in cldr.TERMINALS


class Draws(random.Random):
    """Draws given values: a number from a range, a position in a sequence."""

    def __new__(cls, *values):
        return super().__new__(cls)  # which takes several values from Python 3.11 on only

    def __init__(self, *values):
        super().__init__()
        self.values = list(values)

    def randrange(self, *limits):
        return self.values.pop(0)

    randint = randrange

    def random(self):
        return self.values.pop(0)

    def choice(self, sequence):
        return sequence[self.values.pop(0)]


@pytest.mark.parametrize(
    ("symbol", "draws", "pair"),
    [
        ("long_date", [24172], ("7. März 2026", "March 7, 2026")),
        ("medium_date", [24172], ("07.03.2026", "Mar 7, 2026")),
        ("short_date", [24172], ("07.03.26", "3/7/26")),
        ("full_date", [24172], ("Samstag, dem 7. März 2026", "Saturday, March 7, 2026")),
        ("quarter", [24172], ("1. Quartal 2026", "1st quarter of 2026")),
        ("time", [14, 0, 0], ("14:00", "2:00 PM")),
        ("ago", [2, 3], ("vor 3 Tagen", "3 days ago")),
        ("from_now", [3, 1], ("in 1 Woche", "in 1 week")),
        ("duration", [2, 1, 5, 0], ("1 Stunde und 5 Minuten", "1 hour and 5 minutes")),
        ("mass", [2, 3, 5, 25, 2, 0], ("2.500 Tonnen", "2,500 metric tons")),
        ("temperature", [9, 125, 1, 0], ("12,5 Grad Celsius", "12.5 degrees Celsius")),
        ("percent", [125], ("12,5%", "12.5%")),
        ("people", [12], ("12 Millionen", "12 million")),
        ("country", [cldr.COUNTRIES.index("AT")], ("Österreich", "Austria")),
        ("language", [cldr.LANGUAGES.index("el")], ("Griechisch", "Greek")),
    ],
)
def test_known_translations(symbol, draws, pair):
    assert cldr.expand(symbol, Draws(*draws)) == pair


def test_the_verb_ends_a_german_clause_and_follows_the_english_subject():
    pairs = itertools.islice(cldr.pairs(seed=3), 2000)
    moved = [en for de, en in pairs if ", dass der Lehrer " in de and de.endswith("geliefert hat.")]
    assert moved
    assert all("that the teacher delivered" in en for en in moved)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"train": 0}, "--train 0: each split needs at least one pair"),
        ({"valid": -5}, "--valid -5: each split needs"),
        ({"train": cldr.MAX_PAIRS}, f"--train {cldr.MAX_PAIRS}: .*at most {499_920:,}"),
    ],
)
def test_impossible_sizes_are_refused_before_anything_is_written(tmp_path, sizes, message):
    with pytest.raises(ValueError, match=message):
        cldr.write_corpus(tmp_path / "corpus", **{**SIZES, **sizes}, seed=1)
    assert not (tmp_path / "corpus").exists()
