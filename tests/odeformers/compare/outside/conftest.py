import shutil
import sys

import pytest
import warm_python

from tests.odeformers.compare.outside.commands import BOTH, PLUGIN, SHORT, compare, write_labelled

COLD = sys.executable
WARM: list[str] = []  # the program in place of it, once it is there


@pytest.fixture(scope="session", autouse=True)
def python(tmp_path_factory):
    """Programs that a command starts are forks."""
    program, server = warm_python.serve(tmp_path_factory.mktemp("python"))
    sys.executable = str(program)
    WARM.append(sys.executable)
    yield
    server.terminate()
    server.join()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """The tests of this folder use that program; others, which the process runs too, do not."""
    sys.executable = WARM[0] if WARM else COLD


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown():
    sys.executable = COLD


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
    compare(folder / "data", folder / "runs", *BOTH, *SHORT, plugin=folder / "plugin")
    return folder


@pytest.fixture
def controls(tmp_path):
    """A folder whose files hold scripted models up; an environment for their commands."""
    folder = tmp_path / "controls"
    folder.mkdir()
    return folder
