"""One line on the progress of something long."""

from __future__ import annotations

import shutil
import sys
import time


class ProgressLine:
    """A line of standard output that moves on a terminal.

    Elsewhere, as in a file, a line is printed if the last one is some time ago.

    Args:
        interval: seconds between two lines that are not on a terminal.
    """

    def __init__(self, interval: float = 30):
        self.interval = interval
        self.moves = sys.stdout.isatty()
        self.last = time.monotonic()

    def show(self, text: str) -> None:
        if self.moves:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{text[:width]:<{width}}", end="", flush=True)
        elif time.monotonic() - self.last >= self.interval:
            print(text)
            self.last = time.monotonic()

    def end(self) -> None:
        """Make place for what is printed next."""
        if self.moves:
            self.show("")
            print("\r", end="", flush=True)


def clock(seconds: float) -> str:
    """A time in minutes and seconds, as 2:05."""
    minutes, seconds = divmod(round(max(0, seconds)), 60)
    return f"{minutes}:{seconds:02}"
