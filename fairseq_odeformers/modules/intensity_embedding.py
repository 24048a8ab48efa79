"""An embedding of pixels as numbers instead of symbols."""

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn


class IntensityEmbedding(nn.Module):
    """An affine map of a pixel's intensity, in place of an embedding of 256 symbols.

    Args:
        dictionary: dictionary of fairseq's special symbols and the symbols ``0`` to ``255``.
        embed_dim: width C.
    """

    intensities: Tensor  # one per symbol, from -1 to 1

    def __init__(self, dictionary: Dictionary, embed_dim: int):
        super().__init__()
        self.embedding_dim = embed_dim
        self.padding_idx = dictionary.pad()
        self.proj = nn.Linear(1, embed_dim)
        for parameter in self.proj.parameters():  # initialised like fairseq's embeddings
            nn.init.normal_(parameter, std=embed_dim**-0.5)
        intensities = [
            int(symbol) / 127.5 - 1 if symbol.isdigit() else 0.0 for symbol in dictionary.symbols
        ]
        self.register_buffer("intensities", torch.tensor(intensities), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map dictionary indices (B, T) to (B, T, C), via intensities from -1 to 1."""
        return self.proj(self.intensities[tokens].unsqueeze(-1))
