"""What the libraries of extras are not needed for works without them."""

import ast
import sys
from pathlib import Path

import pytest

import fairseq_odeformers
from fairseq_odeformers.extras import EXTRAS, require

PACKAGE = Path(fairseq_odeformers.__file__).parent


def test_what_is_missing_is_named(monkeypatch):
    require("tokenizers")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"^pillow is missing; .* \[corpora\]$"):
        require("tokenizers", "PIL")


def test_no_module_imports_them_before_it_needs_them():
    """So that a command line can say which one is missing; the analysis needs all of its own."""
    for path in set(PACKAGE.rglob("*.py")) - set(PACKAGE.glob("analysis/*")):
        for node in ast.parse(path.read_text("utf-8")).body:
            names = [alias.name for alias in getattr(node, "names", [])]
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not {name.split(".")[0] for name in names} & EXTRAS.keys(), path
