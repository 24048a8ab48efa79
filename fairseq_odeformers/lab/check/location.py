"""Where in a model an error occurs, or a number that is not finite, or differs, comes from."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import unwrap
from traceback import walk_tb
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from fairseq_odeformers.blame import is_of_plugin, place_of

from .properties import Broken, Differs, NotFinite, Pair
from .subject import Decoding


class Found(Exception):
    """The call that is looked for, by the name of its function.

    Args:
        place: file and line, if they are not those that have called it.
    """

    def __init__(self, function: str, place: str | None = None):
        super().__init__(function)
        self.place = place


def origin_of(broken: Broken, measure: Callable[[], float]) -> str:
    """Where the numbers that a measure refuses come from, if they come from a forward pass.

    Args:
        broken: the error that *measure* has raised.

    Returns:
        The function of torch or ``forward``, the module, and the line of a plugin if it has called
        the function or defines ``forward``; "" if none is to blame.
    """
    try:
        if isinstance(broken, Differs):
            for pair in broken.pairs():
                if broken.bound:
                    compare_modules(pair, broken.bound)
                else:
                    compare_calls(pair)
        elif isinstance(broken, NotFinite):
            with RefuseNotFinite():
                measure()
    except Found as error:
        if module := innermost_module(error):
            place = error.place or place_of(error)
            return f"{error} in {module}" + (f", {place}" if place else "")
    except NotFinite:
        pass
    return ""


def innermost_module(error: Exception) -> str:
    """The last module that an error passes through, by name and class; "" if it is in none."""
    owners = [frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__)]
    models = [owner.model if isinstance(owner, Decoding) else owner for owner in owners]
    modules = [model for model in models if isinstance(model, nn.Module)]
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


def compare_calls(pair: Pair) -> None:
    """Raise :class:`Found` where two evaluations with the same calls of torch part."""
    pair.first()  # fairseq's decoders keep a mask from the first evaluation on
    with CompareResults() as first:
        pair.first()
    with CompareResults(first.results):
        pair.second()


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


def compare_modules(pair: Pair, bound: float) -> None:
    """Raise :class:`Found` after the first call of a module that makes equal inputs unequal.

    The calls of the two evaluations correspond by module and number.
    """
    kept = {}

    def keep(call: tuple, *tensors: list[torch.Tensor]) -> None:
        kept[call] = tensors

    def compare(call: tuple, *tensors: list[torch.Tensor]) -> None:
        inputs_equal, outputs_equal = (
            all(agree(pair, bound, *both) for both in zip(ours, theirs))
            for ours, theirs in zip(kept.get(call, tensors), tensors)
        )
        if inputs_equal and not outputs_equal:
            code = unwrap(type(call[0]).forward).__code__
            place = f"{code.co_filename}, line {code.co_firstlineno}"
            raise Found("forward", place if is_of_plugin(code.co_filename) else None)

    with after_each_call(pair.model, keep):
        pair.first()
    with after_each_call(pair.model, compare):
        pair.second()


def agree(pair: Pair, bound: float, ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Whether two tensors are equal where they must be; also if their sizes do not tell where."""
    sizes = [*zip(ours.shape, theirs.shape)]
    part = tuple(pair.parts.get(both, slice(None)) for both in sizes)
    ours, theirs = ours[part], theirs[part]
    comparable = ours.shape == theirs.shape and ours.numel()
    return not comparable or float((ours - theirs).abs().max()) <= bound


@contextmanager
def after_each_call(model: nn.Module, see: Callable[..., None]) -> Iterator[None]:
    """Show a function each call of a module: module and number, the tensors in, and those out.

    Dictionaries do not count as inputs: they are caches, or what another module has returned.
    """
    calls = Counter()

    def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        calls[module] += 1
        inputs = [value for value in (*args, *kwargs.values()) if not isinstance(value, Mapping)]
        see((module, calls[module]), tensors_in(inputs), tensors_in(output))

    handles = [part.register_forward_hook(hook, with_kwargs=True) for part in model.modules()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Copies of the tensors that a call takes or returns, as numbers that can be compared."""
    if torch.is_tensor(value):
        return [value.detach().float().nan_to_num()]
    parts = value.values() if isinstance(value, Mapping) else value
    nested = isinstance(value, (Mapping, tuple, list))
    return [tensor for part in parts for tensor in tensors_in(part)] if nested else []
