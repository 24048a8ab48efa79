"""Hostile inputs are refused with a line, or read as they are; nothing hangs, and no code runs."""

import pytest
from hostile import KINDS, Case, outcome, write_folder

pytest.importorskip("safetensors")

CASES = [case for kind in KINDS.values() for case in kind]


@pytest.fixture(scope="module")
def failures(tmp_path_factory):
    """Runs cases and prints how many have which outcome; returns those that should not be."""
    folder = tmp_path_factory.mktemp("whole")
    write_folder(folder)

    def run(cases):
        uses = {case.use for case in cases if case.must == "same"}
        whole = {use: outcome(Case("whole", int, use), folder)[1] for use in uses}
        outcomes = [(case.name, *outcome(case, folder, whole.get(case.use))) for case in cases]
        found = [what for _, what, _ in outcomes]
        print({what: found.count(what) for what in sorted(set(found))})
        return [one for one in outcomes if one[1] not in ("refused", "accepted")]

    return run


def test_a_sample_of_hostile_inputs(failures):
    assert len(CASES) >= 485
    assert not failures(CASES[5::19])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_inputs(kind, failures):
    assert not failures(KINDS[kind])
