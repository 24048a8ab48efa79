"""The Long Range Arena (Tay et al. 2021): classification of long texts, images and pairs."""

import logging
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
from fairseq.data import (
    BucketPadLengthDataset,
    Dictionary,
    FairseqDataset,
    IdDataset,
    NestedDictionaryDataset,
    NumelDataset,
    NumSamplesDataset,
    PrependTokenDataset,
    RawLabelDataset,
    RightPadDataset,
    SortDataset,
    TruncateDataset,
    data_utils,
)
from fairseq.dataclass import FairseqDataclass
from fairseq.models import BaseFairseqModel
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from fairseq_odeformers.data.binarised import language_pair
from fairseq_odeformers.data.classification import (
    INTENSITIES,
    check_labels,
    check_unlabelled,
    class_names,
    describe_classes,
    make_dictionary,
)
from fairseq_odeformers.data.pixel_text import PixelTextDataset, read_numbers
from fairseq_odeformers.errors import InputError, naming_faults
from fairseq_odeformers.files import reading
from fairseq_odeformers.models.common.sequence_classifier import SequenceClassifier
from fairseq_odeformers.options import add_choices, option, validate
from fairseq_odeformers.text.raw_text import PIXEL_TEXT

logger = logging.getLogger(__name__)

# The maximum length of the inputs of each task, in tokens.
MAX_POSITIONS = {
    "listops": 2000,
    "text": 4000,
    "retrieval": 4000,
    "pathfinder": 1024,
    "pathx": 16384,
    "image": 1024,
}

# The folders of the first input, the second input and the labels. fairseq's layout comes first,
# then the layouts of Mega's archive, where images are text.
LAYOUTS = (
    ("input0", "input1", "label"),
    ("src-bin", "src1-bin", "label-bin"),
    (PIXEL_TEXT, None, "label"),
)

# Options of sentence_prediction that do not apply, with the reasons.
UNSUPPORTED = {
    "separator_token": "pairs are encoded separately",
    "add_prev_output_tokens": "the models have no decoder",
    "regression_target": "this task has classes; use --task sentence_prediction",
    "d2v2_multi": "the models read one kind of data",
}


@dataclass
class LongRangeArenaConfig(SentencePredictionConfig):
    """Options of fairseq's ``sentence_prediction``, where they apply."""

    lra_task: str = option("listops", "task of the Long Range Arena", choices=tuple(MAX_POSITIONS))
    num_classes: int = option(
        -1, "number of classes: at least 1, or -1 for all classes of the label dictionary"
    )
    max_positions: Optional[int] = option(
        None,
        "maximum number of tokens per text; longer texts are truncated (default: by --lra-task)",
    )
    pixel_input: str = option(
        "token",
        "embedding of pixels: token, one of 256 symbols; value, an affine map of the intensity",
        choices=("token", "value"),
    )
    num_batch_buckets: int = option(
        0,
        "pad texts to this number of different lengths, for fixed shapes on TPUs; 0 for no padding",
        at_least=0,
        at_most=1000,
    )


