"""Where in a model an error occurs, or a number that is not finite comes from."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from fairseq_odeformers.blame import place_of_function


class Location:
    """The calls of modules that have begun and not ended.

    Attributes:
        not_finite: the first module to end whose output has NaN or infinity; "" if none has. It
            comes with the line of the ``forward`` that a plugin has written for it, or for the
            innermost module around it.
    """

    def __init__(self):
        self.calls: list[nn.Module] = []
        self.not_finite = ""

    def begin(self, module: nn.Module, args: tuple) -> None:
        self.calls.append(module)

    def end(self, module: nn.Module, args: tuple, output: Any) -> None:
        while self.calls[-1] is not module:  # it has caught an error of a call inside of it
            self.calls.pop()
        if not self.not_finite and not is_finite(output):
            places = [place_of_function(type(call).forward) for call in self.calls]
            place = next(filter(None, reversed(places)), "")
            self.not_finite = f"{self.innermost}{place and f', {place}'}"
        self.calls.pop()

    @property
    def innermost(self) -> str:
        """The module whose call is the last to have begun, by name and class; "" if all ended."""
        for outer in self.calls:  # a criterion does not have the model that it calls
            for name, module in outer.named_modules():
                if module is self.calls[-1]:
                    return f"{name} ({type(module).__name__})" if name else type(module).__name__
        return ""


@contextmanager
def locating() -> Iterator[Location]:
    """Follow the calls of all modules, up to an error that leaves this."""
    location = Location()
    hooks = (
        register_module_forward_pre_hook(location.begin),
        register_module_forward_hook(location.end),
    )
    try:
        yield location
    finally:
        for hook in hooks:
            hook.remove()


def is_finite(output: Any) -> bool:
    """Whether all tensors of an output are finite."""
    if torch.is_tensor(output):
        return not output.is_floating_point() or bool(output.isfinite().all())
    if isinstance(output, Mapping):
        output = tuple(output.values())
    return not isinstance(output, (tuple, list)) or all(map(is_finite, output))
