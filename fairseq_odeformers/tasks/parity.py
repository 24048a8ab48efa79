"""The parity of binary strings (Baier-Reinio and De Sterck 2020, section 4)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset
from fairseq.dataclass import FairseqDataclass
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask, register_task
from omegaconf import II

from fairseq_odeformers.data.classification import class_names, make_dictionary
from fairseq_odeformers.options import option, validate
from fairseq_odeformers.registry import check_kind

CLASSES = ("even", "odd")


@dataclass
class ParityConfig(FairseqDataclass):
    """Options of the strings, and the name of the classification head."""

    # There are two million strings of up to 20 bits.
    parity_max_length: int = option(6, "maximum number of bits per string", at_least=1, at_most=20)
    parity_visible_padding: bool = option(
        False, "pad with the end-of-sentence token, so that models attend to the padding"
    )
    # build_model registers the head under this name, and the criterion uses it.
    classification_head_name: str = II("criterion.classification_head_name")


@register_task("parity", dataclass=ParityConfig)
class ParityTask(FairseqTask):
    """Classification of binary strings by their parity: is the number of ones even or odd?

    The examples are all strings of length 1 to ``--parity-max-length``, each after the
    start-of-sequence token. There are no files, and the command line names no data set. All splits,
    such as ``train`` and ``valid``, contain the same strings. The accuracy therefore shows how well
    a model can learn them, not whether it generalises.
    """

    source_dictionary = make_dictionary("01")
    label_dictionary = make_dictionary(CLASSES)
    target_dictionary = None

    def __init__(self, cfg: ParityConfig, **kwargs: Any):
        super().__init__(cfg)
        validate(cfg, ParityConfig)

    def load_dataset(self, split: str, **kwargs: Any) -> None:
        """Make the strings of a split; all splits are the same."""
        dictionary = self.source_dictionary
        padding = dictionary.eos() if self.cfg.parity_visible_padding else dictionary.pad()
        self.datasets[split] = BinaryStrings(self.cfg.parity_max_length, dictionary, padding)

    def build_model(self, cfg: FairseqDataclass, from_checkpoint: bool = False) -> BaseFairseqModel:
        check_kind(cfg._name, "parity")
        model = super().build_model(cfg, from_checkpoint)
        model.register_classification_head(
            self.cfg.classification_head_name, num_classes=len(CLASSES)
        )
        return model

    def max_positions(self) -> int:
        return 1 + self.cfg.parity_max_length

    def state_dict(self) -> dict[str, list[str]]:
        """Return the state of the task in a checkpoint: the names of the classes."""
        return {"classes": class_names(self.label_dictionary)}


class BinaryStrings(FairseqDataset):
    """All binary strings of length 1 to *longest*, shortest first, and their parities.

    Examples are padded on the right with the token *padding* to the width 1 + *longest*.
    """

    def __init__(self, longest: int, dictionary: Dictionary, padding: int):
        strings = 2 ** (longest + 1) - 2
        zero = dictionary.index("0")
        self.tokens = torch.full((strings, 1 + longest), padding)
        self.tokens[:, 0] = dictionary.bos()
        self.lengths = torch.empty(strings, dtype=torch.long)
        self.parities = torch.empty(strings, dtype=torch.long)
        for length in range(1, longest + 1):
            rows = slice(2**length - 2, 2 ** (length + 1) - 2)
            shifts = torch.arange(length).flip(0)
            bits = torch.arange(2**length).unsqueeze(1) >> shifts & 1  # (2^length, length)
            self.tokens[rows, 1 : 1 + length] = zero + bits
            self.lengths[rows] = 1 + length
            self.parities[rows] = bits.sum(1) % 2

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> int:
        return index

    def collater(self, samples: list[int]) -> dict[str, Any]:
        if not samples:
            return {}
        index = torch.tensor(samples)
        lengths = self.lengths[index]
        return {
            "id": index,
            "net_input": {"src_tokens": self.tokens[index], "src_lengths": lengths},
            "target": self.parities[index],
            "nsentences": len(samples),
            "ntokens": int(lengths.sum()),
        }

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """False: each epoch draws new batches, so that a resumed run draws the same ones."""
        return False

    def ordered_indices(self) -> np.ndarray:
        return np.random.permutation(len(self))

    def batch_by_size(
        self,
        indices: np.ndarray,
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> list[np.ndarray]:
        """Make batches of any size; fairseq would drop strings to make sizes multiples of 8."""
        return super().batch_by_size(indices, max_tokens, max_sentences)

    def num_tokens(self, index: int) -> int:
        return self.tokens.size(1)

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        return np.full(len(indices), self.tokens.size(1))

    size = num_tokens
