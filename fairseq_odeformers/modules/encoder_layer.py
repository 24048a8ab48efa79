"""fairseq's encoder layer as a base of layers that compute something else."""

import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import nn


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
