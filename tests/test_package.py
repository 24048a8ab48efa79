"""A wheel holds all that ``--user-dir`` needs, and registers once however it is imported."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "fairseq_odeformers"


def run(*command, **kwargs):
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs
    ).stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a copy of the checkout."""
    source, dist = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("setup.py", "odeformers.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in (PACKAGE, "tests"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    build = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", dist, source)
    run(sys.executable, "-m", "pip", *build)
    (path,) = dist.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Runs Python in an empty folder, with the wheel's package before the checkout's."""
    site, cwd = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("cwd")
    install = ("install", "--quiet", "--no-deps", "--no-index", "--target", site, wheel)
    run(sys.executable, "-m", "pip", *install)
    env = {**os.environ, "PYTHONPATH": str(site)}

    def python(*args):
        return run(sys.executable, *args, cwd=cwd, env=env)

    python.folder = str(site / PACKAGE)
    return python


def test_wheel_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / PACKAGE).rglob("*.py")}
    data = "lab/compare/defaults.yaml lab/compare/report.html py.typed"
    data = {f"{PACKAGE}/{name}" for name in data.split()}
    assert names == modules | data | {"odeformers.py"}


def test_train_accepts_the_architecture(installed):
    """With its folder, and nothing else: no advice of fairseq's."""
    options = ("--user-dir", installed.folder, "--arch", "transevolve_fullff_2")
    assert "usage:" in installed("-m", "fairseq_cli.train", *options, "--help")


WITHOUT_EXTRAS = f"""
import argparse, logging, runpy, sys
folder, tests = sys.argv[1:]
sys.argv[1:] = []
for name in ("PIL", "sacremoses", "safetensors", "subword_nmt", "tokenizers"):
    sys.modules[name] = None  # to import it is an error
import {PACKAGE}.cli
assert "{PACKAGE}.inference.hub" not in sys.modules
import {PACKAGE}.inference.hub
assert logging.root.level == logging.WARNING and not logging.root.handlers
from fairseq import models, utils
utils.import_user_module(argparse.Namespace(user_dir=folder))
sys.path.append(tests)
from helpers import make_classifier, make_model
for arch in ("macaron_transformer", "node_transformer_mt", "transevolve_fullff_2"):
    make_model(arch)
model = type(make_classifier("transject"))
assert model is models.ARCH_MODEL_REGISTRY["transject"]
print(sys.modules[model.__module__].__file__)
runpy.run_module("{PACKAGE}")
"""


def test_import_by_name_then_user_dir_without_the_libraries_of_extras(installed):
    """fairseq raises when a name is registered twice. The root logger is left as it is.

    As a program the module prints its folder.
    """
    *_, file, folder = installed(
        "-c", WITHOUT_EXTRAS, installed.folder, ROOT / "tests"
    ).splitlines()
    assert file.startswith(f"{folder}/") and folder == installed.folder
