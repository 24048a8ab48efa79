"""Replacements for torch's dropout and linear map, and a cast to float32."""

import torch
import torch.nn.functional as F
from fairseq.modules import FairseqDropout
from torch import Tensor, nn


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each element with probability *p* and scale the others by 1 / (1 - p).

    On a CPU, torch draws one Bernoulli variable per element. This takes a tenth of an update.
    Here, one draw provides 16 random bits for each of four elements. *p* is rounded to a multiple
    of 2^-16, and the scale uses the rounded *p*. On other devices, torch's dropout is called.
    """
    dropped = round(p * 2**16)
    if not 0 < dropped < 2**16 or x.device.type != "cpu":
        return F.dropout(x, p)
    bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    keep = bits.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - 2**15
    return x * (keep.to(x.dtype) * (2**16 / (2**16 - dropped)))


class Dropout(FairseqDropout):
    """fairseq's dropout module on top of :func:`dropout`."""

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        return dropout(x, self.active_p)

    @property
    def active_p(self) -> float:
        """The probability p in training, or with fairseq's ``--retain-dropout``; 0 otherwise."""
        return self.p if self.training or self.apply_during_inference else 0.0


class LinearWithoutBias(nn.Linear):
    """A linear map x W^T without a bias.

    ``nn.Linear(..., bias=False)`` still lists a bias with the value None. fairseq's trainer treats
    all such entries of a model as one shared parameter and logs each of them.
    """

    def __init__(self, in_features: int, out_features: int):
        super().__init__(in_features, out_features, bias=False)
        del self.bias
        self.bias = None


def at_least_float32(x: Tensor) -> Tensor:
    """Convert x to float32 if it is in half precision."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
