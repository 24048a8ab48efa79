"""Transformers derived from numerical solvers of ordinary differential equations.

Importing the package, by name or through fairseq's ``--user-dir``, registers its models.
"""

from . import compat, models  # noqa: F401
