"""X_0 against the formula, and the scale of its halves."""

import pytest
import torch

from fairseq_odeformers.models.transject import naive
from fairseq_odeformers.models.transject.embedding import ConcatenatedPositions
from fairseq_odeformers.modules.orthogonal import OrthonormalEmbedding


def make_embedding(symbols):
    torch.manual_seed(0)
    return ConcatenatedPositions(OrthonormalEmbedding(symbols, 8, padding_idx=1), symbols, 32)


def test_embedding_equals_the_formula():
    """X_0 is a scaled embedding, then sines and cosines.

    Padding is zero, and no two tokens are equal.
    """
    module = make_embedding(16)
    tokens = torch.tensor([[4, 5, 4, 1]])
    position = torch.tensor([2.0, 3.0, 4.0]).unsqueeze(1)  # fairseq counts from padding_idx + 1
    angles = position * 10000 ** -(torch.arange(4) / 3)
    sinusoids = torch.cat([angles.sin(), angles.cos()], dim=1)
    expected = naive.embed(tokens[0, :3], 4 * module.embed_tokens.matrix(), sinusoids)
    x = module(tokens)
    assert (x[0, :3] - expected).abs().max() < 1e-5
    assert not x[0, 3].any()
    assert torch.pdist(x[0, :3]).min() > 0.1
    assert torch.equal(module(tokens[:, :3], incremental_state={}), x[:, 2:3])


@pytest.mark.parametrize("symbols", [5, 20, 1000])  # fewer than the width, and more
def test_tokens_and_positions_have_similar_scales(symbols):
    """The mean square of an entry is 1 for any number of symbols, and that of a sinusoid 1/2."""
    x = make_embedding(symbols)(torch.arange(4, symbols).unsqueeze(0)).detach()
    assert 0.7 < x[..., :8].square().mean() < 1.4
    assert x[..., 8:].square().mean().item() == pytest.approx(0.5, abs=1e-4)
