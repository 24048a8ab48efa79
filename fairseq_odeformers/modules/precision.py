"""The precision of what half precision is too coarse for."""

import torch
from torch import Tensor


def single(x: Tensor) -> Tensor:
    """In single precision, if x is in half of it."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
