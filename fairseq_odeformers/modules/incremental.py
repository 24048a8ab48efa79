"""State of incremental decoding."""

import torch
from torch import Tensor


def append(saved: dict[str, Tensor], name: str, new: Tensor, dim: int) -> Tensor:
    """Append a token to a saved tensor along its dimension of tokens, and return all of it."""
    saved[name] = torch.cat([saved[name], new], dim) if name in saved else new
    return saved[name]
