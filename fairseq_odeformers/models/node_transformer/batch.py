"""The batch that a vector field is bound to: its padding, its source, and its earlier tokens.

A solve evaluates its field many times. Binding computes once whatever depends on the batch alone,
neither on t nor on X.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_odeformers.modules.incremental import append


class KeyValueCache:
    """Keys and values of the tokens before the newest, for each evaluation of a field in turn.

    A method on a fixed grid evaluates the field at the same times whenever a token is added.

    Args:
        saved: tensors (..., B) from the steps before; those of this step are added to it.
    """

    def __init__(self, saved: dict[str, Tensor]):
        self.saved = saved
        self.evaluation = 0

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add those of the newest token (C, 1, B), and return those of all tokens (C, T, B)."""
        index = self.evaluation
        self.evaluation += 1
        return (
            append(self.saved, f"key{index}", key, dim=1),
            append(self.saved, f"value{index}", value, dim=1),
        )

    def append_bias(self, bias: Tensor) -> Tensor:
        """Add the bias of the newest token as a key (1, 1, B), and return that of all (T, 1, B)."""
        return append(self.saved, "bias", bias, dim=0)


class Batch(NamedTuple):
    """The sequences of one solve.

    Attributes:
        x: X(0) (C, T, B); in incremental decoding, of the newest token alone.
        padding_mask: true where a token is padding (B, T).
        source: the encoder's output (S, B, C), for a decoder.
        source_padding_mask: true where a token of the source is padding (B, S).
        causal: whether self-attention hides later tokens.
        cache: given in incremental decoding.
    """

    x: Tensor
    padding_mask: Tensor | None = None
    source: Tensor | None = None
    source_padding_mask: Tensor | None = None
    causal: bool = False
    cache: KeyValueCache | None = None

    def lengths(self) -> Tensor:
        """The number of tokens of each sequence, without padding (B)."""
        if self.padding_mask is not None:
            return (~self.padding_mask).sum(1)
        _, length, batch = self.x.shape
        return torch.full((batch,), length, device=self.x.device)

    def token_mask(self) -> Tensor | None:
        """1 where a token is and 0 where padding is (T, B); None without padding."""
        return None if self.padding_mask is None else (~self.padding_mask).T.to(self.x)

    def self_bias(self) -> Tensor | None:
        """Added to scores of self-attention, key before query (T, T or 1, B or 1)."""
        bias = padding_bias(self.padding_mask, self.x)
        if self.cache is not None:
            newest = self.x.new_zeros(1, 1, self.x.size(-1)) if bias is None else bias
            bias = self.cache.append_bias(newest)
        if self.causal:
            bias = causal_bias(self.x) if bias is None else causal_bias(self.x).minimum(bias)
        return bias

    def source_bias(self) -> Tensor | None:
        """Added to scores of the attention to the source (S, 1, B)."""
        return padding_bias(self.source_padding_mask, self.x)


def padding_bias(padding_mask: Tensor | None, x: Tensor) -> Tensor | None:
    """Hides the keys (S, 1, B) that are padding (B, S).

    It is finite because the scores of a sequence of padding alone may not become nan.
    """
    if padding_mask is None:
        return None
    return (padding_mask.T.to(x) * torch.finfo(x.dtype).min).unsqueeze(1)


def causal_bias(x: Tensor) -> Tensor:
    """Hides the keys of later tokens (T, T, 1)."""
    bias = x.new_full((x.size(1), x.size(1)), torch.finfo(x.dtype).min)
    return bias.tril(-1).unsqueeze(-1)
