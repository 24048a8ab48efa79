"""The command of TransJect's language models, on a few generated sentences."""

import pytest
from script_helpers import command, example


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


def test_what_is_not_there(tmp_path):
    result = example("transject/ptb.sh", "transject_lm", DATA=str(tmp_path))
    assert result.returncode == 2
    assert "make it with scripts/prepare-ptb.sh" in result.stdout
    result = example("transject/ptb.sh", "transject_lm", DATA=str(tmp_path), RECIPE="large")
    assert "RECIPE=large: choose from paper, small" in result.stdout
