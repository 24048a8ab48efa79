"""fairseq's encoder layer as a base of layers that compute something else."""

import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import Tensor, nn

from .padding import key_padding_mask


class EncoderLayer(TransformerEncoderLayerBase):
    """fairseq's Transformer layer, always evaluated by its own methods.

    fairseq 0.12.2 has an inference kernel, which knows only the plain residual connections with
    LayerNorm, and copies of the parameters for it; here it has neither.
    """

    _load_from_state_dict = nn.Module._load_from_state_dict

    def __init__(self, cfg: TransformerConfig, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        self.can_use_fastpath = False
        for name in list(self._parameters):
            delattr(self, name)
            self.register_buffer(name, torch.empty(0), persistent=False)

    def forward(
        self, x: Tensor, encoder_padding_mask: Tensor | None, attn_mask: Tensor | None = None
    ) -> Tensor:
        """As fairseq's layer, from and to (T, B, C); a text of padding alone gives numbers."""
        return super().forward(x, key_padding_mask(encoder_padding_mask), attn_mask)
