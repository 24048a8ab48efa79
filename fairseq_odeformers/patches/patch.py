"""The decorator by which a function of this folder takes the place of one elsewhere."""

import functools


def patch(owner, when: bool = True):
    """Put a function in the place of one with its name, which it gets as its first argument.

    Args:
        owner: the module or class that has the other function.
        when: false to leave that as it is.
    """

    def decorate(function):
        if when:
            original = getattr(owner, function.__name__)

            @functools.wraps(original)
            def patched(*args, **kwargs):
                return function(original, *args, **kwargs)

            setattr(owner, function.__name__, patched)
        return function

    return decorate
