"""Digests of dictionaries: a checkpoint loads only with the dictionaries of its training run."""

import hashlib
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from fairseq_odeformers.options import SIDES

FACTOR = 8  # fairseq-preprocess pads a dictionary to a multiple of this number of symbols


def digest(symbols: Sequence[str]) -> Tensor:
    """Return the first 8 bytes of the SHA-256 of a dictionary's symbols, as integers (8)."""
    return torch.tensor(list(hashlib.sha256("\n".join(symbols).encode()).digest()[:8]))


def restore_padding(symbols: Sequence[str]) -> Iterator[list[str]]:
    """Yield the dictionaries from which *symbols* may come by renaming ``madeupword0000``, ...

    fairseq pads a dictionary with these symbols, and a task may append others, such as ``<mask>``.
    """
    for end in range(len(symbols), len(symbols) - FACTOR, -1):
        for count in range(1, FACTOR):
            padding = [f"madeupword{index:04}" for index in range(count)]
            yield [*symbols[: end - count], *padding, *symbols[end:]]


class DictionaryDigest(nn.Module):
    """Mixin for models that reject checkpoints trained with a different dictionary.

    Symbols that were called ``madeupword0000`` and so on in training may have different names.
    The buffers ``encoder_dictionary_version`` and ``decoder_dictionary_version`` are digests of the
    dictionaries of the encoder and the decoder. Their names contain "version" because fairseq's
    moving average of the weights skips such names. A checkpoint without these buffers is loaded.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for side in SIDES:
            dictionary = getattr(getattr(self, side, None), "dictionary", None)
            if dictionary is not None:
                self.register_buffer(f"{side}_dictionary_version", digest(dictionary.symbols))

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args) -> None:
        """Extend torch's hook that loads a module's own parameters and buffers.

        Raises:
            ValueError: the digest of a dictionary differs.
        """
        for side in SIDES:
            name = f"{side}_dictionary_version"
            version = getattr(self, name, None)
            if version is not None:
                saved = state_dict.setdefault(f"{prefix}{name}", version).tolist()
                state_dict[f"{prefix}{name}"] = version
                symbols = getattr(self, side).dictionary.symbols
                if saved != version.tolist() and all(
                    saved != digest(padded).tolist() for padded in restore_padding(symbols)
                ):
                    raise ValueError(
                        f"the checkpoint was trained with a different {side} dictionary, not with "
                        f"these {len(symbols)} symbols: {' '.join(symbols[4:12])} ...; pass the "
                        "data set of its training run"
                    )
        super()._load_from_state_dict(state_dict, prefix, *args)
