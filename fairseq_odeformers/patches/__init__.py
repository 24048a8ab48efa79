"""All that this package changes in fairseq, torch, torch_xla, numpy, warnings and logging.

Importing it makes the changes. The table at the top of each file has, for each change, the reason,
the issue where one is known, and when it can go.
"""

from . import warnings  # noqa: F401

# isort: split
from . import checkpoints, command_line, versions  # noqa: F401
