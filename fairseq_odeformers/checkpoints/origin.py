"""Which files may be unpickled: before torch 2.10, only files that this user's fairseq has written.

A crafted file corrupts the memory of the safe loader of torch 2.6 to 2.9 (CVE-2026-24747), and
earlier loaders run any code in it. With such a torch, the SHA-256 of each checkpoint that is saved
is kept in a file of the user's.
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

TRUST = "ODEFORMERS_TRUST"  # the variable of the environment that has all files read
HARDENED = TorchVersion(torch.__version__) >= "2.10"


def record_file() -> Path:
    """The file of the user's that has a digest per line."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "fairseq-odeformers" / "checkpoints"


def remember(path: str | os.PathLike) -> None:
    """Keep the digest of a file that is complete, if torch's loader makes that necessary.

    Where the user's folder cannot be written, the file has to be trusted to be read.
    """
    if not HARDENED:
        with suppress(OSError, RuntimeError):
            record_file().parent.mkdir(parents=True, exist_ok=True)
            with open(record_file(), "a", encoding="utf-8") as file:
                file.write(f"{sha256(Path(path))}\n")


def check_origin(path: str | os.PathLike) -> None:
    """Check that a file may be unpickled, and warn of torch's loader.

    Raises:
        InputError: torch is older than 2.10, this user has not written the file, and it is not
            trusted.
    """
    if HARDENED:
        return
    warn()
    if os.environ.get(TRUST) or is_remembered(Path(path)):
        return
    raise InputError(
        f"{path} is refused: no training of yours has written it here, and torch "
        f"{torch.__version__} may run code of such a file (CVE-2026-24747); install torch 2.10 or "
        f"later, or set {TRUST}=1 if you trust it"
    )


def is_remembered(path: Path) -> bool:
    """Whether the record has the digest of a file."""
    with suppress(OSError, RuntimeError):
        return sha256(path) in record_file().read_text("utf-8").split()
    return False


@functools.cache
def warn() -> None:
    """Warn once of torch's loader."""
    logger.warning(
        f"torch {torch.__version__} may run code of a crafted checkpoint (CVE-2026-24747); install "
        "torch 2.10 or later"
    )
