"""Where in a model an error occurs, or a number that is not finite, or differs, comes from."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from inspect import unwrap
from traceback import walk_tb
from typing import Any

import torch
from torch import nn

from fairseq_odeformers.blame import is_of_plugin, place_of

from .properties import Broken, Differs, NotFinite, Pair
from .subject import Decoding

Call = tuple[str, int]  # the name of a module, and the number of its call
Tensors = list[torch.Tensor]


class Found(Exception):
    """The first call of a module that is to blame, by the module's name.

    Attributes:
        place: file and line of its ``forward``, if a plugin defines it.
    """

    def __init__(self, name: str, module: nn.Module):
        super().__init__(describe(name, module))
        code = unwrap(type(module).forward).__code__
        of_plugin = is_of_plugin(code.co_filename)
        self.place = f"{code.co_filename}, line {code.co_firstlineno}" if of_plugin else None


def origin_of(broken: Broken) -> str:
    """Where the numbers that a property refuses come from, if they come from a forward pass.

    Returns:
        The innermost module whose inputs are as they should be and whose output is not, with file
        and line of its ``forward``, or else of its caller, if these are of a plugin; "" if none is
        to blame.
    """
    try:
        if isinstance(broken, Differs):
            for pair in broken.pairs():
                compare(pair, broken.bound)
        elif isinstance(broken, NotFinite):
            with after_each_call(broken.model, refuse_not_finite):
                broken.evaluate()
    except Found as found:
        place = found.place or place_of(found)
        return f"{found}, {place}" if place else str(found)
    return ""


def innermost_module(error: Exception) -> str:
    """The last module that an error passes through, by name and class; "" if it is in none."""
    owners = [frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__)]
    models = [owner.model if isinstance(owner, Decoding) else owner for owner in owners]
    modules = [model for model in models if isinstance(model, nn.Module)]
    for outer in modules:  # a criterion does not have the model that it calls
        for name, module in outer.named_modules():
            if module is modules[-1]:
                return describe(name, module)
    return ""


def describe(name: str, module: nn.Module) -> str:
    """The name of a module in its model, which itself has none, and its class."""
    return f"{name} ({type(module).__name__})" if name else type(module).__name__


@contextmanager
def after_each_call(model: nn.Module, see: Callable[..., None]) -> Iterator[None]:
    """Show a function each call of a module: the call, the module, the tensors in, and those out.

    Dictionaries do not count as inputs: they are caches, or what another module has returned.
    """
    calls = Counter()

    def show(name: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        calls[name] += 1
        inputs = [value for value in (*args, *kwargs.values()) if not isinstance(value, Mapping)]
        see((name, calls[name]), module, tensors_in(inputs), tensors_in(output))

    handles = [
        part.register_forward_hook(partial(show, name), with_kwargs=True)
        for name, part in model.named_modules()
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def tensors_in(value: Any) -> Tensors:
    """Copies of the tensors that a call takes or returns, in single precision."""
    if torch.is_tensor(value):
        return [value.detach().float().clone()]
    parts = value.values() if isinstance(value, Mapping) else value
    nested = isinstance(value, (Mapping, tuple, list))
    return [tensor for part in parts for tensor in tensors_in(part)] if nested else []


def refuse_not_finite(call: Call, module: nn.Module, inputs: Tensors, outputs: Tensors) -> None:
    """Raise :class:`Found` for a call that returns NaN or infinity which its inputs lack."""

    def severity(tensors: Tensors) -> int:  # 1 with infinity, as masks have it, 2 with NaN
        return max((2 if t.isnan().any() else int(t.isinf().any()) for t in tensors), default=0)

    if severity(outputs) > severity(inputs):
        raise Found(call[0], module)


def compare(pair: Pair, bound: float) -> None:
    """Raise :class:`Found` after the first call of a module that makes equal inputs unequal.

    The calls of the two evaluations correspond by module and number.
    """
    kept: dict[Call, tuple[Tensors, Tensors]] = {}

    def keep(call: Call, module: nn.Module, inputs: Tensors, outputs: Tensors) -> None:
        kept[call] = inputs, outputs

    def look(call: Call, module: nn.Module, inputs: Tensors, outputs: Tensors) -> None:
        ours_in, ours_out = kept.get(call, (inputs, outputs))
        same_in, same_out = (
            all(agree(pair, bound, a, b) for a, b in zip(ours, theirs))
            for ours, theirs in ((ours_in, inputs), (ours_out, outputs))
        )
        if same_in and not same_out:
            raise Found(call[0], module)

    with after_each_call(pair.model, keep):
        pair.first()
    with after_each_call(pair.copy or pair.model, look):
        pair.second()


def agree(pair: Pair, bound: float, ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Whether tensors are equal where they must be; also if their sizes do not tell where."""
    whole, sizes = slice(None), [*zip(ours.shape, theirs.shape)]
    parts = [pair.parts.get(both, whole) for both in sizes]  # of the longer, or of both
    ours = ours[tuple(part if a >= b else whole for part, (a, b) in zip(parts, sizes))]
    theirs = theirs[tuple(part if a <= b else whole for part, (a, b) in zip(parts, sizes))]
    ours, theirs = ours.nan_to_num(), theirs.nan_to_num()
    comparable = ours.shape == theirs.shape and ours.numel()
    return not comparable or float((ours - theirs).abs().max()) <= bound
