"""fairseq's Transformer decoder over Macaron layers."""

import torch
from torch import Tensor

from fairseq_odeformers.models.common.transformer import Decoder

from .layer import MacaronDecoderLayer


class MacaronDecoder(Decoder):
    """fairseq's Transformer decoder over Macaron layers."""

    layer_class = MacaronDecoderLayer

    def upgrade_state_dict_named(
        self, state_dict: dict[str, Tensor], name: str
    ) -> dict[str, Tensor]:
        # fairseq takes version 2 for a decoder without final LayerNorm; the authors' code has one.
        if f"{name}.layer_norm.weight" in state_dict:
            state_dict[f"{name}.version"] = torch.Tensor([3])
        return super().upgrade_state_dict_named(state_dict, name)
