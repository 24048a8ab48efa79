"""BERT's embedding of tokens and segments."""

from torch import Tensor, nn


class SegmentEmbedding(nn.Embedding):
    """Embedding of a token plus embedding of its segment (Devlin et al. 2019, section 3).

    Segment 0 ends with the first separator, and all later tokens belong to segment 1. The segments
    of a pair are thus determined by its tokens, and a single text is segment 0.

    Args:
        separator: index of the token that ends the first text.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int, separator: int):
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        self.separator = separator
        self.segments = nn.Embedding(2, embedding_dim)

    def forward(self, input: Tensor) -> Tensor:
        """Map tokens (B, T) to (B, T, C)."""
        ends = input.eq(self.separator).long()
        segment = (ends.cumsum(1) - ends).clamp(max=1)  # 1 if a separator precedes the token
        return super().forward(input) + self.segments(segment)
