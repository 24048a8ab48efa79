import shutil

import pytest

from tests.odeformers.compare.outside.commands import (
    BOTH,
    PLUGIN,
    SHORT,
    Command,
    compare,
    write_labelled,
)


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Labelled texts, as many as a comparison needs."""
    return write_labelled(
        tmp_path_factory.mktemp("labelled") / "data", train=40, valid=40, test=120
    )


@pytest.fixture(scope="session")
def finished(data, tmp_path_factory):
    """Data, plugin and runs of two models with one seed."""
    folder = tmp_path_factory.mktemp("finished")
    shutil.copytree(data, folder / "data")
    shutil.copytree(PLUGIN, folder / "plugin", ignore=shutil.ignore_patterns("__pycache__"))
    places = {"plugin": folder / "plugin", "start": Command}
    compare(folder / "data", folder / "runs", *BOTH, *SHORT, **places)
    return folder


@pytest.fixture
def controls(tmp_path):
    """A folder whose files make scripted models wait, and an environment for their commands."""
    folder = tmp_path / "controls"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)  # processes that a failed test left waiting continue
