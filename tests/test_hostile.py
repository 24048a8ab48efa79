"""Hostile inputs are refused with a line, or read as they are; nothing hangs, and no code runs."""

from functools import cache

import pytest
from hostile import KINDS, Case, outcome, write_folder

CASES = [case for kind in KINDS.values() for case in kind]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    write_folder(folder)
    return folder


@pytest.fixture(scope="module")
def whole(folder):
    """Returns what comes of a reader of whole files; each reads once."""
    return cache(lambda use: outcome(Case("whole", int, use), folder))


@pytest.fixture(scope="module")
def failures(folder, whole):
    """Runs cases and prints how many have which outcome; returns those that should not be."""

    def run(cases):
        results = {case.use: whole(case.use)[1] for case in cases if case.must == "same"}
        outcomes = [(case.name, *outcome(case, folder, results.get(case.use))) for case in cases]
        found = [what for _, what, _ in outcomes]
        print({what: found.count(what) for what in sorted(set(found))})
        return [one for one in outcomes if one[1] not in ("refused", "accepted")]

    return run


def test_whole_files_are_read(whole):
    """Else a case of a spoilt file says nothing."""
    found = [whole(use) for use in {case.use for case in CASES if ", mutation " in case.name}]
    refused = [said for what, said in found if what != "accepted"]
    assert len(refused) == 1 and "have different models" in refused[0]  # the average of two


def test_a_sample_of_hostile_inputs(failures):
    assert len(CASES) >= 600
    assert not failures(CASES[5::37])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_inputs(kind, failures):
    assert not failures(KINDS[kind])
