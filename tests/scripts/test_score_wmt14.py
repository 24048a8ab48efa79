"""``scripts/score-wmt14.sh`` on a small output of ``fairseq-generate``."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "score-wmt14.sh"


def run(*options, cwd):
    return subprocess.run(
        ["bash", SCRIPT, *map(str, options)],
        cwd=cwd,
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )


def test_scores_against_what_the_preparation_leaves(tmp_path):
    (tmp_path / "output.txt").write_text(
        "H-1\t-0.1\tein 2 @-@ Pfund @-@ Brot .\nH-0\t-0.3\tDas war &apos;s auch .\n"
    )
    raw = tmp_path / "data" / "wmt14-en-de" / "raw"
    raw.mkdir(parents=True)
    (raw / "newstest2014-deen-ref.de.sgm").write_text(
        '<seg id="1">Das war \'s auch.</seg>\n<seg id="2">ein 2-Pfund-Brot.</seg>\n'
    )
    result = run("en-de", "output.txt", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    scores = result.stdout.splitlines()
    assert [line.split(":")[0] for line in scores] == ["tokenized", "compound-split", "detokenized"]
    assert all(" = 100.00 " in line for line in scores)

    result = run("en-fr", "output.txt", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1] == (
        "score-wmt14.sh: error: --reference data/wmt14-en-fr/raw/newstest2014-fren-ref.fr.sgm: no "
        "such file; prepare-wmt14.sh en-fr leaves newstest2014-fren-ref.fr.sgm in the folder raw "
        "below its --out"
    )

    (tmp_path / "reference.fr").write_text("a\nb\nc\n")
    result = run("en-fr", "output.txt", "--reference", "reference.fr", cwd=tmp_path)
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr.splitlines()[-1] == (
        "score-wmt14.sh: error: output.txt translates 2 of 3 sentences (the first without is 2); "
        "give fairseq-generate --required-batch-size-multiple 1"
    )
