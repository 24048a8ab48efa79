"""The list of changes is complete and in force, and nothing but ``apply`` makes one."""

import importlib
import logging
import pkgutil
import warnings

import numpy as np
import pytest
import torch

from fairseq_odeformers import patches
from fairseq_odeformers.patches import patch as source
from fairseq_odeformers.patches.patch import Replacement
from fairseq_odeformers.patches.table import PATCHES

REPLACEMENTS = [patch for patch in PATCHES if isinstance(patch, Replacement)]


def state():
    """All objects that the patches may change."""
    return {
        **{patch.name: pkgutil.resolve_name(patch.name) for patch in REPLACEMENTS},
        "eval": vars(importlib.import_module("fairseq.utils"))["eval"],
        "compat": np.compat,
        "safe": set(map(str, torch.serialization.get_safe_globals())),
        "filters": [*warnings.filters],
        "logging": (logging.root.level, [*logging.root.handlers]),
    }


@pytest.mark.parametrize("patch", REPLACEMENTS, ids=lambda patch: patch.name)
def test_each_patch_is_applied_once(patch):
    """The patched name is a wrapper of :mod:`patch` around a function that is not one."""
    patched = pkgutil.resolve_name(patch.name)
    assert patched.__code__.co_filename == source.__file__
    original = getattr(patched.__wrapped__, "__code__", None)
    assert getattr(original, "co_filename", "") != source.__file__


def test_each_patch_has_a_reason_and_an_expiry():
    assert all(patch.reason and patch.until for patch in PATCHES)
    assert len({patch.name for patch in PATCHES}) == len(PATCHES)


@pytest.mark.skipif(not hasattr(torch.serialization, "get_safe_globals"), reason="torch < 2.6")
@pytest.mark.parametrize("name", [info.name for info in pkgutil.iter_modules(patches.__path__)])
def test_importing_a_patch_module_changes_nothing(name):
    before = state()
    spec = importlib.util.find_spec(f"fairseq_odeformers.patches.{name}")
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert state() == before


class Sample:
    def plain(self):
        return self

    @classmethod
    def of_class(cls):
        return cls

    @staticmethod
    def static():
        return None


def test_methods_stay_of_their_kind():
    """Called on an instance and, but for the plain one, on its class."""

    class Derived(Sample):
        pass

    sample = Derived()
    before = sample.plain(), sample.of_class(), sample.static(), Derived.of_class()
    for name in ("plain", "of_class", "static"):
        Replacement(
            f"{__name__}.Sample.{name}", lambda original, *args: [original(*args)], "", ""
        ).apply()
    after = sample.plain(), sample.of_class(), sample.static(), Derived.of_class()
    assert after == tuple([result] for result in before)
