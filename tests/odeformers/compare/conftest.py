import pytest

from odeformers.__main__ import main
from tests.odeformers.compare.comparisons import SCRIPTS, write_scripted


@pytest.fixture(scope="session")
def board(tmp_path_factory):
    """The report of runs of three models with three seeds; tests change nothing in it.

    The best validation, the last one and the one of the smallest loss are of three updates.
    """
    out = tmp_path_factory.mktemp("board") / "runs"
    for architecture in SCRIPTS:
        for seed in (1, 2, 3):
            write_scripted(out, architecture, seed)
    main(["report", str(out)])
    return out
