"""Scores of translations are sacrebleu's, of detokenised text with its case, as published."""

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest
from sacremoses import MosesDetokenizer

from odeformers.__main__ import main
from odeformers.compare.outcome import make_rows
from odeformers.compare.results.rows import collect_rows, read_rows
from odeformers.compare.variant import Variant
from tests.odeformers.compare.comparisons import estimated, write_rows
from tests.odeformers.compare.pages import cell, numbers, table

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
WRONG = {"few": 5, "many": 20, "more": 6}  # of 100 words, by model
NAMES = [*WRONG]
DETOKENIZER = MosesDetokenizer("en")


def detokenize(text):
    return DETOKENIZER.detokenize(text.split())


def translate(wrong):
    """The texts, lowercased or with swapped words at a share of the places."""
    texts, place = [], 0
    for text in TEXTS:
        words = text.split()
        for n, word in enumerate(words):
            place += 1
            if place * (37 + wrong) % 100 < wrong:
                words[n] = word.lower() if word != word.lower() else words[n - 1]
        texts.append(" ".join(words))
    return texts


@pytest.fixture(scope="module")
def translations():
    return {name: translate(wrong) for name, wrong in WRONG.items()}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The file of the test set as published, in capitals and with joined hyphens."""
    texts = [*map(detokenize, TEXTS)]
    assert "My" not in texts[0] and any("'s Friend" in text for text in texts)
    assert any("out-of-date" in text for text in texts)
    path = tmp_path_factory.mktemp("plain") / "test.en"
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


@pytest.fixture(scope="module")
def folder(translations, published, tmp_path_factory):
    out = tmp_path_factory.mktemp("translated")
    write_rows_of(out, translations, published)
    return out


@pytest.fixture(scope="module")
def page(folder):
    main(["report", str(folder)])
    return (folder / "report.md").read_text("utf-8")


def write_rows_of(out, translations, published=None):
    """The rows of runs whose translations fairseq-generate has printed, the last text first."""
    for name, texts in translations.items():
        folder = out / f"{name}-seed1"
        folder.mkdir()
        printed = [
            f"S-{n}\tein\nT-{n}\t{right}\nH-{n}\t-0.1\t{text}\nD-{n}\t-0.1\tother\n"
            for n, (right, text) in enumerate(zip(TEXTS, texts))
        ]
        (folder / "checkpoint_best.test.out").write_text("".join(reversed(printed)))
        options = {"arch": name, "source-lang": "de", "target-lang": "en"}
        splits = {"test": published and str(published)}
        begun = str(NAMES.index(name))
        variant = Variant(name, "translation", "/data", options, test_sets=splits)
        (folder / "run.yaml").touch()
        write_rows(folder / "results.csv", make_rows(estimated(variant), folder, begun=begun))
    collect_rows(out)
    return read_rows(out)


def test_scores_equal_sacrebleus_on_published_text(translations, published, page):
    """The text has capitals, which some translations lack, and joined hyphens."""
    references = [published.read_text().splitlines()]
    texts = {name: [*map(detokenize, each)] for name, each in translations.items()}
    bleu = {name: BLEU().corpus_score(texts[name], references).score for name in NAMES}
    folded = {
        name: BLEU(lowercase=True).corpus_score(texts[name], references).score for name in NAMES
    }
    assert all(bleu[name] + 0.3 < folded[name] < 100 for name in NAMES), "the fixture can tell"
    rows = table(page, "BLEU")
    for name in NAMES:
        chrf = CHRF().corpus_score(texts[name], references).score
        assert numbers(cell(rows[name], "chrF")) == pytest.approx([chrf], abs=0.051)
        assert numbers(rows[name]["BLEU"]) == pytest.approx([bleu[name]], abs=0.051)
        difference = numbers(rows[name][f"BLEU against {NAMES[0]}"])
        expected = [bleu[name] - bleu[NAMES[0]]] if name != NAMES[0] else []
        assert difference == pytest.approx(expected, abs=0.051)


def test_p_values_equal_a_paired_bootstraps(translations, published, page):
    """A thousand samples are drawn as by sacrebleu; Benjamini and Hochberg's method adjusts."""
    test = PairedTest(
        [(name, [*map(detokenize, texts)]) for name, texts in translations.items()],
        {"BLEU": BLEU()},
        [published.read_text().splitlines()],
        test_type="bs",
        n_samples=1000,
    )
    far, near = (result.p_value for result in test()[1]["BLEU"][1:])
    assert far < near / 2, "the smallest first, so each keeps its own"
    rows = table(page, "p over texts")
    found = [numbers(rows[name]["p over texts"])[0] for name in NAMES[1:]]
    assert found == pytest.approx([2 * far, near], abs=6e-4)


def test_the_datas_references_replace_missing_published_ones(translations, folder, tmp_path):
    """Without a published file the data's references, here the same text, give the same scores."""
    rows = write_rows_of(tmp_path, translations)
    assert [row.score for row in rows] == [row.score for row in read_rows(folder)]
