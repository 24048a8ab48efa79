"""All that this package changes in fairseq, torch, torch_xla, numpy and logging.

Importing it makes the changes. Each file has a table of what is changed and why.
"""

from . import warnings  # noqa: F401

# isort: split
from . import checkpoints, versions  # noqa: F401
