"""The commands of TransEvolve's translation experiments, on a few generated sentences."""

import csv
import sys

import pytest
from script_helpers import IN_MAIN_THREAD, example, lines, parallel_data, stub_commands

TINY = "--encoder-embed-dim 16 --encoder-ffn-embed-dim 32 --encoder-attention-heads 2"
SHORT = "--batch-size 8 --max-update 10 --save-interval-updates 1 --cpu"


@pytest.fixture
def data(tmp_path):
    """What prepare-wmt14.sh leaves, of twenty words in both languages."""
    parallel_data(tmp_path, "en", "de", train=96, valid=8, test=8)
    (tmp_path / "raw").mkdir()
    segments = [f'<seg id="{n}">word1 word2</seg>\n' for n in range(8)]
    (tmp_path / "raw" / "newstest2014-deen-ref.de.sgm").write_text("".join(segments))
    return tmp_path


@pytest.mark.parametrize("arch", ["transformer", "transevolve_randomff_1"])
def test_wmt14(data, arch):
    """Ten checkpoints are averaged, and both test sets scored with the average."""
    tiny = [*TINY.split(), *SHORT.split(), *IN_MAIN_THREAD]
    if arch == "transformer":
        tiny += TINY.replace("encoder", "decoder").split()
    result = example("transevolve/wmt14.sh", "en-de", arch, *tiny, DATA=str(data))
    assert result.returncode == 0, result.stdout
    scores = [line for line in result.stdout.splitlines() if " BLEU" in line]
    names = ["newstest2013, tokenized", "tokenized", "compound-split", "detokenized"]
    assert [line.split(":")[0] for line in scores[-4:]] == names
    folder = data / f"{arch}-seed1"
    assert len(list(folder.glob("checkpoint_*_*.pt"))) == 10
    assert (folder / "averaged.pt").exists()


@pytest.mark.parametrize(
    "args, message",
    [
        (["de-en", "transformer"], "de-en: choose from en-de, en-fr"),
        (["en-de"], "examples/transevolve/wmt14.sh en-de|en-fr ARCH"),
    ],
)
def test_what_is_not_there(args, message):
    result = example("transevolve/wmt14.sh", *args)
    assert result.returncode == 2 and message in result.stdout


@pytest.fixture
def grid(tmp_path):
    """Stubs: of three checkpoints and their average, the second has the highest BLEU."""
    for pair in ("en-de", "en-fr"):
        (tmp_path / f"data/wmt14-{pair}/data-bin/dict.en.txt").mkdir(parents=True)
    stub_commands(
        tmp_path,
        fairseq_train="""
            echo "$@" >> trained
            [ ! -e broken ] || exit 1
            while [ "$1" != --save-dir ]; do shift; done
            touch $2/checkpoint_{best,last,1_{1,2,3}}.pt""",
        fairseq_generate='echo "Generate test: BLEU4 = 99.00"',
        python=f"""
            [[ $1 != *average* ]] || exec touch "${{@: -1}}"
            exec {sys.executable} "$@\"""",
    )
    (tmp_path / "scripts").mkdir()
    score = tmp_path / "scripts" / "score-wmt14.sh"
    score.write_text(
        """#!/bin/bash
        case $2 in *_2.out) bleu=27.55 ;; *) bleu=26.50 ;; esac
        echo "tokenized:      BLEU|nrefs:1|case:mixed = $bleu 60.1/30.2/20.3/10.4 (BP = 1.000)"
        echo "detokenized:    BLEU|nrefs:1|case:mixed = 28.00 60.1/30.2/20.3/10.4 (BP = 1.000)"
        """
    )
    score.chmod(0o755)
    return tmp_path


def test_figure2(grid):
    """The maximum of each run; one that failed goes on, one that is finished is not repeated."""
    pytest.importorskip("matplotlib")
    part = "transevolve/figure2.sh --part en-fr-1.5-16000 --fp16".split()
    (grid / "broken").touch()
    result = example(*part, root=grid, SEEDS="1")
    assert result.returncode == 1 and "en-fr-1.5-16000-seed1: failed" in result.stdout
    assert not list(grid.rglob("scores.txt"))

    (grid / "broken").unlink()
    result = example(*part, root=grid, SEEDS="1")
    assert result.returncode == 0, result.stdout
    assert "| en-fr | 1.5 | 16,000 | 1 | 27.55 | 27.55 | 27.55 |" in result.stdout
    trained = lines(grid / "trained")
    assert len(trained) == 2 and "--arch transevolve_fullff_2" in trained[1]
    assert trained[1].endswith("16000 --fp16")
    runs = grid / "data" / "wmt14-figure2"
    run = runs / "en-fr-1.5-16000-seed1"
    assert [path.name for path in run.glob("*.pt")] == ["averaged.pt"]
    assert len(lines(run / "scores.txt")) == 4

    part = "transevolve/figure2.sh --part en-fr --fp16".split()
    result = example(*part, root=grid, SEEDS="1 2")
    assert result.returncode == 0, result.stdout
    assert len(lines(grid / "trained")) == 1 + 6 * 2
    rows = list(csv.DictReader(lines(runs / "figure2.csv")))
    assert len(rows) == 6 * 2 and {row["bleu"] for row in rows} == {"27.55"}
    assert (runs / "figure2.png").read_bytes().startswith(b"\x89PNG")
