"""X_0, the embedding of a token next to the sinusoids of its position (paper, section 3.5)."""

import math

import torch
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor, nn

from fairseq_odeformers.modules.incremental import IncrementalState
from fairseq_odeformers.modules.intensity_embedding import IntensityEmbedding
from fairseq_odeformers.modules.orthogonal import OrthonormalEmbedding

TokenEmbedding = OrthonormalEmbedding | IntensityEmbedding


class ConcatenatedPositions(nn.Module):
    """X_0 = Concat(Emb(x), PE); each half has the width C / 2.

    The embedding is scaled so that the entries of a random orthonormal matrix have variance 1. The
    paper does not scale it. With 30,000 symbols, however, the entries would be about 0.006 in Emb
    and about 0.7 in PE, and a classifier would learn many times more slowly.

    Args:
        embed_tokens: embedding of width C / 2.
        symbols: number of symbols in the embedding.
        init_size: number of positions with sinusoids computed in advance.
    """

    def __init__(self, embed_tokens: TokenEmbedding, symbols: int, init_size: int):
        super().__init__()
        self.embed_tokens = embed_tokens
        self.embed_scale = math.sqrt(max(symbols, embed_tokens.embedding_dim))
        self.embed_positions = SinusoidalPositionalEmbedding(
            embed_tokens.embedding_dim, embed_tokens.padding_idx, init_size
        )

    def forward(self, tokens: Tensor, incremental_state: IncrementalState = None) -> Tensor:
        """Map tokens (B, T) to X_0 (B, T, C), zero at padding.

        With an incremental state, it returns only X_0 (B, 1, C) of the last token.
        """
        positions = self.embed_positions(tokens, incremental_state=incremental_state)
        if incremental_state is not None:
            tokens = tokens[:, -1:]
        x = torch.cat([self.embed_scale * self.embed_tokens(tokens), positions], dim=-1)
        return x * tokens.ne(self.embed_tokens.padding_idx).unsqueeze(-1)
