"""State of incremental decoding."""

import torch
from torch import Tensor

# What fairseq hands to each module of a decoder, or None outside of incremental decoding.
IncrementalState = dict[str, dict[str, Tensor | None]] | None


def append(saved: dict[str, Tensor], name: str, new: Tensor, dim: int) -> Tensor:
    """Append tokens to the saved tensor of a name, along its dimension of tokens.

    Returns:
        The saved tensor, with the new tokens.
    """
    saved[name] = torch.cat([saved[name], new], dim) if name in saved else new
    return saved[name]
