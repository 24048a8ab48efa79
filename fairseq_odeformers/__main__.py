"""Prints the folder to give to ``--user-dir``."""

from pathlib import Path

print(Path(__file__).absolute().parent)
