"""Where in a model an error occurs, or a number that is not finite, or differs, comes from."""

import math
from collections.abc import Callable, Iterable, Mapping
from traceback import walk_tb
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from fairseq_odeformers.blame import place_of

from .properties import Broken, Differs, NotFinite


class Found(Exception):
    """The call of torch that is looked for, by the name of its function."""


def origin_of(broken: Broken, measure: Callable[[], float]) -> str:
    """Where the numbers that a measure refuses come from, if they come from a forward pass.

    Args:
        broken: the error that *measure* has raised.

    Returns:
        The function of torch, the module, and the line of a plugin if it has called the function;
        "" if none is to blame.
    """
    try:
        if isinstance(broken, Differs):
            with CompareResults() as first:
                broken.evaluate()
            with CompareResults(first.results):
                broken.evaluate()
        elif isinstance(broken, NotFinite):
            with RefuseNotFinite():
                measure()
    except Found as error:
        if module := innermost_module(error):
            place = place_of(error)
            return f"{error} in {module}" + (f", {place}" if place else "")
    except NotFinite:
        pass
    return ""


def innermost_module(error: Exception) -> str:
    """The last module that an error passes through, by name and class; "" if it is in none."""
    owners = [frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__)]
    modules = [owner for owner in owners if isinstance(owner, nn.Module)]
    for outer in modules:  # a criterion does not have the model that it calls
        for name, module in outer.named_modules():
            if module is modules[-1]:
                return f"{name} ({type(module).__name__})" if name else type(module).__name__
    return ""


class RefuseNotFinite(TorchFunctionMode):
    """Finds the first call of torch with NaN or infinity that its inputs lack."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = severity((args, kwargs))  # before an operation in place changes them
        result = func(*args, **kwargs)
        if severity(result) > given and "empty" not in func.__name__:
            raise Found(func.__name__)
        return result


def severity(value: Any) -> int:
    """What a call of torch takes or returns: 0 if it is finite, 1 with infinity, 2 with NaN.

    A Python number that is NaN counts as finite: the call brings it into a tensor.
    """
    if torch.is_tensor(value):
        return 2 if value.isnan().any() else int(value.isinf().any())
    if isinstance(value, float):
        return int(math.isinf(value))
    if isinstance(value, Mapping):
        value = tuple(value.values())
    return max(map(severity, value), default=0) if isinstance(value, (tuple, list)) else 0


class CompareResults(TorchFunctionMode):
    """Keeps what each call of torch returns, and finds the first that returns something else.

    Args:
        expected: the results of another evaluation.
    """

    def __init__(self, expected: Iterable[list[torch.Tensor]] = ()):
        super().__init__()
        self.results, self.expected = [], iter(expected)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if "empty" in func.__name__:
            return result
        parts = result if isinstance(result, (tuple, list)) else [result]
        tensors = [part.detach().nan_to_num() for part in parts if torch.is_tensor(part)]
        self.results.append(tensors)  # copies, which no operation in place changes
        expected = next(self.expected, tensors)
        if len(tensors) != len(expected) or not all(map(torch.equal, tensors, expected)):
            raise Found(func.__name__)
        return result
