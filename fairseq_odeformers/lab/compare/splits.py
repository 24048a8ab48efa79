"""Test sets: which ones the data have, and where their references or texts lie as published."""

from __future__ import annotations

from glob import escape
from pathlib import Path

from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_odeformers.files import naming, read_lines
from fairseq_odeformers.models.common.kinds import Kind

from .recipe import Recipe


def find_test_sets(recipe: Recipe) -> dict[str, str | None]:
    """The splits that models are evaluated on, each with the file of its texts, None if not kept.

    They are the recipe's ``splits``; by default all test sets of the data, or else ``valid``.
    """
    splits = recipe.splits
    if splits is None:
        source, target = (recipe.train.get(f"{side}-lang") for side in ("source", "target"))
        ending = f".{source}-{target}.{target}.idx" if recipe.kind is Kind.TRANSLATION else ".idx"
        folder = Path(recipe.data, "label" if recipe.kind is Kind.CLASSIFICATION else "")
        names = (path.name.removesuffix(ending) for path in folder.glob(f"test*{escape(ending)}"))
        splits = sorted(names) or ["valid"]
    paths = {split: texts_path(recipe, split) for split in splits}
    return {split: str(path) if path and path.is_file() else None for split, path in paths.items()}


def texts_path(recipe: Recipe, split: str) -> Path | None:
    """The file where a split has its references as published, or the texts that have labels."""
    data = Path(recipe.data)
    if recipe.kind is Kind.TRANSLATION:
        return data.parent / "plain" / f"{split}.{recipe.train.get('target-lang')}"
    return data / "input0" / f"{split}.idx" if recipe.kind is Kind.CLASSIFICATION else None


def read_texts(path: Path) -> list[str]:
    """The texts of a file that :func:`find_test_sets` names, one per line or binarised."""
    if path.suffix != ".idx":
        return list(read_lines(path))
    with naming(path):
        dictionary = Dictionary.load(str(path.with_name("dict.txt")))
        dataset = MMapIndexedDataset(str(path.with_suffix("")))
        # Word pieces that continue a word begin with ##.
        return [dictionary.string(tokens).replace(" ##", "") for tokens in dataset]
