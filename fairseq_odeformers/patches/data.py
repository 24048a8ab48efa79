"""The data that fairseq reads: languages of a folder, labels, and the batches of an update."""

from pathlib import Path

from fairseq_odeformers.data.binarised import language_pair
from fairseq_odeformers.data.classification import check_classes

from .guest import binding, is_ours, trains_ours


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


def load_dataset(original, self, split, combine=False, **kwargs):
    """fairseq's method, with a look at :func:`.check_classes`.

    It does not know whose model the data set is for; models of this package look before they are
    built (:meth:`.BaseModel.check_options`).

    Raises:
        ValueError: the task derives from one of this package, and its labels do not fit.
    """
    with binding(is_ours(type(self))):
        check_classes(self, split)
    return original(self, split, combine, **kwargs)


def build_index(_, self, path):
    """The method of fairseq's FASTA data set that makes an index of the file, refused.

    Raises:
        ValueError: always.
    """
    raise ValueError(
        f"{path}.fasta has no index, and fairseq makes one by a shell command that has the path in "
        "it; give data that fairseq-preprocess has binarised"
    )


def train_step(original, self, samples, *args, **kwargs):
    """fairseq's method; a process leaves out the empty batches at the end of its share.

    The last update of an epoch may have a batch less for some processes, in whose place fairseq
    puts an empty one. A process that has only such a batch still takes part.

    The processes of FSDP and of a TPU exchange something in each batch, so there it stays.
    """
    if trains_ours(self.cfg) and not (self.is_fsdp or self.tpu):
        samples = [sample for sample in samples if sample] or samples[:1]
    return original(self, samples, *args, **kwargs)
