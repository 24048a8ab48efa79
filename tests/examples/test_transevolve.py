"""The commands of TransEvolve's translation experiments, on a few generated sentences."""

import pytest
from script_helpers import IN_MAIN_THREAD, example, parallel_data

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
