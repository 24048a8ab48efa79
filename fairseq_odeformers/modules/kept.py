"""What is computed from parameters alone: anew in each pass of training, once in evaluation."""

from typing import Any

import torch
from torch import nn


class Kept(nn.Module):
    """Base of a module that makes tensors, such as ``weight``, of its parameters.

    They are made anew in each pass. In evaluation mode, the first pass without gradients keeps them
    for the next ones, until ``train``, ``eval``, ``load_state_dict``, a conversion such as ``half``
    or ``to``, or a pass that records gradients. Nothing else is noticed: call ``eval`` again if you
    assign or overwrite the weights of a model in evaluation mode, as a moving average of weights or
    ``torch.func.functional_call`` does.
    """

    weight: nn.Parameter
    _kept: Any = None

    def make(self) -> Any:
        """The tensors, from the parameters."""
        raise NotImplementedError

    def made(self) -> Any:
        """The tensors, made now or kept."""
        if self.training or torch.is_grad_enabled() or torch.compiler.is_compiling():
            self._kept = None
            return self.make_in_full_precision()
        kept = self._kept
        if kept is None:
            with torch.inference_mode(False), torch.no_grad():
                kept = self._kept = self.make_in_full_precision()
        return kept

    def make_in_full_precision(self) -> Any:
        """The tensors, not rounded by automatic mixed precision."""
        with torch.autocast(self.weight.device.type, enabled=False):
            return self.make()

    def for_export(self) -> "Kept":
        """The module with constants in place of what it makes, so that a program need not."""
        with torch.no_grad():
            kept = self.make_in_full_precision()
        self.made = lambda: kept
        return self

    def train(self, mode: bool = True) -> "Kept":
        self._kept = None
        return super().train(mode)

    def _load_from_state_dict(self, *args, **kwargs) -> None:
        self._kept = None
        super()._load_from_state_dict(*args, **kwargs)

    def _apply(self, *args, **kwargs) -> "Kept":
        self._kept = None
        return super()._apply(*args, **kwargs)

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_kept": None}  # copies and pickles make their own
