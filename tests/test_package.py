"""A wheel contains all that ``--user-dir`` needs, and registers once however it is imported."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "fairseq_odeformers"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a copy of the checkout."""
    source, dist = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in (PACKAGE, "odeformers", "tests"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    build = f"from setuptools.build_meta import build_wheel; build_wheel({str(dist)!r})"
    subprocess.run([sys.executable, "-c", build], check=True, cwd=source, capture_output=True)
    (path,) = dist.glob("*.whl")
    return path


def test_a_wheel_contains_only_both_packages(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    folders = (ROOT / PACKAGE, ROOT / "odeformers")
    modules = {str(path.relative_to(ROOT)) for folder in folders for path in folder.rglob("*.py")}
    data = {f"odeformers/compare/{name}" for name in ("defaults.yaml", "report/report.html")}
    assert names == modules | data | {f"{PACKAGE}/py.typed"}


INSTALLED = f"""
import argparse, logging, os, runpy, sys
tests, folder = sys.argv.pop(), os.path.join(sys.path[1], "{PACKAGE}")
for name in ("PIL", "sacremoses", "safetensors", "subword_nmt", "tokenizers"):
    sys.modules[name] = None  # makes its import an error
import torch
if os.fork() == 0:
    import fairseq_cli.train
    sys.argv[1:] = ["--user-dir", folder, "--arch", "transevolve_fullff_2", "--help"]
    fairseq_cli.train.cli_main()
assert os.wait()[1] == 0
print("imported by name")
import {PACKAGE}
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


USE = """
from typing_extensions import assert_type
from fairseq_odeformers import import_plugins, load_classifier, load_language_model, load_translator
from fairseq_odeformers.inference.classifier import Classifier
from fairseq_odeformers.inference.generator import Generator

import_plugins("plugin")
assert_type(load_translator("a.pt", tokenized=True, beam=5), Generator)
assert_type(load_language_model("a.pt"), Generator)
assert_type(load_classifier("a.pt"), Classifier)
load_classifier(1)  # a mistake
"""


def test_tools_find_the_public_names(tmp_path):
    """Completions list public names without importing the loaders, and type checkers know them."""
    code = f"import sys, {PACKAGE} as p; print({{*p.__all__}} <= {{*dir(p)}}, *sorted(p.__all__))"
    code += f"; print('{PACKAGE}.inference.hub' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = "build_model import_plugins load_classifier load_language_model load_translator"
    assert shown.stdout.splitlines() == [f"True {names}", "False"]
    pytest.importorskip("basedpyright")
    (tmp_path / "use.py").write_text(USE)
    settings = {"typeCheckingMode": "basic", "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    check = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable]
    checked = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True)
    errors = re.findall(r"use.py:(\d+):.*error", checked.stdout)
    assert errors == [str(len(USE.splitlines()))], checked.stdout


def test_an_installed_wheel_is_imported_by_its_folder_or_by_name(wheel, tmp_path):
    """fairseq-train needs only the folder, and no library of an extra.

    fairseq raises when a name is registered twice. The root logger stays unchanged, and only the
    module as a program prints, namely the folder.
    """
    site, cwd = tmp_path / "site", tmp_path / "cwd"
    cwd.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    env = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-c", INSTALLED, ROOT / "tests"]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown, printed = done.stdout.split("imported by name\n")
    assert "usage:" in shown
    file, folder = printed.splitlines()
    assert folder == str(site / PACKAGE) and file.startswith(f"{folder}/")
    assert not re.search("error|warning", done.stderr, re.I)
