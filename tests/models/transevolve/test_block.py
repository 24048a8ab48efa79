"""Bookkeeping of beam search in the decoder block."""

import pytest
import torch

from fairseq_odeformers.models.transevolve.block import shared_rows


@pytest.mark.parametrize(
    ("new_order", "beams", "expected_beams"),
    [
        ([0, 0, 0, 1, 1, 1], 1, 3),  # the search starts: a sentence becomes three hypotheses
        ([1, 0, 0, 4, 5, 3], 3, 3),  # hypotheses change places within their sentence
        ([4, 3, 3], 3, 3),  # the first sentence is finished
        ([2, 0, 1], 1, 1),  # one hypothesis a sentence
        ([0, 0, 1], 1, 1),  # uneven: every hypothesis gets a row of its own
        ([0, 3, 3, 0], 3, 1),
        ([5, 0], 3, 1),
    ],
)
def test_shared_rows_serve_every_hypothesis_what_it_had(new_order, beams, expected_beams):
    new_order = torch.tensor(new_order)
    rows, new_beams = shared_rows(new_order, beams)
    assert new_beams == expected_beams
    assert len(rows) * new_beams == len(new_order)
    content = torch.tensor([10, 20, 30, 40, 50, 60])  # of the rows
    served = content[rows].repeat_interleave(new_beams)
    assert torch.equal(served, content.repeat_interleave(beams)[new_order])
