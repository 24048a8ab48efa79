"""Tokens get the segment of the text that they are in."""

import torch

from fairseq_odeformers.modules.segment_embedding import SegmentEmbedding

BOS, PAD, EOS = 0, 1, 2


def test_the_first_separator_ends_the_first_segment():
    """A single text has one segment, and later separators of a pair do not change the segments."""
    embedding = SegmentEmbedding(9, 4, PAD, EOS)
    tokens = torch.tensor(
        [
            [BOS, 5, 6, EOS, 7, 8, EOS],
            [BOS, 5, EOS, EOS, 7, EOS, EOS],
            [BOS, 5, 6, 7, 8, 5, EOS],
            [PAD, PAD, BOS, 5, EOS, 7, EOS],
        ]
    )
    segments = torch.tensor(
        [[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1], [0] * 7, [0, 0, 0, 0, 0, 1, 1]]
    )
    expected = embedding.weight[tokens] + embedding.segments.weight[segments]
    assert torch.equal(embedding(tokens), expected)
