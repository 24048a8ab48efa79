"""Sums and maxima over all tokens, and over those so far, whole or continued."""

import pytest
import torch

from fairseq_odeformers.models.transject.token_statistics import CausalStatistics, FullStatistics


def inputs():
    """What a sum and a maximum of experts are taken of, and where its tokens are."""
    torch.manual_seed(0)
    return {"sum": torch.randn(2, 7, 4), "max": torch.randn(3, 2, 7, 4)}


@pytest.mark.parametrize("name", ["sum", "max"])
def test_causal_statistics_are_those_of_the_prefix(name):
    x = inputs()[name]
    causal = getattr(CausalStatistics(), name)(x)
    for t in range(7):
        prefix = getattr(FullStatistics(), name)(x[..., : t + 1, :])
        assert torch.allclose(causal[..., t : t + 1, :], prefix, atol=1e-6)


@pytest.mark.parametrize("name", ["sum", "max"])
def test_continued(name):
    """Tokens in several calls, between which the sequences of the batch change places."""
    x, state, order = inputs()[name], {}, torch.tensor([1, 1])
    statistics = CausalStatistics()
    statistic = getattr(statistics, name)
    statistic(x[..., :2, :], state)
    statistic(x[..., 2:4, :], state)
    statistics.reorder_incremental_state(state, order)
    x = x.index_select(-3, order)
    assert torch.allclose(statistic(x[..., 4:, :], state), statistic(x)[..., 4:, :], atol=1e-6)


def test_instances_keep_their_own():
    a, b, state, x = CausalStatistics(), CausalStatistics(), {}, inputs()["sum"]
    a.sum(x, state)
    assert torch.equal(b.sum(x, state), b.sum(x))
