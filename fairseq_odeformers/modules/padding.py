"""Padding of sequences."""

from torch import Tensor


def key_padding_mask(padding_mask: Tensor | None) -> Tensor | None:
    """The keys that attention leaves out (B, T): padding, but not in a sequence of padding alone.

    Without any key the attention weights would not be numbers.
    """
    if padding_mask is None:
        return None
    return padding_mask & ~padding_mask.all(1, keepdim=True)
