"""The commands of TransJect's experiments: on a few generated sentences, or with stubs."""

import pytest
from script_helpers import command, example, lines, stub_commands


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ptb")
    lines = [f" the {n} of {n % 3} {'is' if n % 2 else '<unk>'} N" for n in range(60)]
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n")
    prefixes = [(f"--{split}pref", folder / f"{split}.txt") for split in ("train", "valid", "test")]
    options = [option for pair in prefixes for option in pair]
    command("preprocess", "--only-source", "--destdir", folder / "data-bin", *options)
    return folder


@pytest.mark.parametrize(
    "arch, extra",
    [
        ("transject_lm", []),
        ("transject_lm_random", []),
        ("transformer_lm", ["--decoder-ffn-embed-dim", "32", "--decoder-attention-heads", "2"]),
    ],
)
def test_language_models(data, arch, extra):
    tiny = ["--max-epoch", "1", "--decoder-embed-dim", "16", "--cpu", *extra]
    result = example("transject/ptb.sh", arch, *tiny, DATA=str(data), RECIPE="small")
    for split in ("valid", "test"):
        assert f"{split}: perplexity " in result.stdout, result.stdout
    assert (data / f"small-{arch}-seed1" / "checkpoint_best.pt").exists()
    result = example("transject/ptb.sh", arch, *tiny, "--lr", "1", DATA=str(data), RECIPE="small")
    assert result.returncode == 1 and "give these another RUNS or SAVE_DIR" in result.stdout


def test_what_is_not_there(tmp_path):
    result = example("transject/ptb.sh", "transject_lm", DATA=str(tmp_path))
    assert result.returncode == 2
    assert "make it with scripts/prepare-ptb.sh" in result.stdout
    result = example("transject/ptb.sh", "transject_lm", DATA=str(tmp_path), RECIPE="large")
    assert "RECIPE=large: choose from paper, small" in result.stdout


@pytest.fixture
def stubs(tmp_path):
    """A training leaves a checkpoint, and its prediction and the analysis say that they ran."""
    for data in ("imdb/data-bin", "lra/text-bin"):
        (tmp_path / "data" / data).mkdir(parents=True)
    stub_commands(
        tmp_path,
        fairseq_train="""
            [[ "$*" != *"--encoder-experts 8"* ]] || exit 1
            echo "$@" >> trained
            while [ "$1" != --save-dir ]; do shift; done
            touch $2/checkpoint_{best,last}.pt""",
        python="""
            [ "$2 $3" = "fairseq_odeformers predict" ] || exec echo "$@"
            touch "${@: -1}"
            echo test: accuracy 50.00%""",
    )
    return tmp_path


def test_figure6(stubs):
    """What is finished is analysed by data set and model; a size that fails stops no other."""
    result = example("transject/figure6.sh", "--part", "imdb", root=stubs, SEEDS="1 2")
    assert result.returncode == 1
    assert "imdb-transject-experts8/transject-transject-seed1: failed" in result.stdout
    analyses = [line for line in result.stdout.splitlines() if line.startswith("-m ")]
    assert [line.partition(" --data ")[2] for line in analyses] == [
        f"data/imdb/data-bin --out data/figure6/imdb-{model}"
        for model in ("transject", "transformer")
    ]
    assert [line.count("checkpoint_best.pt") for line in analyses] == [5 * 2, 7 * 2]
    assert len(lines(stubs / "trained")) == (5 + 7) * 2


def test_figure6_adds_to_what_is_finished(stubs):
    for part in ("charimdb-transformer-heads1", "charimdb-transformer-h"):
        result = example("transject/figure6.sh", "--part", part, "--fp16", root=stubs, SEEDS="4")
        assert result.returncode == 0, result.stdout
    checkpoint = (
        "data/figure6/charimdb-transformer-heads1/text-transject-transformer_classifier-seed4/"
        "checkpoint_best.pt"
    )
    assert f"analyse states {checkpoint} --data data/lra/text-bin --out" in result.stdout
    (trained,) = lines(stubs / "trained")
    assert trained.endswith("--encoder-attention-heads 1 --fp16")
