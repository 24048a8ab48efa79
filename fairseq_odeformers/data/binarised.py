"""Facts about binarised data that its file names and indices reveal."""

from glob import escape
from itertools import permutations
from pathlib import Path

from fairseq.data.indexed_dataset import MMapIndexedDataset, infer_dataset_impl

from fairseq_odeformers.errors import InputError, naming_faults

FEW_EXAMPLES = 100  # below this, the standard error of an accuracy may exceed 5 points


def count_examples(index: Path) -> int:
    """Count the examples in a binarised file by its index."""
    return len(MMapIndexedDataset.Index(str(index)))


def check_complete(folder: Path) -> None:
    """Check that binarised files and their indices have not been truncated.

    Raises:
        InputError: an index cannot be read, or its file is shorter than the index says.
    """
    for index in sorted(folder.rglob("*.idx")):
        if infer_dataset_impl(str(index.with_suffix(""))) != "mmap":
            continue
        with naming_faults(index, "cannot be read; prepare the data again"):
            content = MMapIndexedDataset.Index(str(index))
            ends = content._pointers[-1:] + content._sizes[-1:] * content.dtype().itemsize
        file = index.with_suffix(".bin")
        if file.stat().st_size < ends.sum():
            raise InputError(
                f"{file}: it has {file.stat().st_size:,} bytes instead of {ends.sum():,}; prepare "
                "the data again"
            )


def language_pair(folder: Path) -> tuple[str, str] | None:
    """Find the source and target language of a translation data set by the names of its files.

    The languages may contain hyphens and dots, such as ``pt-br``. fairseq's
    ``infer_language_pair`` mistakes the parts of any name for languages, as in ``dict.pt-br.txt``,
    ``test.2017-06.de-en.de.idx`` and ``notes.2026-01.txt``.
    """
    names = (path.name for path in sorted(folder.glob("dict.*.txt")))
    langs = [name.removeprefix("dict.").removesuffix(".txt") for name in names]
    for source, target in permutations(langs, 2):
        if any(folder.glob(f"*.{escape(f'{source}-{target}.{source}')}.idx")):
            return source, target
    return None
