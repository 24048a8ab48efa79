"""A change to code of another package, with its reason and the condition under which it goes."""

import functools
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Patch:
    """A change that a function makes.

    Attributes:
        name: the object that is changed.
        function: the function without arguments that makes the change.
        reason: the reason, with the issue in the other project where one is known.
        until: the event after which the change can go.
    """

    name: str
    function: Callable
    reason: str
    until: str

    def apply(self) -> None:
        """Make the change."""
        self.function()


class Replacement(Patch):
    """A function that replaces the function or class called ``name``.

    The replacement gets the original as its first argument.
    """

    def apply(self) -> None:
        """Replace ``name`` by ``function``."""
        owner_name, attribute = self.name.rsplit(".", 1)
        owner = pkgutil.resolve_name(owner_name)
        original, function = getattr(owner, attribute), self.function

        @functools.wraps(original)
        def patched(*args, **kwargs):
            return function(original, *args, **kwargs)

        static = isinstance(inspect.getattr_static(owner, attribute), staticmethod)
        setattr(owner, attribute, staticmethod(patched) if static else patched)
