"""The ways to solve are the same model; how fast they are is not tested."""

from argparse import Namespace

import pytest

from odeformers.benchmark import ode

ARGS = Namespace(embed_dim=8, layers=1, lengths=[3], device="cpu")


def test_the_ways_to_solve_are_the_same_model():
    subjects = [ode.build(name, ARGS) for name in ode.MODELS]
    sizes = [sum(p.numel() for p in subject.model.parameters()) for subject in subjects]
    losses = [ode.make_step(subject, ARGS, 3)().item() for subject in subjects]
    for found, tolerance in ((sizes, 0), (losses, 1e-4)):
        *same, vanilla_transformer = found
        assert same == pytest.approx([same[0]] * 3, rel=tolerance)
        assert vanilla_transformer != pytest.approx(same[0], rel=1e-3)
