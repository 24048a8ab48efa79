"""Checks whether a file may be unpickled: before torch 2.10, only if this user wrote it.

A crafted file corrupts the memory of the safe loader of torch 2.6 to 2.9 (CVE-2026-24747), and
earlier loaders run any code in it. A file in the user's folder records the SHA-256 of each
checkpoint that is saved, with any version of torch.
"""

import functools
import logging
import os
from contextlib import suppress
from pathlib import Path

import torch
from torch.torch_version import TorchVersion

from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import sha256

logger = logging.getLogger(__name__)

TRUST = "ODEFORMERS_TRUST"  # the environment variable; 1 allows all files to be unpickled
HARDENED = TorchVersion(torch.__version__) >= "2.10"


def trusts_all() -> bool:
    """Return whether the user trusts the code in every checkpoint."""
    return os.environ.get(TRUST) == "1"


def record_file() -> Path:
    """Return the path of the user's file of digests, one per line."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "fairseq-odeformers" / "checkpoints"


def remember(path: str | os.PathLike) -> None:
    """Record the digest of a complete file.

    Another version of torch may read it later. If the user's folder cannot be written, such a
    version needs :data:`TRUST`.
    """
    with suppress(OSError, RuntimeError):
        record_file().parent.mkdir(parents=True, exist_ok=True)
        with open(record_file(), "a", encoding="utf-8") as file:
            file.write(f"{sha256(Path(path))}\n")


def check_origin(path: str | os.PathLike) -> None:
    """Check that a file may be unpickled, and warn about torch's loader.

    Raises:
        InputError: torch is older than 2.10, and this user has neither written the file nor set
            :data:`TRUST`.
    """
    if HARDENED:
        return
    warn()
    if trusts_all() or is_remembered(Path(path)):
        return
    raise InputError(
        f"{path} is not loaded: no training run of yours on this machine wrote it, and torch "
        f"{torch.__version__} may run code in such a file (CVE-2026-24747); install torch 2.10 or "
        f"later, or set {TRUST}=1 if you trust it"
    )


def is_remembered(path: Path) -> bool:
    """Return whether the digest of a file is recorded."""
    with suppress(OSError, RuntimeError):
        return sha256(path) in record_file().read_text("utf-8").split()
    return False


@functools.cache
def warn() -> None:
    """Warn once about torch's loader."""
    logger.warning(
        f"torch {torch.__version__} may run code in a crafted checkpoint (CVE-2026-24747); install "
        "torch 2.10 or later"
    )
