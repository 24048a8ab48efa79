"""A finer precision where half precision is too coarse."""

import torch
from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """x in float32 if it is in half precision, else unchanged."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
