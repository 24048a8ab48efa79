"""Changes to the data that fairseq reads: language pairs, BPE codes, labels and batches."""

from pathlib import Path

from fairseq import file_utils

from fairseq_odeformers.data.binarised import language_pair
from fairseq_odeformers.data.classification import check_classes
from fairseq_odeformers.text.raw_text import read_codes

from .ownership import error_if, is_ours, trains_ours


def infer_language_pair(original, path):
    """Infer a language pair as fairseq does; if it has no dictionaries, choose one that does.

    Raises:
        FileNotFoundError: the folder has no sentence pairs.
    """
    source, target = original(path)
    if not all(Path(path, f"dict.{lang}.txt").exists() for lang in (source, target)):
        source, target = language_pair(Path(path)) or (source, target)
    if source is None:
        raise FileNotFoundError(
            f"{path} has no sentence pairs, such as train.de-en.de.idx; pass translation data"
        )
    return source, target


def read_subwords(original, self, cfg):
    """Read the codes of ``--bpe subword_nmt`` with :func:`.read_codes`."""
    if cfg.bpe_codes is None:
        return original(self, cfg)  # fairseq's error names the option
    codes = Path(file_utils.cached_path(cfg.bpe_codes))
    self.bpe = read_codes(codes, cfg.bpe_separator)
    self.bpe_symbol = f"{cfg.bpe_separator} "


def load_dataset(original, self, split, combine=False, **kwargs):
    """Call :func:`.check_classes` before fairseq loads a data set.

    The task does not know which model the data are for, so for fairseq's own task this only warns;
    models of this package check the labels when they are built (:meth:`.BaseModel.check_options`).

    Raises:
        ValueError: the labels do not fit, and the task derives from one of this package.
    """
    with error_if(is_ours(type(self))):
        check_classes(self, split)
    return original(self, split, combine, **kwargs)


def build_index(_, self, path):
    """Refuse to index a FASTA file, since fairseq would run a shell command.

    Raises:
        ValueError: always.
    """
    raise ValueError(
        f"{path}.fasta has no index, and fairseq makes one by a shell command that contains the "
        "path; pass data that fairseq-preprocess has binarised"
    )


def train_step(original, self, samples, *args, **kwargs):
    """Train on a process's batches without the empty ones at the end of its shard.

    In the last update of an epoch, some processes may have one batch fewer than others, and fairseq
    pads their batches with an empty one. A process with no other batch keeps it, because all
    processes must take part in the update. With FSDP or on a TPU, processes communicate in each
    batch, so they keep empty batches.
    """
    if trains_ours(self.cfg) and not (self.is_fsdp or self.tpu):
        samples = [sample for sample in samples if sample] or samples[:1]
    return original(self, samples, *args, **kwargs)
