"""Reading checkpoints, and building models from them if they can be trusted.

``Checkpoint.read(path)`` reads a checkpoint or an export, and ``.build(data)`` builds its model and
its task (``checkpoint``). ``state`` opens the file, for fairseq's commands too. ``origin``
decides whether the file may be read, and ``trust`` decides whether the model may be built.
``weights`` defines the format of exports.
"""

from .checkpoint import Checkpoint, Trained

__all__ = ["Checkpoint", "Trained"]
