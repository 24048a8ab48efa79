"""Checkpoints: what is in a file, and whether a model may be built from it.

``Checkpoint.read(path)`` is what is in a checkpoint or an export, and ``.build(data)`` its model
with its task (``checkpoint``). ``state`` opens the file, for fairseq's own commands as well;
``origin`` decides whether it may be read, ``trust`` whether the model may be built. ``weights`` is
the format of exports.
"""

from .checkpoint import Checkpoint, Trained

__all__ = ["Checkpoint", "Trained"]
