"""The classes of changes to other packages, with reasons and when they can be removed."""

import functools
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Patch:
    """A change to another package, made by a function.

    Attributes:
        name: the object that is changed.
        function: function without arguments that makes the change.
        reason: the reason, with the other project's issue if there is one.
        until: the event after which the change can be removed.
    """

    name: str
    function: Callable
    reason: str
    until: str

    def apply(self) -> None:
        """Make the change."""
        self.function()


class Replacement(Patch):
    """The replacement of a function or class, called ``name``, by ``function``.

    The first argument of ``function`` is the original. The arguments of the call follow; for a
    class method, they begin with the class.
    """

    def apply(self) -> None:
        """Replace ``name`` with ``function``."""
        owner_name, attribute = self.name.rsplit(".", 1)
        owner = pkgutil.resolve_name(owner_name)
        kind, original = None, inspect.getattr_static(owner, attribute)
        if isinstance(original, (staticmethod, classmethod)):
            kind, original = type(original), original.__func__
        function = self.function

        @functools.wraps(original)
        def patched(*args, **kwargs):
            return function(original, *args, **kwargs)

        setattr(owner, attribute, kind(patched) if kind else patched)
