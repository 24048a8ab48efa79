"""Has fairseq find languages whose names have hyphens."""

from pathlib import Path

from fairseq_odeformers.data.language_pair import language_pair


def infer_language_pair(original, path):
    """fairseq's function, for folders that do not tell."""
    return language_pair(Path(path)) or original(path)
