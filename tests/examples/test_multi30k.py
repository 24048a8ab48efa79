"""The command of the Multi30k experiments, on a few generated sentences."""

import pytest
from script_helpers import IN_MAIN_THREAD, example, lines, parallel_data, times

from fairseq_odeformers.compare.commands import log_stats

SIZES = "--{0}-embed-dim 16 --{0}-ffn-embed-dim 16"
TINY = [
    *SIZES.format("encoder").split(),
    *SIZES.format("decoder").split(),
    *"--max-epoch 4 --cpu".split(),
    *IN_MAIN_THREAD,
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("multi30k")
    parallel_data(folder, "de", "en", train=96, valid=8, test=8, test1=5)
    return folder


def test_what_a_run_leaves(data, tmp_path):
    """The log, both checkpoints and their translations, of which none is made twice."""
    folder = tmp_path / "transevolve_fullff_2_prenorm-seed2"
    folder.mkdir()
    there = [folder / f"checkpoint_best.{split}.out" for split in ("test", "test1")]
    for path in there:
        path.write_text("Generate: made before\n")

    def run():
        result = example(
            *("multi30k/run.sh", "transevolve_fullff_2_prenorm", *TINY),
            **{"DATA": str(data), "RUNS": str(tmp_path), "SEEDS": "2"},
        )
        assert result.returncode == 0, result.stdout
        return result.stdout

    output = run()
    validations = [log_stats(line, "valid") for line in lines(folder / "train.log")]
    assert len(list(filter(None, validations))) == 4
    assert {path.name for path in folder.glob("*.pt")} == {"averaged.pt", "checkpoint_best.pt"}
    for split, size in (("test", 8), ("test1", 5)):
        translations = lines(folder / f"averaged.{split}.out")
        assert sum(line.startswith("H-") for line in translations) == size
        assert translations[-1].startswith("Generate ") and translations[-1] in output
    assert {path.read_text() for path in there} == {"Generate: made before\n"}

    before = times(tmp_path)
    assert "training" in output and "training" not in run()
    assert {path for path, time in times(tmp_path).items() if time != before[path]} <= {
        folder / "lock"
    }


def test_an_architecture_without_sizes(data):
    result = example("multi30k/run.sh", "transformer", "transjct", DATA=str(data))
    assert result.returncode == 2 and "transjct: no sizes for it" in result.stdout
