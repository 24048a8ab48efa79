"""Digests of dictionaries: a checkpoint only loads with the dictionaries of its training."""

import hashlib

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from fairseq_odeformers.options import SIDES


def digest(dictionary: Dictionary) -> Tensor:
    """Return the first 8 bytes of the SHA-256 of a dictionary's symbols, as integers (8)."""
    symbols = "\n".join(dictionary.symbols).encode()
    return torch.tensor(list(hashlib.sha256(symbols).digest()[:8]))


class DictionaryDigest(nn.Module):
    """Mixin for models that reject checkpoints trained with another dictionary.

    The buffers ``encoder_dictionary_version`` and ``decoder_dictionary_version`` are digests of the
    dictionaries of the encoder and the decoder. Their names contain "version" because fairseq's
    moving average of the weights skips such names. A checkpoint without these buffers is loaded.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for side in SIDES:
            dictionary = getattr(getattr(self, side, None), "dictionary", None)
            if dictionary is not None:
                self.register_buffer(f"{side}_dictionary_version", digest(dictionary))

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args) -> None:
        """Extend torch's hook that loads a module's own parameters and buffers.

        Raises:
            ValueError: the digest of a dictionary differs.
        """
        for side in SIDES:
            version = getattr(self, f"{side}_dictionary_version", None)
            if version is not None:
                saved = state_dict.setdefault(f"{prefix}{side}_dictionary_version", version)
                if saved.tolist() != version.tolist():
                    symbols = getattr(self, side).dictionary.symbols
                    raise ValueError(
                        f"the checkpoint was trained with another {side} dictionary, not with "
                        f"these {len(symbols)} symbols: {' '.join(symbols[4:12])} ...; give the "
                        "data set of its training"
                    )
        super()._load_from_state_dict(state_dict, prefix, *args)
