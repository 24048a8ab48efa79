"""The precision of what half precision is too coarse for."""

import torch
from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """In float32 if x is in half precision, else as it is."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
