"""TransJect (Sengupta et al. 2023) as a causal language model."""

from dataclasses import dataclass, field
from typing import Optional

import torch
import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import (
    FairseqIncrementalDecoder,
    FairseqLanguageModel,
    register_model,
)
from fairseq.modules import SinusoidalPositionalEmbedding
from omegaconf import II
from torch import Tensor, nn

from fairseq_odeformers.modules.orthogonal import OrthogonalMatrices, OrthonormalEmbedding
from fairseq_odeformers.modules.transject_layer import (
    GATES,
    CausalEigenvalues,
    CausalTransJectLayer,
    RandomEigenvalues,
)

from .transject import check_config


@dataclass
class TransJectLanguageModelConfig(FairseqDataclass):
    """The defaults are the paper's model for the Penn Treebank (appendix B.1)."""

    decoder_embed_dim: int = field(default=512, metadata={"help": "width d; even"})
    decoder_layers: int = field(default=6, metadata={"help": "number L of layers"})
    decoder_experts: int = field(default=4, metadata={"help": "number E of experts of a layer"})
    residual_gate: ChoiceEnum(list(GATES)) = field(
        default="tanh", metadata={"help": "keeps the residual weights below 1"}
    )
    max_target_positions: Optional[int] = field(
        default=II("task.max_target_positions"), metadata={"help": "longest text"}
    )
    tokens_per_sample: int = II("task.tokens_per_sample")


class TransJectDecoder(FairseqIncrementalDecoder):
    """The layers of TransJect with statistics of what was read so far.

    The eigenvalues are those of X_0^T X_0 over the tokens up to the present one, and the weights of
    the experts depend on the maximum over these. So a token sees none after it, and generation
    keeps one sum and, a layer, one maximum: a state whose size does not depend on the length.
    """

    def __init__(self, cfg, dictionary):
        super().__init__(dictionary)
        width, layers, experts = cfg.decoder_embed_dim, cfg.decoder_layers, cfg.decoder_experts
        self.padding_idx = dictionary.pad()
        self.max_target_positions = cfg.max_target_positions
        self.embed_tokens = OrthonormalEmbedding(len(dictionary), width // 2, self.padding_idx)
        self.embed_positions = SinusoidalPositionalEmbedding(
            width // 2, self.padding_idx, cfg.max_target_positions + self.padding_idx + 1
        )
        self.per_layer = 2 * experts + 2
        self.orthogonal = OrthogonalMatrices(1 + layers * self.per_layer, width)
        self.eigenvalues = self.build_eigenvalues(width)
        self.layers = nn.ModuleList(
            CausalTransJectLayer(width, layers, cfg.residual_gate) for _ in range(layers)
        )
        self.output_projection = nn.Linear(width, len(dictionary), bias=False)
