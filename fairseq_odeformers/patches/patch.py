"""A change to something that is not this package's, with its reason and its end."""

import functools
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Patch:
    """A change that a function makes.

    Attributes:
        name: what is changed.
        function: makes the change; it has no arguments.
        reason: why, and whose issue it is where one is known.
        until: what has to happen before the change can go.
    """

    name: str
    function: Callable
    reason: str
    until: str

    def apply(self) -> None:
        """Make the change."""
        self.function()


class Replacement(Patch):
    """A function or class that takes the place of the one called ``name``.

    It gets the original as its first argument.
    """

    def apply(self) -> None:
        """Put ``function`` in the place of ``name``."""
        owner_name, attribute = self.name.rsplit(".", 1)
        owner = pkgutil.resolve_name(owner_name)
        original, function = getattr(owner, attribute), self.function

        @functools.wraps(original)
        def patched(*args, **kwargs):
            return function(original, *args, **kwargs)

        setattr(owner, attribute, patched)
