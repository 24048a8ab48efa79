"""Blocks against the paper's formula, and their bookkeeping of beam search."""

import pytest
import torch
from helpers import assert_same_gradients

from fairseq_odeformers.models.transevolve import naive
from fairseq_odeformers.models.transevolve.block import (
    TransEvolveDecoderBlock,
    TransEvolveEncoderBlock,
    shared_rows,
)


@pytest.mark.parametrize("normalize_before", [False, True])
@pytest.mark.parametrize("backend", ["direct", "factored", "fused"])
@pytest.mark.parametrize("ffn_type", ["full", "random"])
@pytest.mark.parametrize("cls", [TransEvolveEncoderBlock, TransEvolveDecoderBlock])
def test_equals_the_formula(float64, cls, ffn_type, backend, normalize_before):
    """X^l from X^(l-1) as Eqs. 9 (13 in the decoder) and 11 write it; output and gradients.

    LayerNorm is after the block, or before the inputs of Eq. 6, and then nothing normalises X.
    """
    torch.manual_seed(0)
    block = cls(
        *(8, 12, 2, 3, 4, ffn_type),
        attention_backend=backend,
        normalize_before=normalize_before,
    )
    for parameter in block.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    x, source = torch.randn(4, 2, 8, requires_grad=True), torch.randn(5, 2, 8, requires_grad=True)
    inputs = [x, *block.parameters()]
    if block.cross_attention:
        inputs.append(source)
        out, _, _ = block(x, source, self_attn_mask=torch.empty(0))
    else:
        out = block(x)
    source = source.transpose(0, 1) if block.cross_attention else None
    expected = naive.block_output(block, x.transpose(0, 1), source)
    assert_same_gradients(out, expected.transpose(0, 1), inputs)


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
