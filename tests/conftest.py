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

# Set before torch is imported: forks of a multi-threaded process would wait for its threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Tests read checkpoints that no training of the user's has written, which torch < 2.10 may not.
if Version(version("torch")) < Version("2.10"):
    os.environ.setdefault("ODEFORMERS_TRUST", "1")


def pytest_collection_finish():
    """Freeze imported objects, which the garbage collector need not scan or copy in forks."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory):
    """Keep the digests of the tests' checkpoints out of the user's folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def root_logger():
    """Reset the root logger, which fairseq's commands in other tests set up for their own."""
    handlers = logging.root.handlers
    handlers[:] = [one for one in handlers if type(one).__module__.startswith("_pytest.")]
    logging.root.setLevel(logging.WARNING)
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The folder of small data sets that the checkpoints in ``golden`` belong to."""
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
    """The plugins of the pages on architectures, imported from folders; returns rk2."""
    from fairseq_odeformers.registry import import_plugins

    sections = {}
    for page in ("extending.md", "reference/layer_examples.md"):
        text = (Path(__file__).parents[1] / "docs" / page).read_text("utf-8")
        sections |= dict(section.split("\n", 1) for section in text.split("\n## ")[1:])
    plugins = {
        "mean_layer": sections["A layer in plain PyTorch"],
        "rk2": sections["1. Write the file"] + sections["Language model and classifier"],
        "causal_mean": sections["Replace self-attention"],
    }
    root = tmp_path_factory.mktemp("plugins")
    for name, text in plugins.items():
        code = "\n\n".join(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S))
        (root / name).mkdir()
        (root / name / "__init__.py").write_text(code, "utf-8")
        import_plugins([str(root / name)])
    return importlib.import_module("rk2")


@pytest.fixture
def prepared(data, tmp_path):
    """A data set that records how it was prepared."""
    folder = shutil.copytree(data / "words", tmp_path / "words")
    recipe = {"langs": ["de", "en"], "lowercase": True, "aggressive_hyphens": False}
    (folder / "recipe.json").write_text(json.dumps(recipe))
    return folder


@pytest.fixture
def checkpoint(tmp_path):
    """Writes a checkpoint of ``golden`` to ``checkpoint.pt`` and returns its path."""
    from make_checkpoints import PATHS

    def unpack(name):
        path = tmp_path / "checkpoint.pt"
        path.write_bytes(gzip.decompress(PATHS[name].read_bytes()))
        return path

    return unpack


@pytest.fixture
def float64():
    import torch  # not needed by the process that distributes tests

    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
