import importlib
import random
import re
import sys
from datetime import datetime
from itertools import islice

from script_helpers import ROOT, lines

sys.path.insert(0, str(ROOT / "examples" / "demo"))
demo, pairs = map(importlib.import_module, ("demo", "pairs"))


def test_the_demo_translates_and_resumes_its_training(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "PAIRS", {"test": 10, "valid": 8, "train": 100})
    monkeypatch.setattr(demo, "EVERY", 0)
    monkeypatch.setenv("GOMP_SPINCOUNT", "3000")

    def run(updates):
        monkeypatch.setattr(sys, "argv", ["demo", "--out", str(tmp_path), "--updates", updates])
        demo.main()
        return capsys.readouterr().out

    assert re.findall(r"^update (\d) of 2: loss [\d.]+, perp", run("2"), re.M) == ["1", "2"]
    output = run("3")
    log = (tmp_path / "transevolve" / "train.log").read_text("utf-8")
    assert "Loaded checkpoint" in log and "@ 2 updates" in log
    assert "update 3 of 3: loss" in output
    assert re.findall(r"source +(.*)", output) == [
        pairs.detokenize(line) for line in lines(tmp_path / "data-bin" / "test.de")[: demo.SAMPLES]
    ]
    assert len(re.findall(r"^   translated ", output, re.M)) == demo.SAMPLES
    assert re.search(r"^BLEU \d+\.\d, \d+ seconds$", output, re.M)
    assert (tmp_path / "data-bin" / "generate.log").read_text("utf-8").count("\nD-") == 10


def test_every_sentence_occurs_once(tmp_path):
    pairs.write_corpus(tmp_path, **demo.PAIRS)
    for language in ("de", "en"):
        sentences = {split: lines(tmp_path / f"{split}.{language}") for split in demo.PAIRS}
        assert {split: len(texts) for split, texts in sentences.items()} == demo.PAIRS
        assert len(set().union(*sentences.values())) == sum(demo.PAIRS.values())


def test_both_sides_of_a_production_correspond():
    """Both sides have the same fields, times and numbers."""
    grammar = pairs.read_grammar()
    for de, en in (pair for productions in grammar.values() for pair in productions):
        fields = pairs.FIELD.findall(de)
        assert len(fields) == len(set(fields)) and sorted(fields) == sorted(pairs.FIELD.findall(en))
        assert grammar.keys() >= {field.rstrip("2") for field in fields}
    for de, en in grammar["time"]:
        assert datetime.strptime(de, "%H:%M") == datetime.strptime(en, "%I:%M %p")
    for de, en in grammar["number"]:
        assert de.replace(".", "") == en.replace(",", "")


def test_a_second_field_has_a_different_value():
    grammar = {"a": [("{b}{b2}", "{b2}{b}")], "b": [("x", "X"), ("y", "Y")]}
    expansions = {pairs.expand("a", grammar, random.Random(seed)) for seed in range(20)}
    assert expansions == {("xy", "YX"), ("yx", "XY")}


def test_detokenization_inverts_tokenization():
    for text in (text for pair in islice(pairs.sentence_pairs(2), 1000) for text in pair):
        tokens = pairs.tokenize(text).split(" ")
        assert tokens[-1] in (".", "?") and not any(re.search(r".[,?]$", word) for word in tokens)
        assert pairs.detokenize(" ".join(tokens)) == text
