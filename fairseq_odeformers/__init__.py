"""Transformers derived from numerical solvers of ordinary differential equations.

Importing the package, by name or through fairseq's ``--user-dir``, registers its models, tasks and
criterions.
"""

from . import quiet  # noqa: F401

# isort: split
from . import compat, criterions, models, tasks  # noqa: F401
