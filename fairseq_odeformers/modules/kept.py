"""Tensors that depend only on parameters, computed in each training pass, once in evaluation."""

from typing import Any

import torch
from torch import nn


class Kept(nn.Module):
    """Base class of modules that compute tensors from parameters such as ``weight``.

    In training, each pass computes the tensors. In evaluation mode, the first pass without
    gradients computes them, and later passes reuse them until a call of ``train``, ``eval`` or
    ``load_state_dict``, a conversion such as ``half`` or ``to``, or a pass that records gradients.
    The module notices nothing else: call ``eval`` again after you overwrite the weights of a model
    in evaluation mode, as a moving average of weights or ``torch.func.functional_call`` does.
    """

    weight: nn.Parameter
    _kept: Any = None

    def make(self) -> Any:
        """Compute the tensors from the parameters."""
        raise NotImplementedError

    def made(self) -> Any:
        """Return the tensors, either kept or computed now."""
        if self.training or torch.is_grad_enabled() or torch.compiler.is_compiling():
            self._kept = None
            return self.make_in_full_precision()
        tensors = self._kept
        if tensors is None:
            with torch.inference_mode(False), torch.no_grad():
                tensors = self._kept = self.make_in_full_precision()
        return tensors

    def make_in_full_precision(self) -> Any:
        """Compute the tensors without automatic mixed precision."""
        with torch.autocast(self.weight.device.type, enabled=False):
            return self.make()

    def for_export(self) -> "Kept":
        """Return the module with its tensors as constants, not computed by programs."""
        with torch.no_grad():
            tensors = self.make_in_full_precision()
        self.made = lambda: tensors
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
        return {**self.__dict__, "_kept": None}  # copies and pickles compute their own tensors
