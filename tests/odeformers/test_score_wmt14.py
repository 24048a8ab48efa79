"""Scores of newstest2014 with known answers, and outputs that cannot be scored."""

import pytest
from published import write_folder

from odeformers import score_wmt14 as wmt14_score
from odeformers.__main__ import main
from odeformers.prepare import wmt14
from odeformers.prepare.common.pairs import read_published
from odeformers.score_wmt14 import read_hypotheses, score


def write_output(path, hypotheses):
    """Output of fairseq-generate, which is sorted by length and not by sentence."""
    lines = ["INFO | fairseq_cli.generate | loading model(s)"]
    for index, text in sorted(enumerate(hypotheses), key=lambda item: -len(item[1])):
        lines += [f"S-{index}\tx", f"T-{index}\tH-0", f"H-{index}\t-0.25\t{text}"]
        lines += [f"D-{index}\t-0.25\t{text}", f"P-{index}\t-0.25 -0.25"]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def values(scores):
    return {name: float(text.split(" = ")[1].split()[0]) for name, text in scores.items()}


REFERENCES = {
    "de": ['Er sagt: "Das 2-Pfund-Brot ist gut."', "Q & A sind <gut> [heute], z. B. das.", ""],
    "fr": ["L'été est là (enfin) : dit-il.", "Il n'y a qu'aujourd'hui.", ""],
}
TOKENIZED = {  # translations by a model of the prepared text
    "de": [
        "Er sagt : &quot; Das 2 @-@ Pfund @-@ Brot ist gut . &quot;",
        "Q &amp; A sind &lt; gut &gt; &#91; heute &#93; , z . B. das .",
        "",
    ],
    "fr": [
        "L&apos; été est là ( enfin ) : dit @-@ il .",
        "Il n&apos; y a qu&apos; aujourd&apos;hui .",
        "",
    ],
}


@pytest.mark.parametrize("lang", REFERENCES)
def test_a_perfect_translation_scores_100(lang, tmp_path):
    hypotheses = read_hypotheses(write_output(tmp_path / "out.txt", TOKENIZED[lang]), 3)
    scores = values(score(hypotheses, REFERENCES[lang], lang))
    assert scores.pop("tokenized") == scores.pop("compound-split") == 100
    assert scores["detokenized"] == 100
    assert (scores["uncased"] == 100) == (lang == "fr"), "no tokenizer undoes the spaces of < gut >"


def test_compounds_are_split_in_hypothesis_and_reference():
    """A-b c d e f and x-b c d e f share 4 of 5 words or 6 of 7 parts, and n-grams likewise."""
    scores = values(score(["A @-@ b c d e f"], ["x-b c d e f"], "de"))
    whole = (4 / 5) * (3 / 4) * (2 / 3) * (1 / 2)
    split = (6 / 7) * (5 / 6) * (4 / 5) * (3 / 4)
    assert scores["tokenized"] == pytest.approx(100 * whole**0.25, abs=0.01)
    assert scores["compound-split"] == pytest.approx(100 * split**0.25, abs=0.01)
    assert wmt14_score.split_compounds("ab-cd-e - f-g-h") == (
        "ab ##AT##-##AT## cd ##AT##-##AT## e - f ##AT##-##AT## g-h"
    )  # as Perl's s{(\S)-(\S)}{...}g: matches do not overlap, and a lone hyphen stays


def test_tokenised_scores_are_not_smoothed():
    """multi-bleu.perl gives 0 where no 4-gram matches, but sacrebleu smooths by default."""
    scores = values(score(["a b c x"], ["a b c y"], "de"))
    assert scores["tokenized"] == scores["compound-split"] == 0 < scores["detokenized"]


def test_uncased_words_are_split_at_spaces():
    """Case is ignored, but "good." is not "good", so that 3 of 4 words match, and so on.

    Without a match of four words, half a match counts.
    """
    scores = values(score(["it IS so good"], ["It is so good."], "de"))
    expected = (3 / 4) * (2 / 3) * (1 / 2) * (1 / 2)
    assert scores["uncased"] == pytest.approx(100 * expected**0.25, abs=0.01)
    assert scores["uncased"] > scores["detokenized"]


def test_typographic_apostrophes_matter_only_when_detokenised():
    scores = values(score(["c&apos; est dit , ou non ."], ["c’est dit, ou non."], "fr"))
    assert scores["tokenized"] == 100 > scores["detokenized"]


def test_references_are_segments_or_lines(tmp_path):
    sgm = tmp_path / wmt14.reference_name("de")
    sgm.write_text('<refset>\n<seg id="1">It’s so.</seg>\n<seg id="2"> &amp; </seg>\n</refset>\n')
    (tmp_path / "text.de").write_text("It’s so.\n&amp;\n")
    for path in (sgm, tmp_path / "text.de"):
        assert list(read_published(path)) == ["It’s so.", "&amp;"]


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "0 "),
        ("H-0\t-1\ta\nH-2\t-1\tb\nH-1\t-1.", "2 "),
        ("H-0\t-1\ta\nH-1\t-1\tb\nH-2\t-1\tc\nH-2\t-2\tb\n", "4 "),
        ("H-0\t-1\ta\nH-1\t-1\ta\nH-3\t-1\ta\n", "3 "),
        ("H-0\t-1\ta\nH-1\t-1\ta@@ b\nH-2\t-1\ta\n", "subwords; .* --remove-bpe"),
        ("H-0\t-1\ta\nH-1\t-1\ta b@@\nH-2\t-1\ta\n", "subwords"),
    ],
)
def test_outputs_that_cannot_be_scored_are_refused(text, message, tmp_path):
    (tmp_path / "out.txt").write_text(text)
    with pytest.raises(ValueError, match=f"out.txt has {message}"):
        read_hypotheses(tmp_path / "out.txt", 3)


def test_the_reference_is_the_prepared_one_by_default(tmp_path, monkeypatch, capsys):
    """Another reference may be given, and a missing one is named."""
    monkeypatch.chdir(tmp_path)
    expected = "data/wmt14-en-de/raw/newstest2014-deen-ref.de.sgm"
    with pytest.raises(SystemExit):
        main(["score-wmt14", "en-de", "out.txt"])
    assert expected in capsys.readouterr().err.splitlines()[-1]
    text = '<seg id="1">Das war \'s auch.</seg>\n<seg id="2">ein 2-Pfund-Brot.</seg>\n'
    write_folder(tmp_path, {expected: text.encode()})
    write_output(tmp_path / "out.txt", ["Das war &apos;s auch .", "ein 2 @-@ Pfund @-@ Brot ."])
    main(["score-wmt14", "en-de", "out.txt"])
    scores = capsys.readouterr().out.splitlines()
    names = ["tokenized", "compound-split", "detokenized", "uncased"]
    assert [line.split(":")[0] for line in scores] == names
    assert all(" = 100.00 " in line for line in scores)
    (tmp_path / expected).rename("own.sgm")
    main(["score-wmt14", "en-de", "out.txt", "--reference", "own.sgm"])
    assert capsys.readouterr().out.splitlines() == scores
