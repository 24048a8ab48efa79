"""TransEvolve's block in an encoder of plain PyTorch.

fairseq must be installed, but you need none of its commands, tasks or models.
"""

from torch import nn

from fairseq_odeformers.models.transevolve.block import TransEvolveEncoderBlock
from fairseq_odeformers.models.transevolve.spec import BlockSpec


class TextEncoder(nn.Module):
    """States (B, T, C) of the tokens (B, T) of texts, where 0 is padding."""

    def __init__(self, vocabulary=1000, width=64):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.block = TransEvolveEncoderBlock(
            BlockSpec(
                embed_dim=width, ffn_embed_dim=4 * width, attention_heads=4, depth=6, time_dim=128
            )
        )

    def forward(self, tokens):
        states = self.embedding(tokens).transpose(0, 1)
        return self.block(states, tokens.eq(0)).transpose(0, 1)
