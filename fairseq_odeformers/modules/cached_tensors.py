"""Tensors that depend only on parameters, computed in each training pass, once in evaluation."""

from typing import Any

import torch
from torch import nn


class CachedTensors(nn.Module):
    """Base class of modules that compute tensors from parameters such as ``weight``.

    In training, each pass computes the tensors. In evaluation mode, the first pass without
    gradients computes them, and later passes reuse them until a call of ``train``, ``eval`` or
    ``load_state_dict``, a conversion such as ``half`` or ``to``, or a pass that records gradients.
    The module notices no other change: call ``eval`` again after you overwrite the weights of a
    model in evaluation mode, as a moving average of weights or ``torch.func.functional_call`` does.
    """

    weight: nn.Parameter
    _cache: Any = None

    def compute(self) -> Any:
        """Compute the tensors from the parameters."""
        raise NotImplementedError

    def tensors(self) -> Any:
        """Return the tensors, either cached or computed now."""
        if self.training or torch.is_grad_enabled() or torch.compiler.is_compiling():
            self._cache = None
            return self.compute_in_full_precision()
        tensors = self._cache
        if tensors is None:
            with torch.inference_mode(False), torch.no_grad():
                tensors = self._cache = self.compute_in_full_precision()
        return tensors

    def compute_in_full_precision(self) -> Any:
        """Compute the tensors without automatic mixed precision."""
        with torch.autocast(self.weight.device.type, enabled=False):
            return self.compute()

    def for_export(self) -> "CachedTensors":
        """Return the module with its tensors as constants, not computed by programs."""
        with torch.no_grad():
            tensors = self.compute_in_full_precision()
        self.tensors = lambda: tensors
        return self

    def train(self, mode: bool = True) -> "CachedTensors":
        self._cache = None
        return super().train(mode)

    def _load_from_state_dict(self, *args, **kwargs) -> None:
        self._cache = None
        super()._load_from_state_dict(*args, **kwargs)

    def _apply(self, *args, **kwargs) -> "CachedTensors":
        self._cache = None
        return super()._apply(*args, **kwargs)

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_cache": None}  # copies and pickles compute their own tensors
