"""The command ``odeformers``: each of its subcommands is a module or a folder of this package.

``prepare`` prepares data; ``compare`` trains architectures side by side and writes a report;
``analyse`` measures the internals of trained models; ``check`` tests the properties that every
architecture must have; ``benchmark`` measures speed. Importing this package imports neither torch
nor fairseq.
"""

from importlib.util import find_spec
from pathlib import Path

PLUGIN = "fairseq_odeformers"


def user_dir() -> Path:
    """Return the folder of the plugin, for fairseq's ``--user-dir``."""
    spec = find_spec(PLUGIN)
    assert spec is not None and spec.origin is not None  # both packages are installed together
    return Path(spec.origin).parent
