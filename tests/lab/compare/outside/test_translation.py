"""The scores of translations: sacrebleu's, of detokenised text, in its case, as published."""

import re

import pytest
import torch
from fairseq.data import Dictionary
from lab.compare.outside.commands import EOS, cell, compare, numbers, run, table
from make_checkpoints import write_rows
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest
from sacremoses import MosesDetokenizer

SUBJECTS = "Anna|the well @-@ known Doctor|my dog &apos;s Friend|an out @-@ of @-@ date Map".split(
    "|"
)
VERBS = "sees|reads about|can &apos;t find|likes".split("|")
OBJECTS = "a Well @-@ read book|Berlin , Rome and Oslo|nothing|the Map".split("|")
ENDS = ". ! ? ;".split()
TEXTS = [
    f"{subject} {verb} {thing} {end}"
    for subject in SUBJECTS
    for thing in OBJECTS
    for verb in VERBS
    for end in ENDS
]
MODELS = ["copying[--wrong 5]", "copying[--wrong 20]", "copying[--wrong 6]"]
NAMES = [f"copying-wrong-{wrong}" for wrong in (5, 20, 6)]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Sentences whose translation is themselves, in tokens; the test set as published."""
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "plain").mkdir()
    dictionary = Dictionary()
    for word in sorted({word for text in TEXTS for word in text.split()}):
        for form in (word, word.lower()):
            dictionary.add_symbol(form)
    (folder / "data-bin").mkdir()
    dictionary.save(str(folder / "data-bin/dict.de.txt"))
    dictionary.add_symbol("only-English")
    dictionary.save(str(folder / "data-bin/dict.en.txt"))
    splits = {"test": TEXTS[::2], "valid": TEXTS[1:60:3], "train": TEXTS[1:80:2]}
    for split, texts in splits.items():
        for side in ("de", "en"):
            rows = [[*map(dictionary.index, text.split()), EOS] for text in texts]
            write_rows(folder / f"data-bin/{split}.de-en.{side}", [torch.tensor(r) for r in rows])
    published = [detokenize(text) for text in splits["test"]]
    (folder / "plain/test.en").write_text("".join(f"{text}\n" for text in published))
    assert "My" not in published[0] and any("'s Friend" in text for text in published)
    assert any("out-of-date" in text for text in published)
    return folder / "data-bin"


def detokenize(text):
    return MosesDetokenizer("en").detokenize(text.split())


@pytest.fixture(scope="module")
def translated(pairs, tmp_path_factory):
    out = tmp_path_factory.mktemp("translated") / "runs"
    compare(pairs, out, "--archs", *MODELS, "--epochs", 1, "--average", 0)
    return out


def read(out):
    """Translations in the order of the test set, by model."""
    texts = {}
    for name in NAMES:
        printed = (out / f"{name}-seed1/checkpoint_best.test.out").read_text("utf-8")
        found = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", printed, re.M))
        assert len(found) == len(TEXTS[::2])
        texts[name] = [detokenize(found[str(number)]) for number in range(len(found))]
    return texts


def test_scores_are_sacrebleu_s_of_text_as_published(pairs, translated):
    """With capitals, which some translations lack, and hyphens joined."""
    references = [(pairs.parent / "plain/test.en").read_text().splitlines()]
    texts = read(translated)
    bleu = {name: BLEU().corpus_score(texts[name], references).score for name in NAMES}
    folded = {
        name: BLEU(lowercase=True).corpus_score(texts[name], references).score for name in NAMES
    }
    assert all(bleu[name] + 0.3 < folded[name] < 100 for name in NAMES), "the fixture can tell"
    rows = table((translated / "report.md").read_text("utf-8"), "BLEU")
    for name in NAMES:
        chrf = CHRF().corpus_score(texts[name], references).score
        assert numbers(cell(rows[name], "chrF")) == pytest.approx([chrf], abs=0.051)
        assert numbers(rows[name]["BLEU"]) == pytest.approx([bleu[name]], abs=0.051)
        difference = numbers(rows[name][f"BLEU against {NAMES[0]}"])
        expected = [bleu[name] - bleu[NAMES[0]]] if name != NAMES[0] else []
        assert difference == pytest.approx(expected, abs=0.051)


def test_p_values_are_of_a_paired_bootstrap_with_holm_s_correction(pairs, translated):
    """A thousand samples, as sacrebleu draws them."""
    references = [(pairs.parent / "plain/test.en").read_text().splitlines()]
    texts = read(translated)
    test = PairedTest(
        [(name, texts[name]) for name in NAMES],
        {"BLEU": BLEU()},
        references,
        test_type="bs",
        n_samples=1000,
    )
    far, near = (result.p_value for result in test()[1]["BLEU"][1:])
    assert far < near / 2, "the smallest first, so each keeps its own"
    rows = table((translated / "report.md").read_text("utf-8"), "p against")
    found = [numbers(rows[name][f"p against {NAMES[0]}"])[0] for name in NAMES[1:]]
    assert found == pytest.approx([2 * far, max(2 * far, near)], abs=6e-4)


def test_the_references_of_the_data_take_the_place_of_published_ones(pairs, translated):
    """Here they are the same text, as the report may say."""
    page = (translated / "report.md").read_text("utf-8")
    published = pairs.parent / "plain"
    away = published.rename(published.with_name("away"))
    try:
        run("report", translated)
    finally:
        away.rename(published)
    without = (translated / "report.md").read_text("utf-8")
    assert table(without, "BLEU") == table(page, "BLEU")
