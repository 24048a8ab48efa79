"""Has fairseq find languages whose names have hyphens, and name a folder that has none."""

from pathlib import Path

from fairseq_odeformers.data.language_pair import language_pair


def infer_language_pair(original, path):
    """fairseq's function, for folders where what it finds has no dictionaries.

    Raises:
        FileNotFoundError: the folder has no sentence pairs.
    """
    source, target = original(path)
    if not all(Path(path, f"dict.{lang}.txt").exists() for lang in (source, target)):
        source, target = language_pair(Path(path)) or (source, target)
    if source is None:
        raise FileNotFoundError(
            f"{path} has no sentence pairs, such as train.de-en.de.idx; give data of translation"
        )
    return source, target
