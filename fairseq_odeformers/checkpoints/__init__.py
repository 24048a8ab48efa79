"""Checkpoints: what is in a file, and whether a model may be built from it.

A file takes three steps. ``read`` (``state``) returns what is in a checkpoint or an export; it is
the only function that opens one. ``check_trust`` (``trust``) decides whether its model may be
built. ``load`` (``trained``) does both and builds the model with its task. ``weights`` is the
format of exports, and ``average`` the mean of several checkpoints.
"""

from .state import read
from .trained import Trained, load
from .trust import check_trust

__all__ = ["Trained", "check_trust", "load", "read"]
