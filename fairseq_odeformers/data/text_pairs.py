"""Pairs of texts for next-sentence prediction (Devlin et al. 2019, section 3.1), with masks."""

from typing import Any

import numpy as np
import torch
from fairseq.data import (
    BaseWrapperDataset,
    Dictionary,
    FairseqDataset,
    MaskTokensDataset,
    TokenBlockDataset,
    data_utils,
)
from torch import Tensor

NEXT_SENTENCE = "next_sentence"  # a key of batches, and the head that predicts it
BLANK_SIZE = 1  # the size of a blank line: it only contains </s>
SPECIAL_TOKENS = 3  # tokens of a pair that belong to neither text: [CLS] and two [SEP]


class TextPairs(FairseqDataset):
    """Pairs [CLS] A [SEP] B [SEP] of texts; B follows A in half of them.

    In the other half, B comes from another document. There it follows some text, as every B does,
    so neither A nor B reveals by itself to which half a pair belongs. The halves, the texts B of
    the second half and the order of the pairs depend only on the seed and the epoch.

    Args:
        lines: sentences (1-D tensors), each with ``</s>`` at its end; a blank line ends a document.
        break_mode: ``eos`` makes each line a text; ``complete_doc`` joins lines of a document up to
            half the length of a pair.
        longest: maximum number of tokens per pair; the longer text is truncated at its end.
        dictionary: dictionary with ``<s>`` for [CLS] and ``</s>`` for [SEP].
        seed: seed of all random choices.

    Raises:
        ValueError: fewer than two documents have two texts.
    """

    def __init__(
        self,
        lines: FairseqDataset,
        break_mode: str,
        longest: int,
        dictionary: Dictionary,
        seed: int,
    ):
        super().__init__()
        self.texts = TokenBlockDataset(
            lines,
            lines.sizes,
            (longest - SPECIAL_TOKENS) // 2,
            pad=dictionary.pad(),
            eos=dictionary.eos(),
            break_mode=break_mode,
            document_sep_len=BLANK_SIZE,
        )
        start, _, end = self.texts.block_to_dataset_index.astype(np.int64).T
        documents = np.cumsum(np.asarray(lines.sizes) == BLANK_SIZE)[start]
        self.lengths = self.texts.sizes.astype(np.int64) - (end - start + 1)  # without </s>
        neighbours = documents[:-1] == documents[1:]
        self.first = np.flatnonzero(neighbours & (self.lengths[:-1] > 0) & (self.lengths[1:] > 0))
        documents = documents[self.first]
        # For each pair, the range of pairs from the same document.
        self.start, self.stop = (np.searchsorted(documents, documents, side) for side in SIDES)
        if len(np.unique(documents)) < 2:
            raise ValueError(
                "fewer than two documents have two texts; add documents, separated by blank lines"
            )
        self.longest, self.seed = longest, seed
        self.bos, self.eos = dictionary.bos(), dictionary.eos()
        self.epoch = None
        self.set_epoch(1)

    def set_epoch(self, epoch: int, **unused: Any) -> None:
        """Draw the halves, the texts from other documents and the order of the pairs."""
        if epoch == self.epoch:
            return
        self.epoch, total = epoch, len(self)
        rng = np.random.default_rng((self.seed, epoch))
        self.order = rng.permutation(total)
        replaced = rng.permutation(total)[: total // 2]
        start, stop = self.start[replaced], self.stop[replaced]
        drawn = rng.integers(total - (stop - start))  # among the pairs of other documents
        drawn += np.where(drawn >= start, stop - start, 0)
        self.second = self.first + 1
        self.second[replaced] = self.first[drawn] + 1
        self.follows = np.ones(total, dtype=np.int64)
        self.follows[replaced] = 0
        lengths = self.lengths[self.first] + self.lengths[self.second] + SPECIAL_TOKENS
        self.sizes = np.minimum(lengths, self.longest)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        return False  # sizes differ

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, index: int) -> Tensor:
        a, b = (self.text(side[index]) for side in (self.first, self.second))
        room = self.longest - SPECIAL_TOKENS
        limits = max(room - room // 2, room - len(b)), max(room // 2, room - len(a))
        end = a.new_tensor([self.eos])
        return torch.cat([a.new_tensor([self.bos]), a[: limits[0]], end, b[: limits[1]], end])

    def text(self, index: int) -> Tensor:
        """Return the tokens of a text, without the ends of its lines."""
        tokens = self.texts[index]
        return tokens[tokens != self.eos]

    def num_tokens(self, index: int) -> int:
        return self.sizes[index]

    def size(self, index: int) -> int:
        return self.sizes[index]

    def ordered_indices(self) -> np.ndarray:
        """Return indices by length; pairs of equal length stay in the order of the epoch."""
        return self.order[np.argsort(self.sizes[self.order], kind="stable")]


SIDES = ("left", "right")


class MaskedPairs(BaseWrapperDataset):
    """Batches of pairs with masked tokens, in the form of fairseq's ``masked_lm``.

    A batch also contains ``next_sentence`` (B), with 1 where B follows A. As in BERT, [CLS] and
    [SEP] are never masked.

    Args:
        masking: arguments of fairseq's ``MaskTokensDataset`` for the choice of tokens.
    """

    def __init__(self, pairs: TextPairs, dictionary: Dictionary, **masking: Any):
        super().__init__(pairs)
        self.pad = dictionary.pad()
        self.source, self.target = (
            MaskTokensDataset(
                pairs, dictionary, self.pad, return_masked_tokens=masked_only, **masking
            )
            for masked_only in (False, True)
        )

    def set_epoch(self, epoch: int) -> None:
        for dataset in (self.source, self.target):
            dataset.set_epoch(epoch)

    def __getitem__(self, index: int) -> dict[str, Any]:
        tokens = self.dataset[index]
        special = (tokens == self.dataset.bos) | (tokens == self.dataset.eos)
        return {
            "id": index,
            "source": torch.where(special, tokens, self.source[index]),
            "target": self.target[index].masked_fill(special, self.pad),
            "follows": self.dataset.follows[index],
        }

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        if not samples:
            return {}
        columns = {name: [sample[name] for sample in samples] for name in samples[0]}
        lengths = [len(tokens) for tokens in columns["source"]]
        return {
            "id": torch.tensor(columns["id"]),
            "net_input": {
                "src_tokens": data_utils.collate_tokens(columns["source"], self.pad),
                "src_lengths": torch.tensor(lengths),
            },
            "target": data_utils.collate_tokens(columns["target"], self.pad),
            NEXT_SENTENCE: torch.tensor(columns["follows"]),
            "nsentences": len(samples),
            "ntokens": sum(lengths),
        }
