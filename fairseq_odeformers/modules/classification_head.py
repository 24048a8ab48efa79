"""Pooling of the states of an encoder, and the classification head."""

import torch
from fairseq.modules import LayerNorm
from torch import Tensor, nn


def mean_pool(x: Tensor, padding_mask: Tensor) -> Tensor:
    """Return the mean (B, C) of the states (B, T, C) of real tokens."""
    token_mask = (~padding_mask).unsqueeze(-1).float()
    return ((x * token_mask).sum(1) / token_mask.sum(1).clamp(min=1)).to(x)


def max_pool(x: Tensor, padding_mask: Tensor) -> Tensor:
    """Return the maximum (B, C) of each feature over the states (B, T, C) of real tokens."""
    x = x.masked_fill(padding_mask.unsqueeze(-1), torch.finfo(x.dtype).min).amax(1)
    return x.masked_fill(padding_mask.all(1, keepdim=True), 0.0)


def first_pool(x: Tensor, padding_mask: Tensor) -> Tensor:
    """Return the state (B, C) of the first real token."""
    first = (~padding_mask).int().argmax(1)
    return x.gather(1, first.view(-1, 1, 1).expand(-1, 1, x.size(2))).squeeze(1)


# Each function maps states (B, T, C) and a mask (B, T), true at padding, to (B, C).
POOLING = {"mean": mean_pool, "max": max_pool, "first": first_pool}


class ClassificationHead(nn.Module):
    """Classification head: it maps the pooled states of one or two texts to class scores.

    For two texts x1 and x2, encoded by the same encoder, the head classifies
    [x1, x2, x1 * x2, x1 - x2].

    Args:
        embed_dim: width C of the pooled states.
        num_classes: number K of classes.
        layer_norm: whether to normalise the pooled states.
        hidden_layers: number of ReLU layers before the last, linear layer.
        towers: number of texts, 1 or 2.
        hidden_dim: width of the hidden layers (None: C).
    """

    def __init__(
        self,
        embed_dim: int,
        num_classes: int,
        layer_norm: bool = True,
        hidden_layers: int = 0,
        towers: int = 1,
        hidden_dim: int | None = None,
    ):
        super().__init__()
        self.layer_norm = LayerNorm(embed_dim) if layer_norm else nn.Identity()
        layers: list[nn.Module] = []
        width = embed_dim if towers == 1 else 4 * embed_dim
        for _ in range(hidden_layers):
            layers += [nn.Linear(width, hidden_dim or embed_dim), nn.ReLU()]
            width = hidden_dim or embed_dim
        self.hidden = nn.Sequential(*layers)
        self.out_proj = nn.Linear(width, num_classes)

    def forward(self, x: Tensor, other: Tensor | None = None) -> Tensor:
        """Compute the scores of the classes.

        Args:
            x, other: pooled states (B, C) of the first and the second text.

        Returns:
            Scores (B, K).
        """
        x = self.layer_norm(x)
        if other is not None:
            y = self.layer_norm(other)
            x = torch.cat([x, y, x * y, x - y], dim=-1)
        return self.out_proj(self.hidden(x))
