"""``scripts/score-wmt14.sh`` on a small output of ``fairseq-generate``."""

from script_helpers import run


def test_scores_against_what_the_preparation_leaves(tmp_path):
    (tmp_path / "output.txt").write_text(
        "H-1\t-0.1\tein 2 @-@ Pfund @-@ Brot .\nH-0\t-0.3\tDas war &apos;s auch .\n"
    )
    raw = tmp_path / "data" / "wmt14-en-de" / "raw"
    raw.mkdir(parents=True)
    (raw / "newstest2014-deen-ref.de.sgm").write_text(
        '<seg id="1">Das war \'s auch.</seg>\n<seg id="2">ein 2-Pfund-Brot.</seg>\n'
    )
    scores = run("score-wmt14.sh", "en-de", "output.txt", cwd=tmp_path).splitlines()
    assert [line.split(":")[0] for line in scores] == ["tokenized", "compound-split", "detokenized"]
    assert all(" = 100.00 " in line for line in scores)
