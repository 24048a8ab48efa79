"""Finding the module where an error, a non-finite number or a difference arises.

Hooks record each call of a module. The culprit is the first module to return a wrong output from
correct inputs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import unwrap
from traceback import walk_tb
from typing import Any, NamedTuple

import torch
from torch import nn

from fairseq_odeformers.errors import is_of_plugin

from .subject import Decoding

Tensors = list[torch.Tensor]


@dataclass(frozen=True)
class Pair:
    """Two evaluations of a model, or of a model and its copy, that must have equal results."""

    model: nn.Module
    first: Callable[[], Iterable[torch.Tensor]]
    second: Callable[[], Iterable[torch.Tensor]]
    copy: nn.Module | None = None
    # For the two sizes of a dimension, the slice of the longer one that must equal the shorter one,
    # inside the model as well.
    parts: Mapping[tuple[int, int], slice] = field(default_factory=dict)


class Call(NamedTuple):
    """A call of a module, with its name in the model and the number of the call."""

    name: str
    number: int
    inputs: Tensors
    outputs: Tensors


def find_not_finite(model: nn.Module, evaluate: Callable[[], object]) -> str:
    """Find the first module that returns NaN or infinity for finite inputs, or ""."""

    def severity(tensors: Tensors) -> int:  # 1 with infinity, which masks may have, 2 with NaN
        return max((2 if t.isnan().any() else int(t.isinf().any()) for t in tensors), default=0)

    for call in record(model, evaluate):
        if severity(call.outputs) > severity(call.inputs):
            return blame(model, call.name)
    return ""


def find_difference(pairs: Iterable[Pair], bound: float) -> str:
    """Find the first module that makes equal inputs unequal in a pair of evaluations, or "".

    The calls of the two evaluations correspond by module and number.
    """
    for pair in pairs:
        ours = {(call.name, call.number): call for call in record(pair.model, pair.first)}
        for theirs in record(pair.copy or pair.model, pair.second):
            call = ours.get((theirs.name, theirs.number), theirs)
            same_in, same_out = (
                all(agree(pair, bound, a, b) for a, b in zip(*both))
                for both in ((call.inputs, theirs.inputs), (call.outputs, theirs.outputs))
            )
            if same_in and not same_out:
                return blame(pair.model, call.name)
    return ""


def record(model: nn.Module, evaluate: Callable[[], object]) -> list[Call]:
    """Record the calls of all modules in an evaluation, sorted by their ends.

    Dictionaries do not count as inputs: they are caches or outputs of other modules.
    """
    calls: list[Call] = []
    counts = Counter()

    def keep(name: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        counts[name] += 1
        inputs = [value for value in (*args, *kwargs.values()) if not isinstance(value, Mapping)]
        calls.append(Call(name, counts[name], tensors_in(inputs), tensors_in(output)))

    handles = [
        part.register_forward_hook(partial(keep, name), with_kwargs=True)
        for name, part in model.named_modules()
    ]
    try:
        evaluate()
    finally:
        for handle in handles:
            handle.remove()
    return calls


def tensors_in(value: Any) -> Tensors:
    """Copy the tensors in the arguments or the output of a call, in single precision."""
    if torch.is_tensor(value):
        return [value.detach().float().clone()]
    parts = value.values() if isinstance(value, Mapping) else value
    nested = isinstance(value, (Mapping, tuple, list))
    return [tensor for part in parts for tensor in tensors_in(part)] if nested else []


def agree(pair: Pair, bound: float, ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Return whether tensors are equal where they must be; true if their sizes leave this open."""
    whole, sizes = slice(None), [*zip(ours.shape, theirs.shape)]
    parts = [pair.parts.get(both, whole) for both in sizes]  # slices of the longer, or of both
    ours = ours[tuple(part if a >= b else whole for part, (a, b) in zip(parts, sizes))]
    theirs = theirs[tuple(part if a <= b else whole for part, (a, b) in zip(parts, sizes))]
    ours, theirs = ours.nan_to_num(), theirs.nan_to_num()
    comparable = ours.shape == theirs.shape and ours.numel()
    return not comparable or float((ours - theirs).abs().max()) <= bound


def blame(model: nn.Module, name: str) -> str:
    """Describe a module of a plugin, this one or an outer one, with the place of ``forward``."""
    modules = dict(model.named_modules())
    around = name.split(".") if name else []
    for depth in range(len(around), -1, -1):
        code = unwrap(type(modules[".".join(around[:depth])]).forward).__code__
        if is_of_plugin(code.co_filename):
            place = f"{code.co_filename}, line {code.co_firstlineno}"
            return f"{describe(name, modules[name])}, {place}"
    return describe(name, modules[name])


def innermost_module(error: Exception) -> str:
    """Describe the last module that an error passes through, or return ""."""
    owners = [frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__)]
    models = [owner.model if isinstance(owner, Decoding) else owner for owner in owners]
    modules = [model for model in models if isinstance(model, nn.Module)]
    for outer in modules:  # a criterion calls a model that it does not contain
        for name, module in outer.named_modules():
            if module is modules[-1]:
                return describe(name, module)
    return ""


def describe(name: str, module: nn.Module) -> str:
    """Describe a module by its name in the model, if it is not the model itself, and its class."""
    return f"{name} ({type(module).__name__})" if name else type(module).__name__
