"""What a preparation says: its steps, and how long each took."""

import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairseq_odeformers.files import build

logger = logging.getLogger(__name__)


def log_to_output() -> None:
    """Log to standard output, one short line per message."""
    logging.basicConfig(
        format="%(asctime)s | %(levelname)s | %(message)s",
        datefmt="%H:%M:%S",
        level=logging.INFO,
        stream=sys.stdout,
        force=True,  # fairseq's import may have set it up
    )


def step(what: str, folder: Path, inputs: dict[str, Any], make: Callable[[Path], None]) -> None:
    """:func:`.build` a folder, and log the beginning and the duration if there is work to do.

    Args:
        what: the work, such as "step 2 of 3: splitting words".
    """

    def make_and_log(temporary: Path) -> None:
        logger.info(f"{what} ...")
        start = time.monotonic()
        make(temporary)
        if (seconds := time.monotonic() - start) >= 1:
            logger.info(f"{what}: done in {describe(seconds)}")

    build(folder, inputs, make_and_log)


def describe(seconds: float) -> str:
    """A duration, such as "7 s" or "12:05 min"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02} min" if minutes else f"{rest} s"