@register_task("long_range_arena", dataclass=LongRangeArenaConfig)
class LongRangeArenaTask(SentencePredictionTask):
    """Classification of long texts, images or pairs of texts, truncated at ``--max-positions``.

    The data set comes from ``odeformers prepare lra``, in the layout of fairseq's
    ``sentence_prediction``, or from the archive published with Mega (Ma et al. 2023). In retrieval,
    the model encodes the two documents separately (``src_tokens``, ``src_tokens1``) and classifies
    them together.
    """

    def __init__(self, cfg: LongRangeArenaConfig, data_dictionary: Dictionary, labels: Dictionary):
        super().__init__(cfg, data_dictionary, labels)
        self.layout = find_layout(Path(cfg.data))
        self.towers = 2 if cfg.lra_task == "retrieval" else 1
        self.pixel_values = cfg.pixel_input == "value"

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        super().add_args(parser)
        add_choices(parser, LongRangeArenaConfig)

    @classmethod
    def setup_task(cls, cfg: LongRangeArenaConfig, **kwargs: Any) -> "LongRangeArenaTask":
        folder = Path(cfg.data)
        first, _, label = find_layout(folder)
        with reading(folder):
            if first == PIXEL_TEXT:
                dictionary = make_dictionary([*INTENSITIES, "<mask>"])
                paths = sorted((folder / label).glob("*.label"))
                numbers = (int(row[0]) for path in paths for row in read_numbers(path))
                labels = make_dictionary(map(str, range(max(numbers, default=-1) + 1)))
            else:
                dictionary = cls.load_dictionary(str(folder / first / "dict.txt"))
                labels = Dictionary.load(str(folder / label / "dict.txt"))
        if cfg.max_positions is None:
            cfg.max_positions = MAX_POSITIONS.get(cfg.lra_task)
        classes = class_names(labels)
        if cfg.num_classes == -1:
            cfg.num_classes = len(classes)
        validate(cfg, LongRangeArenaConfig, UNSUPPORTED)
        for message in conflicts(cfg, dictionary, classes):
            raise ValueError(message)
        return cls(cfg, dictionary, labels)

    def state_dict(self) -> dict[str, list[str]]:
        """Return the state of the task in a checkpoint: the names of the classes."""
        return {"classes": class_names(self.label_dictionary)}

    def load_state_dict(self, state_dict: dict) -> None:
        """Ignore the classes in a checkpoint, since it may initialise another task."""

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> FairseqDataset:
        """Load a split: one or two inputs per example and, unless there are no labels, a class."""
        with naming_faults(self.cfg.data, f"has no complete split {split}"):
            inputs = [self.load_input(part, split, combine) for part in self.layout[: self.towers]]
            labels = self.load_labels(split, combine)
        counts = dict(zip(self.layout, map(len, inputs)))
        if labels is not None:
            counts[self.layout[2]] = len(labels)
        if len(set(counts.values())) > 1:
            differ = ", ".join(f"{part} {count:,}" for part, count in counts.items())
            raise InputError(
                f"{self.cfg.data}: the examples of {split} do not pair up: {differ}; prepare the "
                "data again"
            )

        dataset = {
            "id": IdDataset(),
            "net_input": {},
            "nsentences": NumSamplesDataset(),
            "ntokens": NumelDataset(inputs[0], reduce=True),
        }
        padding, buckets = self.source_dictionary.pad(), self.cfg.num_batch_buckets
        sizes = np.max([tokens.sizes for tokens in inputs], axis=0)
        padded = inputs
        if buckets:  # both texts of a pair are padded to the length of the longer one
            padded = [
                BucketPadLengthDataset(tokens, sizes, buckets, padding, left_pad=False)
                for tokens in inputs
            ]
            sizes = padded[0].sizes
        for suffix, tokens, texts in zip(("", "1"), inputs, padded):
            dataset["net_input"] |= {
                f"src_tokens{suffix}": RightPadDataset(texts, pad_idx=padding),
                f"src_lengths{suffix}": NumelDataset(tokens),
            }
        if labels is not None:
            dataset["target"] = RawLabelDataset(labels)
        dataset = Examples(dataset, sizes, few_lengths=buckets > 0)
        if not self.cfg.no_shuffle:
            with data_utils.numpy_seed(self.cfg.seed):
                dataset = SortDataset(dataset, sort_order=[np.random.permutation(len(sizes))])
        self.datasets[split] = dataset
        return dataset

    def load_input(self, part: str, split: str, combine: bool) -> FairseqDataset:
        """Load the inputs of a split, truncated at ``--max-positions``."""
        path = Path(self.cfg.data, part, split)
        if part == PIXEL_TEXT:
            dataset = PixelTextDataset(path.with_suffix(".src"), self.source_dictionary)
        else:
            dataset = data_utils.load_indexed_dataset(
                str(path), self.source_dictionary, combine=combine
            )
        if dataset is None:
            raise FileNotFoundError(
                f"{path}.idx and {path}.bin: no such files; prepare the data, or choose another "
                "split"
            )
        if self.cfg.init_token is not None:
            dataset = PrependTokenDataset(dataset, self.cfg.init_token)
        if longer := np.count_nonzero(dataset.sizes > self.cfg.max_positions):
            logger.warning(
                f"{path}: {longer:,} of {len(dataset):,} texts are truncated to "
                f"{self.cfg.max_positions:,} tokens (--max-positions)"
            )
        return TruncateDataset(dataset, self.cfg.max_positions)

    def load_labels(self, split: str, combine: bool) -> list[int] | None:
        """Load the classes of a split as numbers from 0, or None for a test set without labels."""
        path, endings = Path(self.cfg.data, self.layout[2], split), (".idx", ".bin")
        if self.layout[0] == PIXEL_TEXT:
            path, endings = path.with_suffix(".label"), ("",)
            labels = [int(row[0]) for row in read_numbers(path)] if path.exists() else None
        else:
            dataset = data_utils.load_indexed_dataset(
                str(path), self.label_dictionary, combine=combine
            )
            check_labels(path, dataset, self.label_dictionary)
            offset = self.label_dictionary.nspecial
            labels = dataset and [int(ids[0]) - offset for ids in dataset]
        if labels is None:
            check_unlabelled(path, *endings)
        for number, label in enumerate(labels or [], start=1):
            if not 0 <= label < self.cfg.num_classes:
                raise InputError(
                    f"{path}, example {number}: class {label}, not from 0 to "
                    f"{self.cfg.num_classes - 1} (--num-classes {self.cfg.num_classes}); raise "
                    "--num-classes, or prepare the data again"
                )
        return labels

    def build_model(self, cfg: FairseqDataclass, *args: Any, **kwargs: Any) -> BaseFairseqModel:
        model = super().build_model(cfg, *args, **kwargs)
        needed = "--lra-task retrieval" if self.towers == 2 else "--pixel-input value"
        if (self.towers == 2 or self.pixel_values) and not isinstance(model, SequenceClassifier):
            raise ValueError(
                f"{needed}: {type(model).__name__} only reads single texts of symbols; use a "
                "classifier of this project"
            )
        return model


