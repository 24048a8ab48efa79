import gc
import gzip
import importlib
import json
import logging
import os
import re
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

# Before torch is imported: forks of a process that has run on several threads would wait for them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Tests read checkpoints that no training of the user's has written, which torch < 2.10 may not.
if Version(version("torch")) < Version("2.10"):
    os.environ.setdefault("ODEFORMERS_TRUST", "1")


def pytest_collection_finish():
    """What has been imported stays: the collector need not look through it, or copy it in forks."""
    gc.freeze()


@pytest.fixture(autouse=True)
def root_logger():
    """As a program finds it: fairseq's commands, which other tests run, set it up for their own."""
    handlers = logging.root.handlers
    handlers[:] = [one for one in handlers if type(one).__module__.startswith("_pytest.")]
    logging.root.setLevel(logging.WARNING)
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The folder of small data sets, of which the checkpoints in ``golden`` are."""
    from make_checkpoints import write_data  # see float64

    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    return folder


@pytest.fixture(scope="module")
def training_data(data):
    """The same folder, with sentences and classes to train with on any task."""
    from make_checkpoints import write_splits

    write_splits(data, train=40, valid=8)
    return data


@pytest.fixture(scope="session")
def page_plugin(tmp_path_factory):
    """The plugin that docs/extending.md shows, imported from a folder of the page's name."""
    from fairseq_odeformers.registry import import_plugins

    page = Path(__file__).parents[1] / "docs" / "extending.md"
    introduction, *_ = page.read_text("utf-8").split("\n## ")
    code = "\n\n".join(re.findall(r"^```python\n(.*?)^```", introduction, re.M | re.S))
    folder = tmp_path_factory.mktemp("plugin") / "rk2"
    folder.mkdir()
    (folder / "__init__.py").write_text(code, "utf-8")
    import_plugins([str(folder)])
    return importlib.import_module("rk2")


@pytest.fixture
def prepared(data, tmp_path):
    """A data set that says how it was prepared."""
    folder = shutil.copytree(data / "words", tmp_path / "words")
    recipe = {"langs": ["de", "en"], "lowercase": True, "aggressive_hyphens": False}
    (folder / "recipe.json").write_text(json.dumps(recipe))
    return folder


@pytest.fixture
def checkpoint(tmp_path):
    """Writes one of the checkpoints in ``golden`` to ``checkpoint.pt``; returns the path."""
    from make_checkpoints import PATHS

    def unpack(name):
        path = tmp_path / "checkpoint.pt"
        path.write_bytes(gzip.decompress(PATHS[name].read_bytes()))
        return path

    return unpack


@pytest.fixture
def float64():
    import torch  # which the process that only hands out the tests does without

    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
