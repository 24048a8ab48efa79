"""Recording the calls of modules, with arguments and outputs, while a model runs."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import nn


class Call(NamedTuple):
    """A call of a module's ``forward``."""

    module: nn.Module
    args: tuple
    kwargs: dict[str, Any]
    output: Any


@contextmanager
def record_calls(modules: Iterable[nn.Module]) -> Iterator[list[Call]]:
    """Yield a list to which finished calls of *modules* are appended, from any thread."""
    calls = []
    hooks = [
        module.register_forward_hook(lambda *call: calls.append(Call(*call)), with_kwargs=True)
        for module in modules
    ]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def first_calls(calls: Iterable[Call]) -> list[Call]:
    """Return the first call of each module, in the order of the calls."""
    first: dict[nn.Module, Call] = {}
    for call in calls:
        first.setdefault(call.module, call)
    return list(first.values())