class Examples(NestedDictionaryDataset):
    """Batches of examples, with inputs of one length per batch if *few_lengths*.

    fairseq drops the examples that remain after batches of a multiple of
    ``--required-batch-size-multiple``. Here, they form a batch as well, so that an accuracy counts
    all examples.

    Args:
        sizes: length of each example (N).
        few_lengths: whether inputs are padded to a few lengths.
    """

    def __init__(self, defn: dict[str, Any], sizes: np.ndarray, few_lengths: bool):
        super().__init__(defn, sizes=[sizes])
        self.few_lengths = few_lengths

    def batch_by_size(self, indices: np.ndarray, *args: Any, **kwargs: Any) -> list[np.ndarray]:
        lengths = self.sizes[0][indices] if self.few_lengths else np.zeros_like(indices)
        batches = []
        for length in np.unique(lengths):
            group = indices[lengths == length]
            full = super().batch_by_size(group, *args, **kwargs)
            remainder = np.setdiff1d(group, np.concatenate(full)) if full else group
            batches += [*full, remainder] if len(remainder) else full
        return batches


def find_layout(folder: Path) -> tuple:
    """Find the layout of a data set: the folders of its first input, second input and labels."""
    for layout in LAYOUTS:
        if (folder / layout[0]).is_dir():
            return layout
    names = ", ".join(layout[0] for layout in LAYOUTS)
    remedy = "pass data with labelled texts"
    if language_pair(folder):
        remedy += "; for sentence pairs, use odeformers translate or analyse attention"
    raise FileNotFoundError(f"{folder} has none of the input folders {names}; {remedy}")


def conflicts(cfg, dictionary: Dictionary, classes: list[str]) -> Iterator[str]:
    """Yield a message for each option that does not fit the data set, with reason and remedy."""
    _, second, _ = find_layout(Path(cfg.data))
    pairs = second is not None and Path(cfg.data, second).is_dir()
    if pairs and cfg.lra_task != "retrieval":
        yield f"--lra-task {cfg.lra_task}: {cfg.data} has pairs of texts; set it to retrieval"
    if cfg.lra_task == "retrieval" and not pairs:
        yield (
            f"--lra-task retrieval: {cfg.data} has no pairs of texts; choose the task of its data"
        )
    if cfg.num_classes > len(classes):
        yield describe_classes(cfg.num_classes, cfg.data, classes)
    if (cfg.init_token or 0) >= len(dictionary):
        size = f"{cfg.data} has {len(dictionary)} symbols"
        yield f"--init-token {cfg.init_token}: {size}; give the number of one"
    if cfg.pixel_input == "value":
        if not dictionary.indices.keys() >= set(INTENSITIES):
            yield (
                f"--pixel-input value: {cfg.data} lacks symbols from 0 to 255; use "
                "--pixel-input token, or data of images"
            )
        if cfg.init_token is not None:
            fault = "it has no intensity for --pixel-input value"
            yield f"--init-token {cfg.init_token}: {fault}; leave the option out"
    if cfg.shorten_method not in ("none", "truncate"):
        yield f"--shorten-method {cfg.shorten_method}: set --max-positions instead"
