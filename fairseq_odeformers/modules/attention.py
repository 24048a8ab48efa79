"""Heads, attention maps and masks, for ``F.scaled_dot_product_attention``."""

import torch
from torch import Tensor


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Split the features of x (B, T, C) into H heads (B, H, T, C/H)."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def attention_map(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
    """Return the attention weights (B, H, T, S): softmax(Q K^T / sqrt(C/H)).

    Args:
        q: queries (B, H, T, C/H).
        k: keys (B, H, S, C/H).
        mask: true where a query may see a key (B, 1, T or 1, S), or None.
        causal: without a mask, whether a query sees only keys up to its own position.
    """
    scores = q @ k.mT * q.size(-1) ** -0.5
    if causal:
        mask = scores.new_ones(scores.shape[-2:]).tril().bool()
    return (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)


def visible(padding_mask: Tensor | None, queries: int, causal: bool) -> Tensor | None:
    """Return a mask (B, 1, T or 1, S), true where a query may see a key; None without padding.

    In causal attention, a query that is padding sees itself, so that each row has a key.

    Args:
        padding_mask: true where a key is padding (B, S), or None.
        queries: number T of queries; if *causal*, they are the last T of the S tokens.
        causal: whether a query sees only keys up to its own position.
    """
    if padding_mask is None:
        return None
    allowed = ~padding_mask[:, None, None]
    if not causal:
        return allowed
    key = torch.arange(padding_mask.size(1), device=padding_mask.device)
    query = key[-queries:].unsqueeze(1)
    return (key <= query) & allowed | (key == query)
