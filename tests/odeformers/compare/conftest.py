import pytest

from fairseq_odeformers.files import sha256
from odeformers.__main__ import main
from odeformers.compare.experiment import Experiment
from tests.odeformers.compare.comparisons import SCRIPTS, write_scripted


@pytest.fixture(scope="session")
def board(tmp_path_factory):
    """The report of runs of three models with three seeds, which no test changes.

    The best validation, the last one and the one of the smallest loss are of three updates.
    """
    out = tmp_path_factory.mktemp("board") / "runs"
    for architecture in SCRIPTS:
        for seed in (1, 2, 3):
            write_scripted(out, architecture, seed)
    main(["report", str(out)])
    return out


@pytest.fixture
def experiment(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/train.bin").write_text("1")
    data, digest = str(tmp_path / "data"), sha256(tmp_path / "data")
    content = {"max-epoch": 3}, {"a": {}, "b": {}}
    return Experiment(data, *content, seeds=[5, 1], data_digest=digest)
